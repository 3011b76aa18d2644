"""Lint rules on the sources: includes, sizes, and what must not be used where."""
import re
from collections import namedtuple

import source_text

Finding = namedtuple("Finding", "path line rule message")

MAX_FILE_LINES = 700
MAX_FUNCTION_LINES = 100
CODE_SUFFIXES = (".h", ".cc", ".c")
LIBRARY_FOLDERS = ("src/", "transports/", "algorithms/")

# docs/architecture.md has the same table for readers. A row is the folder (longest prefix wins) and the prefixes of
# what it may include beside itself. What is directly in transports/ and algorithms/ is their interface and registry.
INCLUDE_TABLE = {
    "include/": [],
    "src/base/": [],
    "src/kernels/": ["src/base/"],
    "src/plan/": ["src/base/"],
    "src/topo/": ["src/base/", "src/plan/hierarchy.h"],
    "src/sim/link/": ["src/base/", "src/topo/"],
    "src/sim/": ["src/base/", "src/topo/", "src/plan/"],
    "algorithms/": ["src/plan/", "src/base/"],
    "transports/": ["src/base/", "src/topo/", "transports/@files"],
    "transports/neuronlink/": ["src/base/", "src/topo/", "src/sim/link/", "transports/@files"],
    "src/core/": ["src/base/", "src/kernels/", "src/plan/", "src/topo/", "src/sim/", "algorithms/@files",
                  "transports/@files", "include/"],
    "src/api/": ["src/base/", "src/core/", "include/"],
    "src/cli/": ["src/base/", "src/core/", "src/plan/", "src/topo/", "src/sim/", "algorithms/@files",
                 "transports/@files", "include/"],
    "plugins/": ["include/"],
    "perf/": ["include/"],
    "perf/micro/": ["include/", "src/base/", "src/kernels/"],
}
INCLUDE_ROOTS = ("src/", "", "include/", "perf/", "tests/")
# Written with quotes by their own rules or habits, but not ours.
FOREIGN_PREFIXES = ("hwy/", "gtest/", "gmock/", "benchmark/", "nlohmann/", "CLI/", "rdma/", "hwloc.h", "mpi.h")
GENERATED = ("build_info.h",)  # made by Meson, in the build folder

FORBIDDEN = [
    # (rule, pattern, where, except, why)
    ("getenv", r"\b(secure_)?getenv\s*\(|\benviron\b", LIBRARY_FOLDERS, ("src/base/config",),
     "the environment is read in src/base/config* only; add a row to the table of settings"),
    ("print", r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror)\s*\(|\bstd::(cout|cerr|clog)\b",
     LIBRARY_FOLDERS, ("src/base/log", "src/base/settings_doc", "src/cli/"), "the library does not print; return a Status or use the logger"),
    ("fence", r"\batomic_(thread|signal)_fence\b", LIBRARY_FOLDERS + ("perf/", "tests/"), (),
     "Thread sanitizer does not see fences; put the order on the access"),
    ("seq-cst", r"\bmemory_order(_|::)seq_cst\b", LIBRARY_FOLDERS + ("perf/",), (),
     "name the weakest order that is right, and its partner"),
    ("goto", r"\bgoto\b", LIBRARY_FOLDERS + ("perf/",), (), "use an owner type and an early return"),
]
ATOMIC_CALL = re.compile(
    r"(?:\.|->)(load|store|exchange|fetch_add|fetch_sub|fetch_or|fetch_and|fetch_xor|compare_exchange_weak|"
    r"compare_exchange_strong|test_and_set)\s*\(")


def check_file_length(path, text):
    count = text.count("\n")
    if count > MAX_FILE_LINES:
        yield Finding(path, count, "file-length", f"{count} lines; the limit is {MAX_FILE_LINES}: split it by noun")


def check_function_length(path, text):
    for name, first, last in source_text.functions(text):
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield Finding(path, first, "function-length",
                          f"{name} has {last - first + 1} lines; the limit is {MAX_FUNCTION_LINES}")


def check_forbidden(path, text):
    code = source_text.strip_comments(text)
    lines = text.split("\n")
    for rule, pattern, where, exceptions, why in FORBIDDEN:
        if not path.startswith(where) or (exceptions and path.startswith(exceptions)):
            continue
        for match in re.finditer(pattern, code):
            line = source_text.line_of(code, match.start())
            if not _allowed(lines, line, rule):
                yield Finding(path, line, rule, f"{match.group(0).strip()}: {why}")


def check_atomic_order(path, text):
    if not path.startswith(LIBRARY_FOLDERS + ("perf/",)) or "atomic" not in text:
        return
    code = source_text.strip_comments(text)
    lines = text.split("\n")
    for match in ATOMIC_CALL.finditer(code):
        line = source_text.line_of(code, match.start())
        arguments = source_text.arguments_of(code, match.end() - 1)
        if "order" not in arguments and not _allowed(lines, line, "atomic-order"):
            yield Finding(path, line, "atomic-order", f"{match.group(1)}() without a memory order is seq_cst")
    for name in re.findall(r"\bstd::atomic(?:<[^;{}()]*>|_\w+)\s+(\w+)\s*(?:\{|;|=|\()", code):
        for match in re.finditer(rf"(?<![\w.>]){name}\s*(\+\+|--|[-+|&^]=)|(\+\+|--){name}\b", code):
            line = source_text.line_of(code, match.start())
            if not _allowed(lines, line, "atomic-order"):
                yield Finding(path, line, "atomic-order", f"operator on atomic {name} is seq_cst; name the order")


def _allowed(lines, line, rule):
    """A line, or the one above, may say "lint: allow RULE (reason)"."""
    near = lines[max(0, line - 2):line]
    return any(re.search(rf"lint: allow {rule} \(.+\)", text) for text in near)


def folder_row(path):
    rows = [row for row in INCLUDE_TABLE if path.startswith(row)]
    return max(rows, key=len) if rows else None


def resolve(name, path, exists):
    """The project file that an include names, seen from `path`; None when there is none."""
    for root in INCLUDE_ROOTS:
        if exists(root + name):
            return root + name
    beside = path.rsplit("/", 1)[0] + "/" + name
    return beside if exists(beside) else None


def may_include(row, target):
    if target.startswith(row) and folder_row(target) == row:
        return True
    for allowed in INCLUDE_TABLE[row]:
        if allowed.endswith("@files"):
            folder = allowed[:-len("@files")]
            if target.startswith(folder) and "/" not in target[len(folder):]:
                return True
        elif target.startswith(allowed):
            return True
    return False


def _private_transport(path, target):
    """transports/X/ may not include transports/Y/: each is private."""
    ours, theirs = path.split("/"), target.split("/")
    return (ours[0] == theirs[0] == "transports" and len(theirs) > 2
            and (len(ours) < 3 or ours[1] != theirs[1]) and not path.endswith("registry.cc"))


def check_includes(path, text, exists):
    code = source_text.strip_comments(text, keep_strings=True)
    lines = text.split("\n")
    row = folder_row(path)
    names = []
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', code, re.M):
        line = source_text.line_of(code, match.start())
        quoted, name = match.group(1) == '"', match.group(2)
        if quoted and name.startswith(FOREIGN_PREFIXES):
            continue
        if ".." in name.split("/"):
            yield Finding(path, line, "include", f'"{name}": includes are relative to src/ or the project root')
            continue
        if quoted and name in GENERATED:
            continue
        target = resolve(name, path, exists)
        names.append(name)
        if target is None:
            if quoted:
                yield Finding(path, line, "include", f'"{name}" is no file of the project; use <> for others')
        elif (row is not None and (not may_include(row, target) or _private_transport(path, target))
              and not _allowed(lines, line, "include")):
            yield Finding(path, line, "include", f"{row} may not include {target} (table in docs/architecture.md)")
    yield from check_first_include(path, names, exists)


def check_first_include(path, names, exists):
    """x.cc begins with its own x.h, so that the header is compiled alone at least there."""
    if not path.endswith(".cc") or path.startswith("tests/"):
        return
    own = path[:-len(".cc")] + ".h"
    if exists(own) and (not names or resolve(names[0], path, exists) != own):
        yield Finding(path, 1, "first-include", f"the first include must be {own}")


def check_once(path, text):
    if path.endswith(".h") and not path.startswith("include/") and "-inl.h" not in path:
        # Outside the library a header may be C and have the guard of the public headers.
        guard = "" if path.startswith(LIBRARY_FOLDERS) else r"|^#ifndef OMNES_\w+_H_$"
        guard += r"|lint: allow pragma-once \(.+\)"
        if not re.search(r"^#pragma once$" + guard, text, re.M):
            yield Finding(path, 1, "pragma-once", "private headers begin with #pragma once")


def check(path, text, exists):
    """All findings in one source file. `path` is relative to the project, `exists` tells whether such a path is."""
    yield from check_file_length(path, text)
    if not path.endswith(CODE_SUFFIXES):
        return
    yield from check_function_length(path, text)
    yield from check_forbidden(path, text)
    yield from check_atomic_order(path, text)
    yield from check_includes(path, text, exists)
    yield from check_once(path, text)
