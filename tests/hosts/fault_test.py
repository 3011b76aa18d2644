#!/usr/bin/env python3
"""A rank that dies on another host: every other rank learns of it, in time and by name.

fault_test.py RANK_PROGRAM. Exits 77 (skipped) where there can be no hosts.
"""
import re
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "perf"))
import hosts  # noqa: E402
from ranks import Ranks  # noqa: E402

PROGRAM = sys.argv[1]
REMOTE_ERROR = 6
SLACK = 5  # ranks share cores here (docs/CONTRIBUTING.md)
DEATH_SECONDS = 2.0 * SLACK  # the promise over TCP, with slack
START_SECONDS = 30


class DeathTest(unittest.TestCase):
    def kill_one(self, counts, victim, scenario):
        total = sum(counts)
        with hosts.World(len(counts)) as world, \
                Ranks(world, counts, [PROGRAM, scenario], OMNES_TIMEOUT_MS="60000", OMNES_INIT_TIMEOUT_MS="20000") as ranks:
            self.assertTrue(ranks.wait_for_text("running", START_SECONDS), ranks.report())
            begin = time.monotonic()
            ranks.kill(victim)
            ranks.wait_all(DEATH_SECONDS + 5)
            for rank in range(total):
                if rank == victim:
                    continue
                self.assertIsNotNone(ranks.ended[rank], f"rank {rank} hangs\n{ranks.report()}")
                found = re.search(r"result (\d+) (.*)", ranks.outputs[rank])
                self.assertTrue(found, ranks.report())
                self.assertEqual(REMOTE_ERROR, int(found.group(1)), ranks.report())
                self.assertIn(f"rank {victim}", found.group(2), ranks.report())
                self.assertLess(ranks.ended[rank] - begin, DEATH_SECONDS, f"rank {rank}")

    def test_killed_in_large_operations(self):
        for counts, victim in (((3, 1), 3), ((3, 1), 0), ((1, 2, 2), 2)):
            with self.subTest(counts=counts, victim=victim):
                self.kill_one(counts, victim, "loop")

    def test_killed_in_small_operations(self):
        self.kill_one((2, 1), 2, "loop-small")

    def test_killed_with_a_living_child(self):
        """The child has copies of the dead rank's sockets; only the last rank of the scenario has one."""
        self.kill_one((2, 1), 2, "forked-child")


if __name__ == "__main__":
    reason = hosts.why_unavailable()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
