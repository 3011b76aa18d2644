#!/usr/bin/env python3
"""The launchers that the library knows are those that omnes_mpi.h and perf recognise.

Neither of the two may include src/base/config.h: the header is compiled with the user's program, and perf uses the public
API alone. So each has a list of its own, of the variables that say how many processes a launcher started and which of
them this one is. They say the same, but for two differences, which are rules of this test:

* a launcher without a size in the environment (PMIx) tells nobody else how many processes there are;
* torchrun starts no MPI, so omnes_mpi.h, which suspects an MPI of having been started by another's launcher, leaves it out.

The order is free: the library takes the first that it finds, the others ask for the largest size.
"""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = "src/base/config.cc"
MPI = "include/omnes/omnes_mpi.h"
PERF = "perf/common/launch.cc"
NO_MPI = {"torchrun"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
ENTRY = re.compile(r"\{\s*((?:\"[^\"]*\"|nullptr|NULL)(?:\s*,\s*(?:\"[^\"]*\"|nullptr|NULL))*)\s*,?\s*\}")


class Unreadable(Exception):
    """A list is not where this test looks for it, or not as it should be: mend the test."""


def entries(text, path, name, columns):
    """The rows of the table `name`: tuples of strings, None for nullptr. All rows, or an error."""
    match = re.search(re.escape(name) + r"(?:\[\d*\])+\s*=\s*\{(.*?)\};", COMMENT.sub("", text), re.S)
    if not match:
        raise Unreadable(f"{path}: no table {name}")
    rows = []
    for row in ENTRY.findall(match.group(1)):
        words = [word.strip() for word in row.split(",")]
        rows.append(tuple(word[1:-1] if word.startswith('"') else None for word in words))
    rest = ENTRY.sub("", match.group(1)).replace(",", "").strip()
    if rest or not rows or any(len(row) != columns for row in rows):
        raise Unreadable(f"{path}: the table {name} is not one of {columns} names in each row")
    return rows


def library_launchers(text):
    """{launcher: (size, rank)} of those that say a size. A step of Slurm is a world of its own, and says another size."""
    found = {row[0]: (row[2], row[1]) for row in entries(text, CONFIG, "kLaunchers", 7)}
    steps = re.findall(r'found\.launcher == "(\w+)"\).*?intVariable\(variables, "(\w+)", 1\)\) found\.size =', text, re.S)
    if [launcher for launcher, _ in steps if launcher in found] != ["Slurm"]:
        raise Unreadable(f"{CONFIG}: the size of a Slurm step is not where it was")
    for launcher, size in steps:
        found[launcher] = (size, found[launcher][1])
    return {launcher: pair for launcher, pair in found.items() if pair[0] is not None}


def differences(config, mpi, perf):
    """What the three texts disagree about, one line each."""
    known = library_launchers(config)
    lists = [(MPI, entries(mpi, MPI, "launchers", 2), {launcher: known[launcher] for launcher in known if launcher not in NO_MPI}),
             (PERF, entries(perf, PERF, "kLaunchers", 2), known)]
    for path, have, want in lists:
        for launcher, pair in want.items():
            if pair not in have:
                yield f"{path}: without {launcher} ({', '.join(pair)}), which {CONFIG} has"
        for pair in have:
            if pair not in want.values():
                yield f"{path}: {', '.join(map(str, pair))} is no launcher of {CONFIG}, or none for this list"
        if len(set(have)) != len(have):
            yield f"{path}: a launcher is there twice"


class LaunchersTest(unittest.TestCase):
    def setUp(self):
        self.texts = {path: (ROOT / path).read_text() for path in (CONFIG, MPI, PERF)}

    def found(self, path=None, old="", new=""):
        texts = dict(self.texts)
        if path:
            self.assertIn(old, texts[path])
            texts[path] = texts[path].replace(old, new)
        return list(differences(texts[CONFIG], texts[MPI], texts[PERF]))

    def test_the_three_lists_agree(self):
        self.assertEqual([], self.found())

    def test_a_mistyped_name_is_found(self):
        for path, name in ((MPI, "PMI_RANK"), (MPI, "SLURM_STEP_NUM_TASKS"), (PERF, "OMPI_COMM_WORLD_SIZE"),
                           (CONFIG, "SLURM_PROCID"), (CONFIG, "SLURM_STEP_NUM_TASKS"), (CONFIG, "WORLD_SIZE")):
            with self.subTest(path=path, name=name):
                self.assertTrue(self.found(path, f'"{name}"', f'"{name}S"'))

    def test_a_launcher_of_one_list_alone_is_found(self):
        row = '{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr, nullptr},'
        other = '{"Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", nullptr, nullptr, nullptr, nullptr},'
        self.assertEqual(2, len(self.found(CONFIG, row, row + other)))  # missing in both others
        self.assertEqual(2, len(self.found(CONFIG, row)))
        for path in (MPI, PERF):
            with self.subTest(path=path):
                pair = '{"PMI_SIZE", "PMI_RANK"},'
                self.assertEqual(1, len(self.found(path, pair)))
                self.assertEqual(1, len(self.found(path, pair, pair + '{"FLUX_JOB_SIZE", "FLUX_TASK_RANK"},')))
                self.assertEqual(1, len(self.found(path, pair, pair + pair)))

    def test_exceptions_are_no_holes(self):
        pair = '{"PMI_SIZE", "PMI_RANK"},'
        self.assertEqual(1, len(self.found(MPI, pair, pair + '{"WORLD_SIZE", "RANK"},')))
        self.assertEqual(1, len(self.found(PERF, '{"WORLD_SIZE", "RANK"},')))
        pmix = '{"PMIx", "PMIX_RANK", nullptr,'
        self.assertEqual(2, len(self.found(CONFIG, pmix, pmix.replace("nullptr", '"PMIX_SIZE"'))))

    def test_a_list_that_has_moved_or_changed_is_an_error(self):
        for path, old, new in ((CONFIG, "kLaunchers[]", "kStarters[]"), (MPI, "launchers[][2]", "starters[][2]"),
                               (PERF, "kLaunchers[]", "kStarters[]"), (PERF, '"PMI_SIZE"', "kPmiSize"),
                               (CONFIG, "found.size = tasks", "found.count = tasks"), (MPI, '{"PMI_SIZE", "PMI_RANK"}', '{"PMI_SIZE"}')):
            with self.subTest(path=path, old=old), self.assertRaises(Unreadable):
                self.found(path, old, new)


if __name__ == "__main__":
    unittest.main()
