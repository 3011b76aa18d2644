#!/usr/bin/env python3
"""Checks that the header, the symbol map and the library name the same functions.

symbols.py HEADER MAP [LIBRARY]. Without a library only the header and the map are compared.
"""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import source_text  # noqa: E402


def declared(header):
    """The functions that a header declares OMNES_EXPORT."""
    code = source_text.strip_preprocessor(source_text.strip_comments(header))
    return set(re.findall(r"\bOMNES_EXPORT\b[^;()]*?\b(\w+)\s*\(", code))


def mapped(text):
    """The symbols of a version script. A wildcard, or a map that leaves the rest visible, is an error."""
    code = source_text.strip_comments(text)
    names, local = set(), False
    for block in re.findall(r"\{(.*?)\}", code, re.S):
        part = "global"
        for word in re.findall(r"(global|local)\s*:|([^\s;:{}]+)\s*;", block):
            if word[0]:
                part = word[0]
            elif part == "local":
                local = local or word[1] == "*"
            elif "*" in word[1] or "?" in word[1]:
                raise ValueError(f"the map exports the wildcard {word[1]}; name each function")
            else:
                names.add(word[1])
    if not local:
        raise ValueError("the map has no \"local: *\"")
    return names


def exported(nm_output):
    """The names in the output of nm -D --defined-only, without the version nodes themselves."""
    names = set()
    for line in nm_output.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] != "A":
            names.add(parts[2].split("@")[0])
    return names


def compare(first_name, first, second_name, second):
    return [f"{name} is in the {first_name} but not in the {second_name}" for name in sorted(first - second)] + \
           [f"{name} is in the {second_name} but not in the {first_name}" for name in sorted(second - first)]


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    in_header = declared(Path(sys.argv[1]).read_text())
    in_map = mapped(Path(sys.argv[2]).read_text())
    differences = compare("header", in_header, "map", in_map)
    if len(sys.argv) == 4:
        output = subprocess.run(["nm", "-D", "--defined-only", sys.argv[3]], check=True, capture_output=True, text=True).stdout
        differences += compare("map", in_map, "library", exported(output))
    print("\n".join(differences))
    print(f"symbols: {len(in_header)} declared, {len(in_map)} in the map, {len(differences)} differences")
    return 1 if differences or not in_map else 0


if __name__ == "__main__":
    sys.exit(main())
