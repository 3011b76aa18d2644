"""Case C71: sizes on the command line are read right or refused by name, by the real binary.

usage: sizes_test.py ALL_REDUCE_PERF
"""

import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMNES_", "OMPI_", "PMI", "SLURM_"))}
    return subprocess.run([PROGRAM, "-t", "2", "-n", "1", "-w", "0", *arguments], env=clean, capture_output=True,
                          text=True, timeout=100)


def sizes(done):
    return [int(line.split()[0]) for line in done.stdout.splitlines() if line and not line.startswith("#")]


class Sizes(unittest.TestCase):
    def test_step_of_two_mebibytes_gives_four_rows(self):
        done = run("-b", "64M", "-e", "70M", "-i", "2M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sizes(done), [mebi << 20 for mebi in (64, 66, 68, 70)])
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)

    def test_units(self):
        for text, expected in (("1k", 1024), ("1K", 1024), ("1KiB", 1024), ("1.5K", 1536), ("0.5M", 512 << 10)):
            done = run("-b", text, "-e", text)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sizes(done), [expected], text)

    def test_half_a_gibibyte(self):
        done = run("-b", "1K", "-e", "0.5G", "-i", "0.5G", "-c", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sizes(done), [1024])

    def test_bad_sizes_are_refused_by_name(self):
        for option in ("-b", "-e", "-i"):
            for text in ("1.5X", "-5", "", "2MM"):
                done = run(option + text if text.startswith("-") else option, *([] if text.startswith("-") else [text]))
                self.assertNotEqual(done.returncode, 0, (option, text))
                self.assertEqual(sizes(done), [], (option, text))
                self.assertIn(option, done.stderr + done.stdout, (option, text))
                self.assertIn(text, done.stderr + done.stdout)

    def test_more_than_the_memory_is_capped_and_said(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            total = int(file.readline().split()[1]) << 10
        if total > 64 << 30:
            self.skipTest("this machine has more memory than the test asks for")
        done = run("-b", "1K", "-e", "64G", "-f", "1000000000", "-c", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sizes(done)[0], 1024)
        self.assertIn("capped to", done.stdout)
        self.assertIn(str(64 << 30) + " does not fit", done.stdout)


if __name__ == "__main__":
    unittest.main()
