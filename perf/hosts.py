#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces joined by veth pairs and a bridge, for benchmarks and tests.

    with hosts.World(3) as world:
        world.popen(1, ["ip", "address"])   # runs on host 1

A host has a network, a host name (host0, host1, ...), a /sys and an /etc/hosts of its own; processes and files are those of
the machine. Host i has 10.200.0.(i+1) and fd6f:6d6e:6573::(i+1); names lead to the addresses. The bridge is in a namespace
of its own, so nothing is seen or changed in the machine's own network, the addresses cannot collide with its own, and two
worlds do not meet.

Nothing has a name in the file system. A namespace is held by one process that ends when the maker of the world ends,
however that comes about; then the kernel takes everything away. What still runs on a host keeps its part until it ends.

Root only: World() raises Unavailable with the reason where that, or a tool, is missing. One thread at a time.
"""
import ctypes
import os
import shutil
import signal
import subprocess
import sys

MAX_HOSTS = 64
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x00020000, 0x04000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
PR_SET_PDEATHSIG = 1
NAMESPACES = (("net", CLONE_NEWNET), ("uts", CLONE_NEWUTS), ("mnt", CLONE_NEWNS))
_libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """Why there can be no hosts here."""


def _call(name, *arguments):
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source, target, kind, flags):
    _call("mount", source, target, kind, ctypes.c_ulong(flags), None)


NO_NAMESPACES, IN_CHROOT = 1, 2  # exit codes of the child below


def why_unavailable():
    """The reason why World() would fail for want of rights or tools; empty when it would not."""
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if shutil.which("ip") is None:
        return "the program ip is missing (package iproute2)"
    if shutil.which("nsenter") is None:
        return "the program nsenter is missing (package util-linux)"
    # Root in a container may still not be allowed to; a child finds out.
    child = os.fork()
    if child == 0:
        os._exit(_try_to_part())
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if found == IN_CHROOT:
        return "this is a chroot, and who enters another mount namespace leaves it"
    return "" if found == 0 else "this root may not make network namespaces (a container?)"


def _try_to_part():
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) != 0:
        return NO_NAMESPACES
    root = os.stat("/")
    try:
        _mount(None, b"/", None, MS_REC | MS_PRIVATE)
        # Entering a mount namespace, be it the own one, goes to its root.
        with open("/proc/self/ns/mnt") as own:
            _call("setns", own.fileno(), CLONE_NEWNS)
    except OSError:
        return IN_CHROOT
    return 0 if os.path.samestat(root, os.stat("/")) else IN_CHROOT


def ipv4(index):
    return f"10.200.0.{index + 1}"


def ipv6(index):
    return f"fd6f:6d6e:6573::{index + 1:x}"


def spread(ranks, count, given=""):
    """How many of `ranks` ranks each of `count` hosts gets: as `given` ("3,1") says, else evenly, the first ones more.

    ValueError says what is wrong with the numbers.
    """
    if not 1 <= count <= MAX_HOSTS:
        raise ValueError(f"{count} hosts: 1 to {MAX_HOSTS} are possible")
    if not given:
        if ranks < count:
            raise ValueError(f"{ranks} ranks are fewer than {count} hosts; give each host at least one")
        return [ranks // count + (1 if index < ranks % count else 0) for index in range(count)]
    if not all(word.isdigit() and int(word) > 0 for word in given.split(",")):
        raise ValueError(f"ranks per host: \"{given}\" is no list of numbers from 1, like 3,1")
    counts = [int(word) for word in given.split(",")]
    if len(counts) != count:
        raise ValueError(f"ranks per host: \"{given}\" is for {len(counts)} hosts, and there are {count}")
    if sum(counts) != ranks:
        raise ValueError(f"ranks per host: \"{given}\" adds up to {sum(counts)}, and there are {ranks} ranks")
    return counts


def enter(pid):
    """This process moves to the host that process `pid` holds. The working folder stays by its path."""
    folder = os.getcwd()
    files = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), flag) for name, flag in NAMESPACES]
    for file, flag in files:
        _call("setns", file, flag)
        os.close(file)
    os.chdir(folder)


class World:
    """Hosts 0 to count - 1. `rate` ("1gbit") limits what each host sends and receives; None = as fast as it goes."""

    def __init__(self, count, use_ipv4=True, use_ipv6=True, rate=None):
        if not 1 <= count <= MAX_HOSTS:
            raise ValueError(f"{count} hosts: 1 to {MAX_HOSTS} are possible")
        reason = why_unavailable()
        if reason:
            raise Unavailable(reason)
        self.count = count
        self.holders = []  # of the hosts; the last one holds the bridge
        self._uses = (use_ipv4, use_ipv6)
        self._life, self._alive = os.pipe()
        try:
            for index in range(count + 1):
                self.holders.append(self._start_holder(index))
            self._wire(rate)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Lets go of all hosts; processes on them should have ended."""
        if self._alive is not None:
            os.close(self._alive)
            os.close(self._life)
            self._alive = None
            for pid in self.holders:
                os.waitpid(pid, 0)

    def address(self, index):
        """The first address of the host, as OMNES_COMM_ID wants it before ":port"."""
        return ipv4(index) if self._uses[0] else f"[{ipv6(index)}]"

    def popen(self, index, command, preexec_fn=None, **more):
        """subprocess.Popen of a command on a host; its pid is that of the command. The kernel kills it with this process."""
        pid, maker = self.holders[index], os.getpid()

        def prepare():
            enter(pid)
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != maker:  # it died before the request
                os._exit(1)
            if preexec_fn is not None:
                preexec_fn()

        return subprocess.Popen(command, preexec_fn=prepare, **more)

    def map(self):
        """Name and addresses of every host with its holder: "host0=PID 10.200.0.1=PID ..."; tests/hosts/agent reads it."""
        words = []
        for index in range(self.count):
            for name in (f"host{index}", ipv4(index), ipv6(index)):
                words.append(f"{name}={self.holders[index]}")
        return " ".join(words)

    def _start_holder(self, index):
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(self._alive)
                os.close(ready)
                os.setsid()  # a terminal's Ctrl-C is not for it
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                self._become_host(index)
                os.write(tell, b"+")
                os.close(tell)
                # Its maker's output is not kept open by it: someone may wait for the end of that.
                null = os.open(os.devnull, os.O_RDWR)
                for number in (0, 1, 2):
                    os.dup2(null, number)
                os.closerange(3, self._life)
                os.closerange(self._life + 1, 1 << 20)
                os.read(self._life, 1)  # returns when the last copy of the other end is closed
                code = 0
            except OSError as error:
                os.write(tell, str(error).encode())
            finally:
                os._exit(code)
        os.close(tell)
        said = b""
        while part := os.read(ready, 4096):
            said += part
        os.close(ready)
        if said != b"+":
            os.waitpid(pid, 0)
            raise Unavailable(f"host {index}: {said.decode(errors='replace') or 'its process ended'}")
        return pid

    def _become_host(self, index):
        _call("unshare", CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS)
        if index == self.count:
            return
        name = f"host{index}".encode()
        _call("sethostname", name, ctypes.c_size_t(len(name)))
        _mount(None, b"/", None, MS_REC | MS_PRIVATE)
        # The file lives on a file system that has no place any more, and so leaves no trace.
        _mount(b"omnes-hosts", b"/tmp", b"tmpfs", 0)
        with open("/tmp/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n::1 localhost\n")
            for other in range(self.count):
                for used, address in zip(self._uses, (ipv4(other), ipv6(other))):
                    if used:
                        file.write(f"{address} host{other}\n")
        _mount(b"/tmp/hosts", b"/etc/hosts", None, MS_BIND)
        _call("umount2", b"/tmp", MNT_DETACH)
        # /sys/class/net shows the network of whoever mounted it.
        _mount(b"sysfs", b"/sys", b"sysfs", 0)

    def _ip(self, holder, lines, tool="ip"):
        command = ["nsenter", f"--target={holder}", "--net", tool, "-batch", "-"]
        result = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
        if result.returncode != 0:
            raise Unavailable(f"{tool} failed: {result.stderr.strip()}")

    def _wire(self, rate):
        bridge = self.holders[self.count]
        lines = ["link add bridge type bridge", "link set bridge up"]
        for index in range(self.count):
            lines += [f"link add port{index} type veth peer name eth0 netns {self.holders[index]}",
                      f"link set port{index} master bridge", f"link set port{index} up"]
        self._ip(bridge, lines)
        for index in range(self.count):
            lines = ["link set lo up", "link set eth0 up"]
            if self._uses[0]:
                lines.append(f"address add {ipv4(index)}/24 dev eth0")
            if self._uses[1]:  # nodad: usable at once
                lines.append(f"address add {ipv6(index)}/64 dev eth0 nodad")
            self._ip(self.holders[index], lines)
        if rate is not None:
            limit = f"root tbf rate {rate} burst 256kb latency 50ms"
            self._ip(bridge, [f"qdisc add dev port{index} {limit}" for index in range(self.count)], "tc")
            for index in range(self.count):
                self._ip(self.holders[index], [f"qdisc add dev eth0 {limit}"], "tc")


def main():
    """hosts.py N COMMAND...: a shell or a program on host 0 of N, for trying things out."""
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        print("usage: perf/hosts.py N [COMMAND...]   (as root; runs on host 0; HOSTS_MAP has all hosts)", file=sys.stderr)
        return 2
    try:
        with World(int(sys.argv[1])) as world:
            environment = dict(os.environ, HOSTS_MAP=world.map())
            return world.popen(0, sys.argv[2:] or ["bash"], env=environment).wait()
    except (Unavailable, ValueError) as error:
        print(f"hosts: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
