"""The MPI launchers of this machine: Open MPI's mpirun (4 and 5) and MPICH's."""
import os
import re
import shutil
import subprocess

KINDS = ("openmpi", "mpich")


class Launcher:
    """One mpirun. `major` is the version of Open MPI; 0 for MPICH."""

    def __init__(self, kind, program, major):
        self.kind, self.program, self.major = kind, program, major

    def command(self, ranks, placed=None, agent=None):
        """mpirun for `ranks` ranks here, or on hosts as `placed` says ([("host0", 3), ...]) by way of the remote agent."""
        where = ",".join(f"{name}:{count}" for name, count in placed or [])
        if self.kind == "mpich":
            remote = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", where] if placed else []
            return [self.program, *remote, "-n", str(ranks)]
        # By slots: Open MPI 5 would fill the cores of the first host, beyond its slots.
        words = [self.program, "--map-by", "slot:OVERSUBSCRIBE" if placed else ":OVERSUBSCRIBE", "-np", str(ranks)]
        if os.geteuid() == 0:
            words.append("--allow-run-as-root")
        if placed:
            setting = ["--prtemca", "plm_ssh_agent"] if self.major >= 5 else ["--mca", "plm_rsh_agent"]
            words += [*setting, agent, "--host", where]
        return words

    def variables(self, **values):
        """Options that give the ranks variables: the environment of mpirun does not reach other hosts by itself."""
        option = "-x" if self.kind == "openmpi" else "-env"
        words = []
        for name, value in values.items():
            words += [option, f"{name}={value}"] if self.kind == "openmpi" else [option, name, value]
        return words

    def compiler(self):
        """Its mpicc, or None."""
        beside = os.path.join(os.path.dirname(self.program), os.path.basename(self.program).replace("mpirun", "mpicc"))
        return beside if os.access(beside, os.X_OK) else None


def find(kind):
    """The launcher, or None. `mpirun` alone may be either's."""
    for name in (f"mpirun.{kind}", "mpirun"):
        program = shutil.which(name)
        if program is None:
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if kind == "mpich" and "HYDRA" in version:
            return Launcher(kind, program, 0)
        match = re.search(r"\((?:Open MPI|OpenRTE)\) (\d+)", version)
        if kind == "openmpi" and match:
            return Launcher(kind, program, int(match.group(1)))
    return None
