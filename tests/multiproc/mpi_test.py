#!/usr/bin/env python3
"""Programs under the launchers of Open MPI and MPICH on one host: with MPI, without, and with the wrong one (case C72).

mpi_test.py ALL_REDUCE_PERF RANK_PROGRAM LIBRARY_FOLDER MPI_PROGRAM_C. What is not installed is skipped, case by case.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import launchers

ROOT = Path(__file__).resolve().parent.parent.parent
PERF, RANK_PROGRAM, LIBRARY, SOURCE = sys.argv[1:5]
TIMEOUT = 60
SWEEP = "-b 8 -e 4K -f 8 -n 1 -w 0".split()
# What the test runner itself may have been started with.
LAUNCHER_NAMES = ("OMPI_", "PMI", "MPI_LOCAL", "SLURM_", "HYD", "OMNES_")


def clean_environment(**more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER_NAMES)}
    return {**environment, "OMNES_INIT_TIMEOUT_MS": "20000", "OMNES_TIMEOUT_MS": "20000", **more}


def results_of(output):
    """(code, text) of each line "result CODE TEXT"."""
    return [(int(code), text) for code, text in re.findall(r"^result (\d+) ?(.*)$", output, re.M)]


class LauncherCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="omnes-mpi-")
        cls.programs = {}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def launcher(self, kind):
        found = launchers.find(kind)
        if found is None:
            self.skipTest(f"there is no mpirun of {kind}")
        return found

    def program(self, kind):
        """mpi_program built with that MPI."""
        if kind not in self.programs:
            compiler = self.launcher(kind).compiler()
            if compiler is None:
                self.skipTest(f"there is no mpicc of {kind}")
            output = str(Path(self.folder.name) / f"mpi_program.{kind}")
            command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", SOURCE, f"-I{ROOT}/include", "-o", output,
                       f"-L{LIBRARY}", "-lomnes", f"-Wl,-rpath,{LIBRARY}"]
            built = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(0, built.returncode, built.stderr)
            self.programs[kind] = output
        return self.programs[kind]

    def run_ranks(self, kind, ranks, *command, **variables):
        """Output and exit code of mpirun."""
        words = [*self.launcher(kind).command(ranks), *command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT, env=clean_environment(**variables))
        return done.stdout, done.returncode


class WithMpi(LauncherCase):
    def test_world_halves_and_alone(self):
        for kind in launchers.KINDS:
            for scenario in ("all", "early"):
                with self.subTest(kind=kind, scenario=scenario):
                    output, code = self.run_ranks(kind, 4, self.program(kind), scenario)
                    self.assertEqual(0, code, output)
                    self.assertEqual([(0, "")] * 4, results_of(output), output)

    def test_environment_beside_mpi(self):
        """PMIx is counted, the socket of PMI is left alone: MPI works before, between and after."""
        # After MPI_Finalize MPICH may have closed the socket that names its job.
        for kind, scenario in (("openmpi", "env-after"), ("mpich", "env")):
            with self.subTest(kind=kind):
                output, code = self.run_ranks(kind, 3, self.program(kind), scenario)
                self.assertEqual(0, code, output)
                self.assertEqual([(0, "")] * 3, results_of(output), output)

    def test_one_rank_is_no_mistake(self):
        for kind in launchers.KINDS:
            with self.subTest(kind=kind):
                output, code = self.run_ranks(kind, 1, self.program(kind))
                self.assertEqual((0, [(0, "")]), (code, results_of(output)), output)

    def test_null_on_one_rank_ends_all(self):
        for kind in launchers.KINDS:
            with self.subTest(kind=kind):
                output, code = self.run_ranks(kind, 3, self.program(kind), "null")
                self.assertNotEqual(0, code)
                # The launcher may end the others once the first has failed.
                self.assertTrue(results_of(output), output)
                for result, text in results_of(output):
                    self.assertEqual(4, result)
                    self.assertIn("rank 1: comm is NULL", text)

    def test_rank_zero_without_an_id_ends_all(self):
        for kind in launchers.KINDS:
            with self.subTest(kind=kind):
                output, code = self.run_ranks(kind, 3, self.program(kind), OMNES_IFNAME="nosuch0")
                self.assertNotEqual(0, code)
                self.assertTrue(results_of(output), output)
                for result, text in results_of(output):
                    self.assertEqual(5, result)
                    self.assertIn("rank 0:", text)
                    self.assertIn("nosuch0", text)


class WrongMpi(LauncherCase):
    """C72: every process runs alone as rank 0 of 1."""

    def test_program_of_one_under_the_launcher_of_the_other(self):
        for kind, other, variable in (("openmpi", "mpich", "PMI_SIZE says"),
                                      ("mpich", "openmpi", "OMPI_COMM_WORLD_SIZE says")):
            with self.subTest(program=kind, launcher=other):
                output, code = self.run_ranks(other, 4, self.program(kind))
                self.assertNotEqual(0, code, output)
                self.assertTrue(results_of(output), output)
                for result, text in results_of(output):
                    self.assertEqual(5, result, output)
                    self.assertRegex(text, variable)
                    self.assertIn("that 4 processes were started", text)
                    self.assertIn("built for another MPI", text)


class WithoutMpi(LauncherCase):
    def test_benchmark_has_all_ranks(self):
        for kind in launchers.KINDS:
            for option in ([], ["-t", "1"], ["-t", "2"]):
                with self.subTest(kind=kind, option=option):
                    output, code = self.run_ranks(kind, 4, PERF, *option, *SWEEP)
                    self.assertEqual(0, code, output)
                    self.assertEqual(8 if option == ["-t", "2"] else 4, output.count("#  Rank"), output)
                    self.assertEqual(1, output.count("# Out of bounds values : 0 OK"), output)

    def test_process_that_believes_to_be_alone_is_an_error(self):
        for kind in launchers.KINDS:
            with self.subTest(kind=kind):
                output, code = self.run_ranks(kind, 4, PERF, "-t", "1", *SWEEP, OMNES_RANK="0", OMNES_NRANKS="1")
                self.assertNotEqual(0, code, output)
                self.assertRegex(output, r"says 4 processes, but omnes found this one alone \(rank 0 of 1\)")
                self.assertNotIn("Out of bounds", output)

    def test_two_jobs_at_once_do_not_meet(self):
        for kind in launchers.KINDS:
            with self.subTest(kind=kind):
                words = [*self.launcher(kind).command(2), RANK_PROGRAM, "few"]
                jobs = [subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, env=clean_environment()) for _ in range(3)]
                for job in jobs:
                    output, _ = job.communicate(timeout=TIMEOUT)
                    self.assertEqual([(0, "all sums are right")] * 2, results_of(output), output)


class Pmix(LauncherCase):
    def has_pmix(self):
        """Whether ranks under Open MPI meet through PMIx; else the reason is in the log."""
        output, _ = self.run_ranks("openmpi", 2, RANK_PROGRAM, "few", OMNES_DEBUG="INFO")
        self.assertEqual([(0, "all sums are right")] * 2, results_of(output), output)
        match = re.search(r"no meeting through the launcher's PMIx: (.*)", output)
        if match:
            self.skipTest(match.group(1))
        return output

    def test_ranks_meet_with_a_real_secret(self):
        output = self.has_pmix()
        self.assertEqual(2, output.count("rank 0 has said through the launcher's PMIx"), output)
        self.assertNotIn("the key is derived", output)
        output, code = self.run_ranks("openmpi", 3, RANK_PROGRAM, "few", OMNES_REQUIRE_SECRET="1")
        self.assertEqual(0, code, output)
        self.assertEqual([(0, "all sums are right")] * 3, results_of(output), output)

    def test_own_address_wins(self):
        self.has_pmix()
        output, code = self.run_ranks("openmpi", 2, RANK_PROGRAM, "few", OMNES_DEBUG="INFO",
                                      OMNES_COMM_ID="unix:@omnes-mpi-test-" + os.urandom(8).hex())
        self.assertEqual(0, code, output)
        self.assertNotIn("through the launcher's PMIx", output)
        self.assertIn("the key is derived from OMNES_COMM_ID", output)

    def test_several_meetings_in_one_process(self):
        self.has_pmix()
        output, code = self.run_ranks("openmpi", 3, RANK_PROGRAM, "three-meetings")
        self.assertEqual(0, code, output)
        self.assertEqual([(0, "three communicators")] * 3, results_of(output), output)

    def test_rank_zero_that_never_comes_is_a_time_out(self):
        self.has_pmix()
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec sleep 2; fi; exec "{RANK_PROGRAM}" few'
        output, _ = self.run_ranks("openmpi", 3, "sh", "-c", script, OMNES_INIT_TIMEOUT_MS="500")
        self.assertEqual(2, len(results_of(output)), output)
        for result, text in results_of(output):
            self.assertEqual(8, result)
            self.assertIn("rank 0 has not said through PMIx where the ranks meet", text)

    def test_rank_that_never_comes_is_named(self):
        self.has_pmix()
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 2; fi; exec "{RANK_PROGRAM}" few'
        output, _ = self.run_ranks("openmpi", 3, "sh", "-c", script, OMNES_INIT_TIMEOUT_MS="700")
        self.assertEqual(2, len(results_of(output)), output)
        for result, text in results_of(output):
            self.assertEqual(8, result)
            self.assertIn("rank 1", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
