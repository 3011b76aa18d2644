#!/usr/bin/env python3
"""Uses omnes as a stranger does: installs it into a temporary folder, then builds and runs the program of the README.

consumer.py BUILD_FOLDER SOURCE_FOLDER. Built twice, by pkg-config and (where cmake is there) by CMake, and run with four
processes that meet through the environment. Says "consumer: ok" or what went wrong.
"""
import os
import re
import shutil
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS = 4
PROGRAM = "docs/examples/allreduce.c"
CMAKE_LISTS = """cmake_minimum_required(VERSION 3.18)
project(consumer C)
find_package(omnes {version} REQUIRED)
add_executable(allreduce allreduce.c)
target_link_libraries(allreduce PRIVATE omnes::omnes)
"""


def run(command, **more):
    print("+", shlex.join(map(str, command)), flush=True)
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if result.returncode != 0:
        print(result.stdout)
        sys.exit(f"consumer: failed with exit code {result.returncode}")
    return result.stdout


def shown_in_readme(source):
    """The README's C program; it must be the file, byte for byte."""
    blocks = re.findall(r"^```c\n(.*?)^```$", (source / "README.md").read_text(), re.M | re.S)
    program = (source / PROGRAM).read_text()
    if program not in blocks:
        sys.exit(f"consumer: README.md does not show {PROGRAM} as it is")
    return program


def install(build, stage):
    """Returns the prefix inside the stage."""
    meson = os.environ.get("OMNES_MESON") or shutil.which("meson") or "/usr/bin/meson"
    run([meson, "install", "-C", build, "--no-rebuild", "--destdir", stage])
    found = list(stage.rglob("omnes.pc"))
    if len(found) != 1:
        sys.exit(f"consumer: {len(found)} files omnes.pc were installed")
    return found[0].parent, Path(re.search(r"^prefix=(.*)$", found[0].read_text(), re.M).group(1))


def expected():
    sums = [sum(rank + i for rank in range(RANKS)) for i in range(4)]
    return sorted(f"rank {rank} of {RANKS}: {' '.join(map(str, sums))}" for rank in range(RANKS))


def run_ranks(source, program, libraries):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries))
    output = run([sys.executable, source / "perf/launch.py", "-n", str(RANKS), "--", program], env=environment, timeout=60)
    lines = sorted(line for line in output.splitlines() if line.startswith("rank "))
    if lines != expected():
        sys.exit(f"consumer: wrong output:\n{output}\nexpected:\n" + "\n".join(expected()))


def main():
    build, source = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    program = shown_in_readme(source)
    with tempfile.TemporaryDirectory(prefix="omnes-consumer-") as folder:
        work = Path(folder)
        stage = work / "stage"
        pc_folder, prefix = install(build, stage)
        libraries = next(stage.rglob("libomnes.so")).parent
        (work / "allreduce.c").write_text(program)

        environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(pc_folder), PKG_CONFIG_SYSROOT_DIR=str(stage),
                           PKG_CONFIG_PATH="", PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1")
        flags = shlex.split(run(["pkg-config", "--cflags", "--libs", "omnes"], env=environment))
        strict = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        run(["cc", *strict, work / "allreduce.c", "-o", work / "by_pkg_config", *flags])
        run_ranks(source, work / "by_pkg_config", libraries)

        if shutil.which("cmake"):
            version = run(["pkg-config", "--modversion", "omnes"], env=environment).strip()
            (work / "CMakeLists.txt").write_text(CMAKE_LISTS.format(version=version))
            # The staged tree stands in for "/": the config file must find its files from its own place.
            where = f"-DCMAKE_PREFIX_PATH={stage}{prefix}"
            run(["cmake", "-S", work, "-B", work / "cmake", where])
            run(["cmake", "--build", work / "cmake"])
            run_ranks(source, work / "cmake/allreduce", libraries)
        else:
            print("cmake is not there: that half is left out")
    print("consumer: ok")


if __name__ == "__main__":
    main()
