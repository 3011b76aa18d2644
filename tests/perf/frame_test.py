"""Runs the frame of perf/ on a stand-in for the library and checks what it must notice.

usage: frame_test.py PROGRAM
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
SMALL = ["-b", "64", "-e", "64", "-n", "5"]


def run(arguments, stdout=subprocess.PIPE, **environment):
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("OMNES_", "OMPI_", "PMI", "SLURM_"))}
    clean.pop("WORLD_SIZE", None)
    clean.update(environment)
    return subprocess.run([PROGRAM, *arguments], env=clean, stdout=stdout, stderr=subprocess.PIPE,
                          text=True, timeout=60)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def rows(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


class Frame(unittest.TestCase):
    def test_every_pair_is_right(self):
        for ranks in (1, 2, 5):
            done = run(["-t", str(ranks), "-b", "1", "-e", "300", "-f", "7", "-d", "all", "-o",
                        "all", "-n", "1"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("# Out of bounds values : 0 OK", done.stdout)
            self.assertEqual(len(rows(done.stdout)), 3 * (8 * 9 + 6 * 6))

    def test_faults_are_counted_by_element(self):
        for fault, wrong in (("flip", ("1", "1")), ("guard", ("1", "1")), ("input", ("1", "0"))):
            done = run(["-t", "3", *SMALL], FAKE_OMNES_FAULT=fault)
            self.assertEqual(done.returncode, 7, fault)
            row = rows(done.stdout)[0]
            self.assertEqual((row[8], row[12]), wrong, fault)
            self.assertIn("FAILED", done.stdout)
            self.assertIn("rank 1", done.stderr)

    def test_no_check_is_not_a_pass(self):
        done = run(["-t", "3", "-c", "0", *SMALL], FAKE_OMNES_FAULT="flip")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(rows(done.stdout)[0][8], "N/A")

    def test_library_error(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            done = run(["-t", "2", "-b", "64", "-e", "64", "-n", "30", "-J", path],
                       FAKE_OMNES_FAULT="error")
            self.assertEqual(done.returncode, 3)
            self.assertIn("rank 1: omnesAllReduce: remote error: rank 0 died, they say",
                          done.stderr)
            self.assertTrue(load(path)["errors"])

    def test_watchdog(self):
        done = run(["-t", "2", "-b", "64", "-e", "64", "-n", "30", "-T", "1"],
                   FAKE_OMNES_FAULT="hang")
        self.assertEqual(done.returncode, 4)
        self.assertIn("-T", done.stderr)

    def test_alone_under_a_launcher(self):
        for size, rank in (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
                           ("PMI_SIZE", "PMI_RANK"), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
                           ("WORLD_SIZE", "RANK")):
            done = run(SMALL, **{size: "4", rank: "2"})
            self.assertEqual(done.returncode, 6)
            self.assertIn(size, done.stderr)
            self.assertEqual(run(SMALL, **{size: "4"}).returncode, 0)
            self.assertEqual(run(["-t", "2", *SMALL], **{size: "1", rank: "0"}).returncode, 0)

    def test_ways_to_run(self):
        for arguments in (["-p", "1"], ["-z", "1"], ["-z", "3"], ["-m", "3"], ["-a", "0"],
                          ["-a", "3"], ["-C", "1"], ["-S", "1"], ["-I", "1"], ["--fresh"],
                          ["-M", "1"], ["-u", "1"], ["-w", "0"], ["-N", "2"], ["-c", "3"],
                          ["--fresh", "-I", "1", "-K", "2"]):
            done = run(["-t", "2", *SMALL, *arguments])
            self.assertEqual(done.returncode, 0, (arguments, done.stderr))
            self.assertIn("0 OK", done.stdout)

    def test_too_slow(self):
        done = run(["-t", "2", *SMALL, "--min_bw", "1000"])
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stdout, r"Avg bus bandwidth    : \S+ FAILED")

    def test_cap(self):
        done = run(["-b", "64", "-e", "8191T", "-f", "1000000000", "-n", "1", "-c", "0"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"# maxBytes capped to \d+: \d+ does not fit")
        done = run(["-b", "8000T", "-e", "8000T"])
        self.assertEqual(done.returncode, 6)
        self.assertIn("-b (--minbytes)", done.stderr)

    def test_full_stdout(self):
        for arguments in (["-t", "2", *SMALL], ["--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = run(arguments, stdout=full)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn("stdout", done.stderr)

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            for _ in range(2):
                done = run(["-t", "2", "-b", "8", "-e", "32", "-f", "2", "-J", path])
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["out.json", "out.json.1"])
            self.check_json(load(path))

    def check_json(self, data):
        self.assertEqual(data["version"], 3)
        for key in ("program", "args", "env", "omnes_version", "build", "cpu", "start_time",
                    "end_time", "errors"):
            self.assertIn(key, data)
        self.assertEqual(data["config"]["nthreads"], 2)
        self.assertEqual([d["rank"] for d in data["config"]["devices"]], [0, 1])
        self.assertEqual([r["size"] for r in data["results"]], [8, 16, 32])
        row = data["results"][0]
        self.assertEqual((row["count"], row["type"], row["redop"], row["root"]),
                         (2, "float", "sum", -1))
        for side in ("out_of_place", "in_place"):
            for key in ("time", "alg_bw", "bus_bw", "nwrong", "p50", "p99"):
                self.assertIsInstance(row[side][key], (int, float))
            self.assertAlmostEqual(row[side]["alg_bw"], row["size"] / row[side]["time"] / 1e3)
            self.assertAlmostEqual(row[side]["bus_bw"], row[side]["alg_bw"])
            per_iter = row[side + "_per_iter"]
            self.assertEqual(len(per_iter["times_us"]), 20)
            self.assertLessEqual(per_iter["min"], per_iter["p50"])
            self.assertLessEqual(per_iter["p99"], per_iter["max"])
        self.assertEqual(data["out_of_bounds"], {"count": 0, "okay": True})
        self.assertTrue(data["average_bus_bandwidth"]["okay"])


if __name__ == "__main__":
    unittest.main()
