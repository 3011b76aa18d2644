"""all_reduce_perf as threads, as processes by hand and under mpirun: right for every rank count, type and operator.

Under mpirun all types and operators come with one rank count only.

usage: launch_test.py [--light] ALL_REDUCE_PERF threads|processes|openmpi|mpich [RANKS...]
--light: fewer rank counts and sizes, for builds with a sanitizer.
Exits 77 (skipped) when there is no mpirun of that kind.
"""
import os
import subprocess
import sys

import launchers

SWEEPS = [
    "-b 1 -e 1M -f 3 -d all -o all -n 1 -w 0".split(),
    "-b 4M -e 64M -f 4 -d float -o sum -n 1 -w 0".split(),
    "-b 4M -e 64M -f 4 -d bfloat16 -o sum -n 1 -w 0".split(),
]
# A launcher changes how ranks start and meet, which no type or operator depends on: all of these with one number of ranks.
LAUNCHED_SWEEPS = [
    "-b 1 -e 1M -f 9 -d float -o sum -n 1 -w 0".split(),
    "-b 4M -e 64M -f 16 -d bfloat16 -o sum -n 1 -w 0".split(),
]
LAUNCHED_FULLY = 3
LIGHT_SWEEPS = [
    "-b 1 -e 64K -f 5 -d all -o all -n 1 -w 0".split(),
    "-b 4M -e 4M -d bfloat16 -o sum -n 1 -w 0".split(),
]
TIMEOUT = 120
# An operation that does not come to its end says why before this test gives up.
os.environ["OMNES_TIMEOUT_MS"] = "60000"


def run_threads(binary, ranks, sweep):
    return [subprocess.run([binary, "-t", str(ranks), *sweep], capture_output=True, text=True, timeout=TIMEOUT)]


def fresh_address():
    return "unix:@omnes-launch-test-%d-%s" % (os.getpid(), os.urandom(8).hex())


def run_processes(binary, ranks, sweep):
    address = fresh_address()
    children = []
    for rank in range(ranks):
        environment = dict(os.environ, OMNES_COMM_ID=address, OMNES_RANK=str(rank), OMNES_NRANKS=str(ranks))
        children.append(subprocess.Popen([binary, *sweep], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                         env=environment))
    results = []
    for child in children:
        try:
            output, _ = child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            for other in children:
                other.kill()
            raise
        results.append(subprocess.CompletedProcess(child.args, child.returncode, output, ""))
    return results


def run_mpirun(launcher, light):
    def run(binary, ranks, sweep):
        environment = dict(os.environ)
        if light:  # then nothing loads libpmix, which leaks a few bytes by itself; mpi_test.py has it without sanitizers
            environment["OMNES_COMM_ID"] = fresh_address()
        command = [*launcher.command(ranks), binary, *sweep]
        return [subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, env=environment)]

    return run


def sweeps_for(way, ranks, light):
    if light:
        return LIGHT_SWEEPS
    return LAUNCHED_SWEEPS if way in ("openmpi", "mpich") and ranks != LAUNCHED_FULLY else SWEEPS


def check(results, ranks, sweep):
    """The text of what is wrong, or empty."""
    for result in results:
        if result.returncode != 0:
            return f"exit code {result.returncode}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
    table = results[0].stdout
    if "# Out of bounds values : 0 OK" not in table:
        return "no line '# Out of bounds values : 0 OK':\n" + table[-2000:]
    rows = [line for line in table.splitlines() if line and not line.startswith("#")]
    wrong = [row for row in rows if int(row.split()[8]) != 0 or int(row.split()[12]) != 0]
    if wrong or not rows:
        return f"{len(wrong)} of {len(rows)} rows are wrong:\n" + "\n".join(wrong[:10])
    devices = sum(1 for line in table.splitlines() if line.startswith("#  Rank"))
    if devices != ranks:
        return f"{devices} ranks took part instead of {ranks}"
    return ""


def main():
    words = sys.argv[1:]
    light = words[0] == "--light"
    binary, way, *rest = words[1:] if light else words
    counts = [int(word) for word in rest] or ([1, 3] if light else [1, 2, 3, 4, 5, 7, 8])
    run = {"threads": run_threads, "processes": run_processes}.get(way)
    if run is None:
        launcher = launchers.find(way)
        if launcher is None:
            print(f"skipped: there is no mpirun of {way}")
            return 77
        run = run_mpirun(launcher, light)
    failed = 0
    for ranks in counts:
        for sweep in sweeps_for(way, ranks, light):
            problem = check(run(binary, ranks, sweep), ranks, sweep)
            failed += bool(problem)
            print(f"{'FAILED' if problem else 'ok'}: {ranks} ranks by {way}: {' '.join(sweep)}  {problem}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
