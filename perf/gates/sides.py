"""The processes that a gate compares: resident ranks, driven over named pipes (see worker.h)."""

import os
import select
import socket
import subprocess
import tempfile
import time


class GateError(Exception):
    """The gate could not be run; not a verdict."""


def allowed_cpus(wanted):
    """The first `wanted` processors that this process may use."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < wanted:
        raise GateError(f"{wanted} processors are needed, {len(cpus)} are allowed")
    return cpus[:wanted]


class Side:
    """The resident ranks of one library."""

    def __init__(self, name, nranks, cpus, program, launcher=None, environment=None,
                 deadline=120.0):
        self.name = name
        self.deadline = deadline
        self.folder = tempfile.TemporaryDirectory(prefix="omnes-gate-")
        self.commands = []
        self.buffer = b""
        self.processes = []
        for rank in range(nranks):
            self.commands.append(self._pipe(f"cmd.{rank}"))
        self.out = self._pipe("out")
        arguments = [program, self.folder.name, cpus]
        self.log = open(os.path.join(self.folder.name, "log"), "w+b")
        if launcher is not None:
            self._start([*launcher, *arguments], environment or {})
            return
        meeting = meeting_point()
        for rank in range(nranks):
            self._start(arguments, {"OMNES_RANK": str(rank), "OMNES_NRANKS": str(nranks),
                                    **(environment or {}),
                                    "OMNES_COMM_ID": meeting})

    def _pipe(self, name):
        path = os.path.join(self.folder.name, name)
        os.mkfifo(path)
        # Open for both, so that neither this nor the worker's open waits for the other.
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def _start(self, arguments, environment):
        self.processes.append(subprocess.Popen(
            arguments, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log))

    def _failure(self, what):
        self.log.seek(0)
        return GateError(f"{self.name}: {what}\n{self.log.read().decode(errors='replace')}")

    def ask(self, command):
        """Sends a command to all ranks; the numbers of rank 0's answer."""
        for pipe in self.commands:
            os.write(pipe, (command + "\n").encode())
        end = time.monotonic() + self.deadline
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.out], [], [], 0.2)
            if ready:
                self.buffer += os.read(self.out, 4096)
            elif any(process.poll() is not None for process in self.processes):
                raise self._failure(f"a rank ended during '{command}'")
            elif time.monotonic() > end:
                raise self._failure(f"no answer to '{command}' within {self.deadline:.0f} s")
        line, _, self.buffer = self.buffer.partition(b"\n")
        numbers = [float(word) for word in line.split()[1:]]
        if numbers[-1] != 0:
            raise self._failure(f"{numbers[-1]:.0f} wrong elements in '{command}'")
        return numbers

    def close(self):
        """Ends the ranks that this side started, and only those."""
        for pipe in self.commands:
            os.write(pipe, b"quit\n")
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in [*self.commands, self.out]:
            os.close(pipe)
        self.log.close()
        self.folder.cleanup()


def meeting_point():
    """A free local port; the ranks of one run meet there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def open_mpi(name, program, cpus, nranks, settings=()):
    """Ranks under Debian's mpirun; it binds nothing, the workers pin themselves."""
    launcher = ["mpirun", "-np", str(nranks), "--bind-to", "none"]
    if nranks > len(os.sched_getaffinity(0)):
        launcher += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    for setting in settings:
        key, _, value = setting.partition("=")
        launcher += ["--mca", key, value]
    environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return Side(name, nranks, cpus, program, launcher, environment)
