"""Every binary, with every type, operator and root: no wrong element, and every row there.

usage: binaries_test.py ALL_REDUCE_PERF ...
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:]]
del sys.argv[1:]
NAMES = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather",
         "scatter", "sendrecv", "hypercube"}
WITHOUT_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}


def name_of(program):
    return os.path.basename(program).removesuffix("_perf")


def run(program, *arguments):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMNES_", "OMPI_", "PMI", "SLURM_"))}
    return subprocess.run([program, *arguments], env=clean, capture_output=True, text=True, timeout=200)


class Binaries(unittest.TestCase):
    def test_all_eleven_are_there(self):
        self.assertEqual({name_of(program) for program in PROGRAMS}, NAMES)

    def test_everything_is_right(self):
        for program in PROGRAMS:
            name = name_of(program)
            for ranks in (1, 2, 4) if name == "hypercube" else (1, 2, 3):
                with self.subTest(name=name, ranks=ranks):
                    done = run(program, "-t", str(ranks), "-b", "0", "-e", "40000", "-i", "19999", "-n", "1", "-w", "0",
                               "-d", "all", "-o", "all", "-r", "-1")
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn("# Out of bounds values : 0 OK", done.stdout)
                    rows = [line.split() for line in done.stdout.splitlines() if line and line[0] != "#"]
                    self.assertGreaterEqual(len(rows), 14 * 3)
                    for row in rows:
                        self.assertEqual(row[8], "0", row)
                        self.assertEqual(row[12], "N/A" if name in WITHOUT_IN_PLACE else "0", row)

    def test_json_says_what_was_not_run(self):
        for program in PROGRAMS:
            with self.subTest(name=name_of(program)), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "out.json")
                done = run(program, "-t", "2", "-b", "64", "-e", "64", "-n", "2", "-J", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(path, encoding="utf-8") as file:
                    result = json.load(file)["results"][0]
                self.assertEqual(result["in_place"] is None, name_of(program) in WITHOUT_IN_PLACE)

    def test_hypercube_of_three_is_refused(self):
        program = next(p for p in PROGRAMS if name_of(p) == "hypercube")
        done = run(program, "-t", "3", "-b", "64", "-e", "64")
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertIn("power of two", done.stderr)


if __name__ == "__main__":
    unittest.main()
