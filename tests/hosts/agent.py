#!/usr/bin/env python3
"""Stands in for ssh where a launcher starts its helpers on the hosts of perf/hosts.py: agent.py [OPTIONS] HOST COMMAND...

HOSTS_MAP says which process holds which host ("host0=PID 10.200.0.1=PID ..."). As with ssh the words of the command are
joined and given to a shell. Launchers pass this file as their remote agent: Open MPI 4 plm_rsh_agent, Open MPI 5
plm_ssh_agent, MPICH -launcher ssh -launcher-exec.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "perf"))
import hosts  # noqa: E402


def main():
    words = sys.argv[1:]
    while words and words[0].startswith("-"):
        words.pop(0)
    holders = dict(word.split("=") for word in os.environ.get("HOSTS_MAP", "").split())
    if len(words) < 2 or words[0] not in holders:
        print(f"agent: no host \"{words[0] if words else ''}\" in HOSTS_MAP ({' '.join(holders)}), or no command", file=sys.stderr)
        return 255
    hosts.enter(int(holders[words[0]]))
    os.execv("/bin/sh", ["sh", "-c", " ".join(words[1:])])


if __name__ == "__main__":
    sys.exit(main())
