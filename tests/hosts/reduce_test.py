#!/usr/bin/env python3
"""all_reduce_perf across hosts with uneven ranks: started by hand, by the mpirun of Open MPI and by that of MPICH.

reduce_test.py ALL_REDUCE_PERF. Exits 77 (skipped) where there can be no hosts; a launcher that is not there is skipped.

Each run must have no wrong value, ranks on the hosts where they belong, and bytes over the wire: an all-reduce of S bytes
makes every host send at least S, whatever the algorithm, and the counters of its network card must show them.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "perf"), str(ROOT / "tests/multiproc")]
import hosts  # noqa: E402
import launch_test  # noqa: E402
import launchers  # noqa: E402

PERF = os.path.abspath(sys.argv[1])
AGENT = str(ROOT / "tests/hosts/agent.py")
TIMEOUT = 60
UNEVEN = ((3, 1), (1, 2, 2))
# The ranks of both hosts share the cores of one machine, so the sweeps are those of launch_test.py with fewer sizes.
EVERYTHING = "-b 1 -e 1M -f 9 -d all -o all -n 1 -w 0".split()
LARGE = "-b 4M -e 64M -f 4 -d float -o sum -n 1 -w 0".split()
BFLOAT = "-b 4M -e 64M -f 16 -d bfloat16 -o sum -n 1 -w 0".split()
SMALL = "-b 8 -e 1M -f 64 -d float -o all -n 1 -w 0".split()


def bytes_sent(world, host):
    reader = world.popen(host, ["cat", "/sys/class/net/eth0/statistics/tx_bytes"], stdout=subprocess.PIPE)
    return int(reader.communicate(timeout=20)[0])


def bytes_reduced(table):
    """The sizes of a table's rows, out of place and in place."""
    return sum(2 * int(line.split()[0]) for line in table.splitlines() if line and not line.startswith("#"))


class ReduceCase(unittest.TestCase):
    def check(self, world, counts, sweep, run):
        """`run` returns (output, standard error, exit code) of a benchmark whose rank 0 writes the table."""
        before = [bytes_sent(world, host) for host in range(len(counts))]
        table, errors, code = run()
        self.assertEqual(0, code, table[-3000:] + errors[-3000:])
        result = subprocess.CompletedProcess([], code, table, errors)
        self.assertEqual("", launch_test.check([result], sum(counts), sweep))
        places = re.findall(r"^#  Rank +(\d+) .* on +(\S+) device", table, re.M)
        expected = [f"host{host}" for host, count in enumerate(counts) for _ in range(count)]
        self.assertEqual(expected, [place for _, place in sorted(places, key=lambda pair: int(pair[0]))])
        for host in range(len(counts)):
            sent = bytes_sent(world, host) - before[host]
            self.assertGreater(sent, bytes_reduced(table), f"host{host} has sent too little for all of it to have gone over tcp")

    def run_command(self, world, command, **variables):
        environment = dict(os.environ, OMNES_TIMEOUT_MS="30000", OMNES_INIT_TIMEOUT_MS="20000", **variables)
        child = world.popen(0, command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
        try:
            output, errors = child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            output, errors = child.communicate()
            self.fail(f"not done after {TIMEOUT} s:\n{output[-2000:]}{errors[-2000:]}")
        return output, errors, child.returncode


class ByHand(ReduceCase):
    def run_ranks(self, world, counts, sweep, **variables):
        """One process a rank, with the three variables that a person would set."""
        children = []
        for rank, host in enumerate(host for host, count in enumerate(counts) for _ in range(count)):
            environment = dict(os.environ, OMNES_COMM_ID=f"{world.address(0)}:29500", OMNES_RANK=str(rank),
                               OMNES_NRANKS=str(sum(counts)), OMNES_TIMEOUT_MS="30000", OMNES_INIT_TIMEOUT_MS="20000",
                               **variables)
            children.append(world.popen(host, [PERF, *sweep], env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        table, errors, code = "", "", 0
        try:
            for child in children:
                output, error = child.communicate(timeout=TIMEOUT)
                table, errors, code = table + output, errors + error, code or child.returncode
        finally:
            for child in children:
                child.kill()
        return table, errors, code

    def test_everything_uneven(self):
        for counts in UNEVEN:
            with hosts.World(len(counts)) as world:
                for sweep in (EVERYTHING, LARGE, BFLOAT):
                    with self.subTest(counts=counts, sweep=" ".join(sweep)):
                        self.check(world, counts, sweep, lambda: self.run_ranks(world, counts, sweep))

    def test_ipv6_only(self):
        with hosts.World(2, use_ipv4=False) as world:
            self.check(world, (2, 1), SMALL, lambda: self.run_ranks(world, (2, 1), SMALL))

    def test_log_names_the_transport_of_each_peer(self):
        with hosts.World(2) as world:
            _, log, code = self.run_ranks(world, (2, 1), SMALL[:2] + ["-e", "8"], OMNES_DEBUG="INFO")
            self.assertEqual(0, code, log)
            self.assertRegex(log, r"(?m)^host0:.* rank 0 of 3 connected to rank 1 by shm, rank 2 by tcp$")
            self.assertRegex(log, r"(?m)^host1:.* rank 2 of 3 connected to ranks 0, 1 by tcp$")

    def test_forced_algorithms_uneven(self):
        """Each of them is the one that runs, for all sizes, and what one collective lacks is said once."""
        sweep = "-b 4 -e 1M -f 64 -d float -o sum -n 1 -w 0".split()
        for counts in UNEVEN:
            with hosts.World(len(counts)) as world:
                for algorithm in ("ring", "recursive_doubling", "circulant", "hierarchical"):
                    with self.subTest(counts=counts, algorithm=algorithm):
                        logs = []

                        def run():
                            table, errors, code = self.run_ranks(world, counts, sweep, OMNES_ALGO=algorithm.upper(),
                                                                 OMNES_DEBUG="INFO")
                            logs.append(errors)
                            return table, errors, code

                        self.check(world, counts, sweep, run)
                        chosen = re.findall(r" AllReduce of \d+ \S+ by (\S+) in ", logs[0])
                        self.assertEqual({algorithm}, set(chosen), logs[0][-3000:])
                        # The benchmark's barriers.
                        told = re.findall(r"Barrier by \S+ instead of what was asked for: OMNES_ALGO", logs[0])
                        self.assertEqual(1, len(told), logs[0][-3000:])

    def test_launcher_and_command(self):
        """perf/launch.py --hosts, which perf/run --hosts ends in."""
        command = [sys.executable, str(ROOT / "perf/launch.py"), "-n", "4", "--hosts", "2", "--ranks-per-host", "3,1", "--",
                   PERF, *SMALL]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual("", launch_test.check([done], 4, SMALL))
        self.assertEqual(3, len(re.findall(r"^#  Rank .* on +host0 device", done.stdout, re.M)), done.stdout)


class ByMpirun(ReduceCase):
    def run_mpirun(self, kind, counts, sweeps, with_address):
        launcher = launchers.find(kind)
        if launcher is None:
            self.skipTest(f"there is no mpirun of {kind}")
        placed = [(f"host{host}", count) for host, count in enumerate(counts)]
        with hosts.World(len(counts)) as world:
            values = {"OMNES_TIMEOUT_MS": "30000", "OMNES_INIT_TIMEOUT_MS": "20000"}
            if with_address:
                values["OMNES_COMM_ID"] = f"{world.address(0)}:29500"
            start = [*launcher.command(sum(counts), placed, AGENT), *launcher.variables(**values), PERF]
            for sweep in sweeps:
                with self.subTest(counts=counts, sweep=" ".join(sweep)):
                    self.check(world, counts, sweep,
                               lambda: self.run_command(world, [*start, *sweep], HOSTS_MAP=world.map()))

    def test_open_mpi(self):
        for counts in UNEVEN:
            self.run_mpirun("openmpi", counts, (SMALL, LARGE), with_address=True)

    def test_mpich(self):
        for counts in UNEVEN:
            self.run_mpirun("mpich", counts, (SMALL, LARGE), with_address=True)

    def test_open_mpi_without_an_address(self):
        """The ranks meet through the launcher's PMIx."""
        launcher = launchers.find("openmpi")
        if launcher is None:
            self.skipTest("there is no mpirun of openmpi")
        placed = [("host0", 1), ("host1", 2)]
        with hosts.World(2) as world:
            command = [*launcher.command(3, placed, AGENT), *launcher.variables(OMNES_REQUIRE_SECRET="1", OMNES_DEBUG="INFO"),
                       PERF, *SMALL]
            log = []

            def run():
                table, errors, code = self.run_command(world, command, HOSTS_MAP=world.map())
                log.append(errors)
                if "built without the headers of PMIx" in errors or "libpmix.so.2" in errors:
                    self.skipTest("there is no PMIx")
                return table, errors, code

            self.check(world, (1, 2), SMALL, run)
            self.assertEqual(3, log[0].count("rank 0 has said through the launcher's PMIx: tcp:10.200.0.1:"), log[0])

    def test_mpich_without_an_address_says_what_to_set(self):
        launcher = launchers.find("mpich")
        if launcher is None:
            self.skipTest("there is no mpirun of mpich")
        with hosts.World(2) as world:
            command = [*launcher.command(2, [("host0", 1), ("host1", 1)], AGENT), PERF, *SMALL]
            table, errors, code = self.run_command(world, command, HOSTS_MAP=world.map())
            self.assertNotEqual(0, code)
            self.assertIn("set OMNES_COMM_ID=host:port", table + errors)


if __name__ == "__main__":
    reason = hosts.why_unavailable()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
