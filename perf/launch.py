#!/usr/bin/env python3
"""Starts N processes of a program as the ranks of one communicator, without MPI.

Each gets OMNES_RANK, OMNES_NRANKS and OMNES_COMM_ID=127.0.0.1:PORT, PORT being free when the launch began. An interrupt
is passed on to all ranks. When one fails the others get a moment to report the failure in their own words, then
they are ended. The exit code is that of the rank that failed first (128 + signal when a signal ended it).

The kernel ends the ranks when this launcher is killed. (The children of a rank are the rank's affair.)

With --hosts H the ranks run on H hosts of hosts.py, in order: the first ones on host 0, where OMNES_COMM_ID leads. The hosts
are made before and gone afterwards.

With --plain one process is started with the environment as it is. perf/run starts mpirun so, since the one of Open MPI 5
may end its whole process group when a rank fails, and that would be the caller's.
"""
import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

import hosts

PR_SET_PDEATHSIG = 1
HOST_PORT = 29500  # nobody else is on a host that was just made
GRACE_SECONDS = 3.0  # a rank learns of a dead peer within one second; more than that is a hang


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def exit_code(status):
    return status if status >= 0 else 128 - status


def ending_with(launcher):
    """What a child does before it becomes a rank: it asks to be killed when the launcher dies."""
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here, since little is safe between fork and exec

    def prepare():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != launcher:  # it died before the request
            os._exit(1)

    return prepare


def start(ranks, count, command, plain):
    prepare = ending_with(os.getpid())
    if plain:
        ranks.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare))
        return
    where = os.environ.get("OMNES_COMM_ID") or f"127.0.0.1:{free_port()}"
    for rank in range(count):
        environment = dict(os.environ, OMNES_COMM_ID=where, OMNES_RANK=str(rank), OMNES_NRANKS=str(count))
        # A session of its own: a terminal's Ctrl-C then reaches the ranks once, from here, and a rank's children end with it.
        ranks.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                                      preexec_fn=prepare))


def start_on_hosts(ranks, world, counts, command):
    """The ranks of host 0 first, then those of host 1, and so on."""
    where = f"{world.address(0)}:{HOST_PORT}"
    for host, count in enumerate(counts):
        for _ in range(count):
            environment = dict(os.environ, OMNES_COMM_ID=where, OMNES_RANK=str(len(ranks)), OMNES_NRANKS=str(sum(counts)))
            ranks.append(world.popen(host, command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True))


def send(ranks, number):
    for process in ranks:
        if process.poll() is None:
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass


def wait_all(ranks):
    """Polls until every rank has ended; returns the first failure's exit code, or 0."""
    failed = None
    deadline = None
    while True:
        running = 0
        for rank, process in enumerate(ranks):
            status = process.poll()
            if status is None:
                running += 1
            elif status != 0 and failed is None:
                failed = exit_code(status)
                deadline = time.monotonic() + GRACE_SECONDS
                how = f"exit code {status}" if status > 0 else f"signal {-status}"
                what = f"rank {rank} failed first" if len(ranks) > 1 else "the program failed"
                print(f"launch: {what} ({how})", file=sys.stderr, flush=True)
        if running == 0:
            return failed or 0
        if deadline is not None and time.monotonic() > deadline:
            print(f"launch: ending {running} ranks that still run", file=sys.stderr, flush=True)
            send(ranks, signal.SIGTERM)
            time.sleep(0.5)
            send(ranks, signal.SIGKILL)
            deadline = None
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=1, metavar="N", help="number of processes")
    parser.add_argument("--hosts", type=int, metavar="H", help="spread the processes over H network namespaces (as root)")
    parser.add_argument("--ranks-per-host", default="", metavar="N,N,...", help="how many on each host; default: even")
    parser.add_argument("--ipv6", action="store_true", help="hosts that have IPv6 only")
    parser.add_argument("--plain", action="store_true", help="one process, no variables set")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if options.n < 1 or not command:
        parser.error("give -n N (at least 1) and a program")
    counts = []
    if options.hosts is None and (options.ranks_per_host or options.ipv6):
        parser.error("--ranks-per-host and --ipv6 go with --hosts")
    if options.hosts is not None:
        if options.plain:
            parser.error("--plain and --hosts exclude each other")
        try:
            counts = hosts.spread(options.n, options.hosts, options.ranks_per_host)
        except ValueError as error:
            parser.error(str(error))
    interrupts = []
    ranks = []

    def forward(number, _frame):
        interrupts.append(number)
        send(ranks, number if len(interrupts) < 3 else signal.SIGKILL)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, forward)
    try:
        if counts:
            with hosts.World(len(counts), use_ipv4=not options.ipv6) as world:
                start_on_hosts(ranks, world, counts, command)
                status = wait_all(ranks)
        else:
            start(ranks, options.n, command, options.plain)
            status = wait_all(ranks)
    except (OSError, subprocess.SubprocessError, hosts.Unavailable) as error:
        print(f"launch: {error}", file=sys.stderr)
        send(ranks, signal.SIGKILL)
        return 2 if isinstance(error, hosts.Unavailable) else 127
    if interrupts:
        return 128 + interrupts[0]
    return status


if __name__ == "__main__":
    sys.exit(main())
