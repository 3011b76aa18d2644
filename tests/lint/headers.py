#!/usr/bin/env python3
"""Compiles each public header alone, as C99 and as C++20, with every compiler of gcc and clang that is there.

headers.py INCLUDE_FOLDER. A header that includes another omnes header is compiled with the folder in its path, and
omnes_mpi.h with each MPI that is there.
"""
import shutil
import subprocess
import sys
from pathlib import Path

STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [("gcc", "c", "c99"), ("clang", "c", "c99"), ("g++", "c++", "c++20"), ("clang++", "c++", "c++20")]


def mpi_folders():
    """For each MPI of this machine the compiler options that lead to its mpi.h; its warnings are not ours."""
    found = {}
    for wrapper in ("mpicc", "mpicc.openmpi", "mpicc.mpich"):
        for question in ("-showme:compile", "-compile_info"):  # Open MPI, MPICH
            if not shutil.which(wrapper):
                continue
            answer = subprocess.run([wrapper, question], capture_output=True, text=True)
            folders = [word[2:] for word in answer.stdout.split() if word.startswith("-I")]
            if answer.returncode == 0 and folders:
                found[tuple(folders)] = [word for folder in folders for word in ("-isystem", folder)]
                break
    return list(found.values())


def main():
    include = Path(sys.argv[1])
    headers = sorted(include.rglob("*.h"))
    failed = tried = 0
    for header in headers:
        name = header.relative_to(include).as_posix()
        surroundings = [[]]
        if name.endswith("omnes_mpi.h"):
            surroundings = mpi_folders()
            print(f"{name}: {len(surroundings) or 'no'} MPI found")
        for compiler, language, standard in COMPILERS:
            if not shutil.which(compiler):
                continue
            for options in surroundings:
                tried += 1
                command = [compiler, "-x", language, f"-std={standard}", *STRICT, *options, f"-I{include}", "-"]
                # Twice: a header must stand being included again.
                source = f'#include "{name}"\n#include "{name}"\nint omnes_lint_header(void);\n'
                result = subprocess.run(command, input=source, capture_output=True, text=True)
                if result.returncode != 0:
                    failed += 1
                    print(f"{name} alone with {' '.join(command)}:\n{result.stderr}")
    print(f"headers: {len(headers)} headers, {tried} compiled, {failed} failed")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
