#!/usr/bin/env python3
"""perf/hosts.py itself: hosts reach each other and nobody else, and nothing of them is left, however their maker ends.

Exits 77 (skipped) where there can be no hosts.
"""
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "perf"))
import hosts  # noqa: E402

# Answers one connection at each address, then says who called.
SERVER = """
import socket, sys
listeners = []
for address in sys.argv[1:]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listeners.append(socket.create_server((address, 29500), family=family))
print("listening", flush=True)
for listener in listeners:
    print(listener.accept()[1][0], flush=True)
"""
CLIENT = "import socket, sys\nfor address in sys.argv[1:]: socket.create_connection((address, 29500), timeout=10).close()"


def namespaces(holders):
    return {os.readlink(f"/proc/{pid}/ns/net") for pid in holders}


def namespaces_in_use():
    """The network namespaces that some process is in."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                found.add(os.readlink(f"/proc/{entry}/ns/net"))
            except OSError:  # it has just ended
                pass
    return found


def gone(names, seconds):
    deadline = time.monotonic() + seconds
    while names & namespaces_in_use():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class WorldTest(unittest.TestCase):
    def output(self, world, host, *command):
        child = world.popen(host, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text, _ = child.communicate(timeout=20)
        self.assertEqual(0, child.returncode, text)
        return text

    def test_hosts_reach_each_other(self):
        with hosts.World(3) as world:
            server = world.popen(2, [sys.executable, "-c", SERVER, hosts.ipv4(2), hosts.ipv6(2)], stdout=subprocess.PIPE, text=True)
            self.assertEqual("listening\n", server.stdout.readline())
            self.output(world, 0, sys.executable, "-c", CLIENT, hosts.ipv4(2), hosts.ipv6(2))
            callers, _ = server.communicate(timeout=20)
            self.assertEqual([hosts.ipv4(0), hosts.ipv6(0)], callers.split())
            names = [self.output(world, host, "hostname").strip() for host in range(3)]
            self.assertEqual(["host0", "host1", "host2"], names)
            self.assertEqual(["eth0", "lo"], sorted(self.output(world, 1, "ls", "/sys/class/net").split()))
            self.assertIn(hosts.ipv4(2), self.output(world, 1, "getent", "ahostsv4", "host2"))

    def test_a_host_keeps_the_working_folder_and_sees_no_other_network(self):
        with hosts.World(1) as world:
            self.assertEqual(os.getcwd(), self.output(world, 0, "pwd").strip())
            self.assertEqual("", self.output(world, 0, "ip", "route", "show", "default"))

    def test_one_family(self):
        with hosts.World(1, use_ipv4=False) as world:
            text = self.output(world, 0, "ip", "-oneline", "address", "show", "dev", "eth0")
            self.assertIn("inet6 " + hosts.ipv6(0), text)
            self.assertNotIn("inet ", text)
            self.assertEqual(f"[{hosts.ipv6(0)}]", world.address(0))

    def test_rate(self):
        with hosts.World(1, rate="100mbit") as world:
            self.assertIn("tbf", self.output(world, 0, "tc", "qdisc", "show", "dev", "eth0"))

    def test_nothing_is_left_after_close(self):
        with hosts.World(2) as world:
            names = namespaces(world.holders)
            self.assertEqual(3, len(names))
            self.assertNotIn(os.readlink("/proc/self/ns/net"), names)
        self.assertTrue(gone(names, 10))

    def test_nothing_is_left_after_kill(self):
        # The maker dies without a chance to tidy, with a program running on a host.
        script = "import hosts, sys\nworld = hosts.World(2)\nworld.popen(1, ['sleep', '600'])\n" \
                 "print(*world.holders, flush=True)\nsys.stdin.read()"
        maker = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT / "perf", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        names = namespaces(int(word) for word in maker.stdout.readline().split())
        self.assertEqual(3, len(names))
        maker.send_signal(signal.SIGKILL)
        maker.communicate(timeout=20)
        self.assertTrue(gone(names, 10), "namespaces outlive their maker")

    def test_holders_do_not_keep_the_output_open(self):
        script = "import hosts, os\nworld = hosts.World(1)\nos.kill(os.getpid(), 9)"
        begin = time.monotonic()
        subprocess.run([sys.executable, "-c", script], cwd=ROOT / "perf", capture_output=True, timeout=20)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_failed_command_says_so_and_leaves_nothing(self):
        with hosts.World(1) as world:
            names = namespaces(world.holders)
            with self.assertRaises(FileNotFoundError):
                world.popen(0, ["/nonexistent/program"])
        self.assertTrue(gone(names, 10))


class LaunchTest(unittest.TestCase):
    def launch(self, *arguments):
        return subprocess.run([sys.executable, str(ROOT / "perf/launch.py"), *arguments], capture_output=True, text=True, timeout=30)

    def test_ranks_are_where_they_should_be(self):
        script = 'echo "$OMNES_RANK/$OMNES_NRANKS $(hostname) $OMNES_COMM_ID"'
        result = self.launch("-n", "5", "--hosts", "3", "--ranks-per-host", "1,2,2", "--", "sh", "-c", script)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertEqual([f"{rank}/5 host{host} 10.200.0.1:29500" for rank, host in enumerate((0, 1, 1, 2, 2))],
                         sorted(result.stdout.splitlines()))

    def test_first_failure_decides(self):
        result = self.launch("-n", "2", "--hosts", "2", "--", "sh", "-c", "if [ $OMNES_RANK = 1 ]; then exit 7; fi; exec sleep 60")
        self.assertEqual(7, result.returncode, result.stderr)
        self.assertIn("rank 1 failed first (exit code 7)", result.stderr)

    def test_program_that_does_not_exist(self):
        self.assertEqual(127, self.launch("-n", "2", "--hosts", "2", "--", "/nonexistent/program").returncode)


if __name__ == "__main__":
    reason = hosts.why_unavailable()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
