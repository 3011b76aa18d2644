#!/usr/bin/env python3
"""Tests of the two commands themselves: how cases are counted, how processes are launched, what is refused."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "perf"))
import driver  # noqa: E402
import hosts  # noqa: E402

LAUNCH = [sys.executable, str(ROOT / "perf/launch.py")]


def entry(result, stdout="", stderr=""):
    return {"result": result, "stdout": stdout, "stderr": stderr}


class CountTest(unittest.TestCase):
    def test_gtest(self):
        self.assertEqual((7, 0, 0), driver.count_cases(entry("OK", "[==========] 7 tests ran.\n[  PASSED  ] 7 tests.\n")))
        self.assertEqual((1, 0, 0), driver.count_cases(entry("OK", "[  PASSED  ] 1 test.\n")))
        text = "[  PASSED  ] 5 tests.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.b\n" \
               "[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.c\n[  FAILED  ] A.d\n"
        self.assertEqual((5, 2, 1), driver.count_cases(entry("FAIL", text)))

    def test_unittest(self):
        text = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"
        self.assertEqual((5, 3, 1), driver.count_cases(entry("FAIL", "", text)))
        self.assertEqual((9, 0, 0), driver.count_cases(entry("OK", "", "Ran 9 tests in 0.1s\n\nOK\n")))

    def test_death_on_the_way_is_a_failure(self):
        text = "[ RUN      ] A.a\n[       OK ] A.a (0 ms)\n[ RUN      ] A.b\n"
        self.assertEqual((1, 1, 0), driver.count_cases(entry("TIMEOUT", text)))
        self.assertEqual((0, 1, 0), driver.count_cases(entry("ERROR")))

    def test_all_cases_pass_but_the_exit_code_does_not(self):
        self.assertEqual((3, 1, 0), driver.count_cases(entry("FAIL", "[  PASSED  ] 3 tests.\n", "LeakSanitizer: ...\n")))

    def test_others_count_once(self):
        self.assertEqual((1, 0, 0), driver.count_cases(entry("OK", "fine\n")))
        self.assertEqual((0, 0, 1), driver.count_cases(entry("SKIP")))

    def test_last_line(self):
        counts = driver.Counts()
        counts.add(3, 0, 0)
        self.assertEqual("3 passed, 0 failed", counts.line())
        counts.add(0, 1, 2)
        self.assertEqual("3 passed, 1 failed, 2 skipped", counts.line())

    def test_selection(self):
        tests = [{"name": "a", "suite": ["omnes:unit"]}, {"name": "b", "suite": ["omnes:unit", "omnes:no-tsan"]},
                 {"name": "c", "suite": ["omnes:long-unit"]}, {"name": "d", "suite": ["omnes:plan"]}]
        self.assertEqual(["a", "b", "d"], driver.selected(tests, "release", None))
        self.assertEqual(["c"], driver.selected(tests, "release", ["long-unit"]))
        self.assertEqual(["a"], driver.selected(tests, "thread", ["unit"]))


class LaunchTest(unittest.TestCase):
    def launch(self, count, script, **more):
        return subprocess.run(LAUNCH + ["-n", str(count), "--", "bash", "-c", script], capture_output=True, text=True,
                              timeout=30, **more)

    def test_environment_of_each_rank(self):
        result = self.launch(3, 'echo "$OMNES_RANK/$OMNES_NRANKS $OMNES_COMM_ID"')
        self.assertEqual(0, result.returncode, result.stderr)
        lines = sorted(result.stdout.split("\n")[:-1])
        self.assertEqual(["0/3", "1/3", "2/3"], [line.split()[0] for line in lines])
        self.assertEqual(1, len({line.split()[1] for line in lines}))
        self.assertRegex(lines[0], r" 127\.0\.0\.1:\d+$")

    def test_first_failure_decides_and_ends_the_others(self):
        begin = time.monotonic()
        result = self.launch(3, 'if [ $OMNES_RANK = 1 ]; then exit 7; fi; exec sleep 60')
        self.assertEqual(7, result.returncode, result.stderr)
        self.assertIn("rank 1 failed first (exit code 7)", result.stderr)
        self.assertLess(time.monotonic() - begin, 20)

    def test_death_by_signal(self):
        self.assertEqual(128 + signal.SIGKILL, self.launch(2, 'kill -KILL $$').returncode)

    def test_program_that_does_not_exist(self):
        result = subprocess.run(LAUNCH + ["-n", "2", "--", "/nonexistent/program"], capture_output=True, text=True, timeout=30)
        self.assertEqual(127, result.returncode)

    def test_interrupt_reaches_every_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f'trap "touch {folder}/got$OMNES_RANK; exit 0" INT; touch {folder}/up$OMNES_RANK; while :; do sleep 0.05; done'
            process = subprocess.Popen(LAUNCH + ["-n", "2", "--", "bash", "-c", script])
            deadline = time.monotonic() + 20
            while len(list(Path(folder).glob("up*"))) < 2:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            self.assertEqual(128 + signal.SIGINT, process.wait(20))
            self.assertEqual(["got0", "got1"], sorted(path.name for path in Path(folder).glob("got*")))


class SpreadTest(unittest.TestCase):
    def test_even_and_given(self):
        self.assertEqual([2, 2], hosts.spread(4, 2))
        self.assertEqual([2, 2, 1], hosts.spread(5, 3))
        self.assertEqual([3, 1], hosts.spread(4, 2, "3,1"))

    def test_what_does_not_add_up_is_said(self):
        for ranks, count, given, text in ((4, 0, "", "1 to 64"), (99, 65, "", "1 to 64"), (2, 3, "", "fewer than 3 hosts"),
                                          (4, 2, "3,0", "list of numbers"), (4, 2, "3,x", "list of numbers"),
                                          (4, 2, "4", "is for 1 hosts"), (4, 2, "3,2", "adds up to 5")):
            with self.subTest(given=given, count=count), self.assertRaisesRegex(ValueError, text):
                hosts.spread(ranks, count, given)

    def test_launcher_refuses(self):
        for arguments, text in ((["--ranks-per-host", "1,1"], "go with --hosts"), (["--hosts", "3"], "fewer than 3 hosts"),
                                (["--hosts", "2", "--plain"], "exclude each other")):
            with self.subTest(arguments=arguments):
                result = subprocess.run(LAUNCH + ["-n", "2", *arguments, "--", "true"], capture_output=True, text=True, timeout=30)
                self.assertEqual(2, result.returncode)
                self.assertIn(text, result.stderr)


class CommandTest(unittest.TestCase):
    def run_perf(self, *arguments):
        return subprocess.run([str(ROOT / "perf/run"), *arguments], capture_output=True, text=True, timeout=30,
                              env={"PATH": os.environ["PATH"]})

    def test_refusals_come_before_any_work(self):
        for arguments, text in ((["none_perf"], "no binary \"none_perf\"; there are:"), (["--procs", "0"], "--procs takes"),
                                (["--np"], "--np takes"), (["--np", "2", "--procs", "2"], "exclude each other"),
                                (["--hosts", "0"], "--hosts takes"), (["--ranks-per-host", "1,1"], "goes with --hosts")):
            with self.subTest(arguments=arguments):
                result = self.run_perf(*arguments)
                self.assertEqual(2, result.returncode)
                self.assertIn(text, result.stderr)
                self.assertNotIn("==", result.stdout)

    def test_hosts_that_do_not_add_up(self):
        if os.geteuid() != 0:
            result = self.run_perf("--hosts", "2")
            self.assertIn("needs root", result.stderr)
            return
        for arguments, text in ((["--hosts", "2", "--np", "2"], "exclude each other"),
                                (["--hosts", "2", "--ranks-per-host", "1,1,1"], "is for 3 hosts"),
                                (["--hosts", "2", "--procs", "3", "--ranks-per-host", "1,1"], "adds up to 2"),
                                (["--hosts", "5", "--procs", "2"], "fewer than 5 hosts")):
            with self.subTest(arguments=arguments):
                result = self.run_perf(*arguments)
                self.assertEqual(2, result.returncode)
                self.assertIn(text, result.stderr)
                self.assertNotIn("==", result.stdout)

    def test_help(self):
        result = self.run_perf("--help")
        self.assertEqual(0, result.returncode)
        self.assertIn("--procs N", result.stdout)


if __name__ == "__main__":
    unittest.main()
