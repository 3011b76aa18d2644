"""Ranks on the hosts of a World for tests: started, read without blocking, killed by number, awaited with a deadline."""
import os
import signal
import subprocess
import time


class Ranks:
    """`counts[h]` ranks of `command` on host h, in order. Use as a context: what is left at its end is killed."""

    def __init__(self, world, counts, command, port=29500, **variables):
        self.processes = []
        self.outputs = []
        self.ended = []  # time of each rank's end, or None
        placed = [host for host, count in enumerate(counts) for _ in range(count)]
        for rank, host in enumerate(placed):
            environment = dict(os.environ, OMNES_COMM_ID=f"{world.address(0)}:{port}", OMNES_RANK=str(rank),
                               OMNES_NRANKS=str(len(placed)), **variables)
            process = world.popen(host, command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, start_new_session=True)
            os.set_blocking(process.stdout.fileno(), False)
            self.processes.append(process)
            self.outputs.append("")
            self.ended.append(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # its children, too
            except ProcessLookupError:
                pass
            process.wait()
            process.stdout.close()

    def poll(self):
        """Takes what has been printed and notes who has ended."""
        for rank, process in enumerate(self.processes):
            ended = process.poll() is not None
            # None: nothing there. Not read to its end, which a child of the rank may put off.
            while part := process.stdout.read(65536):
                self.outputs[rank] += part.decode(errors="replace")
            if ended and self.ended[rank] is None:
                self.ended[rank] = time.monotonic()

    def wait_until(self, condition, seconds):
        """Polls until condition(); False after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            self.poll()
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)

    def wait_for_text(self, text, seconds):
        return self.wait_until(lambda: all(text in output for output in self.outputs), seconds)

    def wait_all(self, seconds):
        return self.wait_until(lambda: all(ended is not None for ended in self.ended), seconds)

    def kill(self, rank):
        """SIGKILL for the rank alone; its children live on."""
        os.kill(self.processes[rank].pid, signal.SIGKILL)

    def report(self):
        return "\n".join(f"-- rank {rank} (exit code {process.returncode}):\n{output[-1500:]}"
                         for rank, (process, output) in enumerate(zip(self.processes, self.outputs)))
