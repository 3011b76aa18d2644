#!/usr/bin/env python3
"""Builds and runs the tests in the modes that continuous integration wants; started by tests/run.

A mode is one build folder: release (all suites but long-*), address and thread (the fast suites below). Single cases
are counted where a test prints them (GoogleTest, unittest). The last line is "N passed, N failed".
"""
import argparse
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUIET_SECONDS = 20  # after that much silence a line says what is being waited for
TAIL_LINES = 60     # of the output of a failed test

# Setup options that every mode sets, so that a build folder changes only when a mode or --werror does.
# Warnings off: gcc 12 is wrong about std::string here (release has them, and --werror).
# -g1, lines without variables, is what their reports show; it saves a quarter of the compile time.
SANITIZER_FLAGS = "-g1 -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized -Wno-array-bounds"
SANITIZER_OPTIONS = ["-Doptimization=1", "-Ddebug=true", "-Db_lundef=false", "-Dmicro=disabled",
                     "-Db_pch=true", f"-Dcpp_args={SANITIZER_FLAGS}", f"-Dc_args={SANITIZER_FLAGS}"]
MODES = {
    "release": {
        "suites": None,
        # Without precompiled headers, so that every file must include what it uses.
        "options": ["-Dbuildtype=release", "-Db_sanitize=none", "-Db_pch=false"],
        "multiplier": 1,
        "left_out": [],
    },
    "address": {
        "suites": ["unit", "plan", "kernels", "comm", "multiproc", "fault", "cli", "fuzz"],
        "options": ["-Db_sanitize=address,undefined"] + SANITIZER_OPTIONS,
        "multiplier": 4,
        "left_out": ["no-sanitize", "no-asan"],
    },
    # What has one thread only would prove nothing. "fault", whose ranks are processes with several threads that abort,
    # fork and exit, takes ten minutes here: on demand, --sanitize thread --suite fault.
    "thread": {
        "suites": ["unit", "comm"],
        "options": ["-Db_sanitize=thread"] + SANITIZER_OPTIONS,
        "multiplier": 6,
        "left_out": ["no-sanitize", "no-tsan"],
    },
}
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1",
}


def say(text):
    print(f"== {text}", flush=True)


class Counts:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def run_watched(command, what, environment=None):
    """Runs a command, shows its output at once, and breaks silences. Returns the exit code."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    begin = last = time.monotonic()
    stream = process.stdout.fileno()
    try:
        while True:
            ready, _, _ = select.select([stream], [], [], QUIET_SECONDS)
            now = time.monotonic()
            if ready:
                data = os.read(stream, 65536)
                if not data:
                    break
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
                last = now
            else:
                print(f"   ... {what}: still running after {now - begin:.0f} s, quiet for {now - last:.0f} s", flush=True)
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise


def count_cases(entry):
    """(passed, failed, skipped) of one line of Meson's testlog.json."""
    if entry["result"] == "SKIP":
        return 0, 0, 1
    text = entry.get("stdout", "") + "\n" + entry.get("stderr", "")
    good = entry["result"] in ("OK", "EXPECTEDFAIL")
    passed = failed = skipped = 0
    found = False
    for number in re.findall(r"^\[  PASSED  \] (\d+) tests?\.", text, re.M):
        found = True
        passed += int(number)
    for number in re.findall(r"^\[  FAILED  \] (\d+) tests?, listed below", text, re.M):
        found = True
        failed += int(number)
    for number in re.findall(r"^\[  SKIPPED \] (\d+) tests?, listed below", text, re.M):
        skipped += int(number)
    match = re.search(r"^Ran (\d+) tests? in .*?^(OK|FAILED)(?: \((.*?)\))?", text, re.M | re.S)
    if match:
        found = True
        details = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", match.group(3) or "")}
        bad = details.get("failures", 0) + details.get("errors", 0)
        away = details.get("skipped", 0)
        passed, failed, skipped = passed + int(match.group(1)) - bad - away, failed + bad, skipped + away
    if not found and not good:  # it died on the way: what it had finished still counts
        passed = len(re.findall(r"^\[       OK \] ", text, re.M))
        failed = len(re.findall(r"^\[  FAILED  \] .* \(\d+ ms\)$", text, re.M))
    elif not found:
        passed = 1
    if not good and failed == 0:
        failed = 1
    return passed, failed, skipped


def introspect(build, what):
    output = subprocess.run([os.environ.get("OMNES_MESON", "meson"), "introspect", f"--{what}", str(build)],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def suites_of(test):
    return [suite.split(":", 1)[-1] for suite in test["suite"]]


def selected(tests, mode, wanted):
    names = []
    for test in tests:
        suites = suites_of(test)
        if set(suites) & set(MODES[mode]["left_out"]):
            continue
        if wanted:
            if not set(suites) & set(wanted):
                continue
        elif any(suite.startswith("long-") for suite in suites):
            continue
        names.append(test["name"])
    return sorted(set(names))


def configure(build, mode, werror):
    """Meson setup or configure. Returns True when the folder is ready."""
    meson = os.environ.get("OMNES_MESON", "meson")
    # Sanitizers make gcc see uninitialised values in standard headers; --werror is for the build that users get.
    werror = werror and mode == "release"
    options = MODES[mode]["options"] + ["-Dtests=true", f"-Dwerror={'true' if werror else 'false'}"]
    if (build / "build.ninja").exists():
        say(f"{mode}: meson configure {build.relative_to(ROOT)}")
        # Only what differs, since Meson takes every option given for a change and the next build would reconfigure.
        try:
            have = {entry["name"]: entry["value"] for entry in introspect(build, "buildoptions")}
        except (subprocess.CalledProcessError, ValueError):  # another Meson's folder, or half a folder
            have = {}
        changed = [option for option in options if not same_value(have, option)]
        ninja = [os.environ.get("OMNES_NINJA", "ninja"), "-C", str(build), "build.ninja"]
        # Making build.ninja brings the folder, and so the list of tests, up to date with the sources.
        if ((not changed or run_watched([meson, "configure", str(build)] + changed, "meson configure") == 0)
                and run_watched(ninja, "reconfiguring") == 0):
            return True
        say(f"{mode}: the folder is stale, it is set up anew")
    say(f"{mode}: meson setup {build.relative_to(ROOT)} {' '.join(options)}")
    command = [meson, "setup", str(build), str(ROOT)] + options
    if run_watched(command + (["--wipe"] if (build / "meson-private").exists() else []), "meson setup") == 0:
        return True
    log = build / "meson-logs" / "meson-log.txt"
    if log.exists():
        print("\n".join(log.read_text(errors="replace").splitlines()[-TAIL_LINES:]), flush=True)
    return False


def same_value(have, option):
    name, value = option[2:].split("=", 1)
    current = have.get(name)
    if isinstance(current, bool):
        current = "true" if current else "false"
    if isinstance(current, list):
        current = " ".join(current)
    return str(current) == value


def build_tests(build, tests, names, everything, jobs):
    """Compiles what the chosen tests need (release: everything, which also proves that it compiles)."""
    command = [os.environ.get("OMNES_NINJA", "ninja"), "-C", str(build), "-j", str(jobs)]
    if not everything:
        needed = {target for test in tests if test["name"] in names for target in test["depends"]}
        for target in introspect(build, "targets"):
            if target["id"] in needed:
                command += [os.path.relpath(name, build) for name in target["filename"]]
        if len(command) == 5:
            return True
    # ccache keeps nothing that uses a precompiled header unless told that it may.
    environment = dict(os.environ)
    environment.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")
    return run_watched(command, "building", environment) == 0


def show_failure(entry):
    print(f"\n-- {entry['name']}: {entry['result']} (exit code {entry['returncode']}, {entry['duration']:.1f} s)")
    print(f"   command: {' '.join(entry['command'])}")
    for stream in ("stdout", "stderr"):
        lines = entry.get(stream, "").splitlines()
        if lines:
            print(f"   {stream}{f', last {TAIL_LINES} lines' if len(lines) > TAIL_LINES else ''}:")
            print("\n".join("   | " + line for line in lines[-TAIL_LINES:]))
    sys.stdout.flush()


def test_environment(mode):
    environment = dict(os.environ)
    if mode != "release":
        environment.update(SANITIZER_ENVIRONMENT)
    environment.setdefault("GTEST_COLOR", "no")
    return environment


def wrapper(mode):
    """Thread sanitizer of older compilers cannot live with much address randomisation."""
    command = ["setarch", platform.machine(), "-R"]
    if mode == "thread" and shutil.which("setarch"):
        if subprocess.run(command + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
            return command
    return []


def read_log(build):
    path = build / "meson-logs" / "testlog.json"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_mode(mode, options, counts):
    begin = time.monotonic()
    build = ROOT / "build" / mode
    if not configure(build, mode, options.werror):
        say(f"{mode}: could not be configured")
        return counts.add(0, 1, 0)
    tests = introspect(build, "tests")
    known = {suite for test in tests for suite in suites_of(test)}
    wanted = options.suite or MODES[mode]["suites"]
    unknown = sorted(set(options.suite or []) - known)
    if unknown:
        sys.exit(f"error: no suite {', '.join(unknown)}; there are: {' '.join(sorted(known))}")
    names = selected(tests, mode, wanted)
    named = [word for word in options.meson if word in {test["name"] for test in tests}]
    if named:  # tests given by name after "--" narrow the choice
        names = [name for name in names if name in named]
    if options.list:
        for test in tests:
            if test["name"] in names:
                print(f"{mode:8} {','.join(suites_of(test)):16} {test['name']}")
        return None
    say(f"{mode}: building for {len(names)} tests")
    if not build_tests(build, tests, set(names), mode == "release" and not options.suite, options.jobs):
        say(f"{mode}: the build failed")
        return counts.add(0, 1, 0)
    say(f"{mode}: built in {time.monotonic() - begin:.0f} s")
    if not names:
        say(f"{mode}: no tests")
        return None
    run_tests(mode, build, names, options, counts)
    say(f"{mode}: done after {time.monotonic() - begin:.0f} s")
    return None


def run_tests(mode, build, names, options, counts):
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    command = wrapper(mode) + [os.environ.get("OMNES_MESON", "meson"), "test", "-C", str(build), "--no-rebuild",
                               "--timeout-multiplier", str(MODES[mode]["multiplier"]),
                               "--num-processes", str(options.jobs)] + [word for word in options.meson if word not in names] + names
    say(f"{mode}: running {len(names)} tests")
    status = run_watched(command, "meson test", test_environment(mode))
    entries = read_log(build)
    before = counts.failed
    for entry in entries:
        passed, failed, skipped = count_cases(entry)
        counts.add(passed, failed, skipped)
        if failed:
            show_failure(entry)
    missing = set(names) - {entry["name"].split(" / ")[-1].split(":")[-1] for entry in entries}
    if missing or (status != 0 and counts.failed == before):
        say(f"{mode}: meson test ended with {status}; without a result: {' '.join(sorted(missing)) or 'none'}")
        counts.add(0, max(1, len(missing)), 0)


def parse():
    arguments = sys.argv[1:]
    extra = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1:]
    parser = argparse.ArgumentParser(prog="tests/run", allow_abbrev=False)
    parser.add_argument("--suite", action="append", metavar="NAME")
    parser.add_argument("--sanitize", action="append", choices=["address", "thread"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--werror", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    options.meson = extra
    return options


def interrupt(_number, _frame):
    raise KeyboardInterrupt


def main():
    options = parse()
    # Builds and tests run in sessions of their own, so that ending this script must end them too.
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    if options.sanitize:
        modes = list(dict.fromkeys(options.sanitize))
    else:
        modes = ["release"] if options.suite or options.list else list(MODES)
    counts = Counts()
    try:
        for mode in modes:
            run_mode(mode, options, counts)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    if options.list:
        return 0
    if counts.passed + counts.failed == 0:
        say("nothing ran")
    print(counts.line(), flush=True)
    return 1 if counts.failed or counts.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
