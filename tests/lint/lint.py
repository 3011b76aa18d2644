#!/usr/bin/env python3
"""Checks the source tree against the rules of docs/CONTRIBUTING.md: lint.py [ROOT]. Prints findings, exit code 1 if any.

The rules are in rules_code.py and rules_docs.py; lint_test.py shows for each that it can fail.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rules_code  # noqa: E402
import rules_docs  # noqa: E402

FOLDERS = ("include", "src", "transports", "algorithms", "plugins", "perf", "tests", "docs")
TEXT_NAMES = ("meson.build", "run")
TEXT_SUFFIXES = (".h", ".cc", ".c", ".py", ".sh", ".md")
NOT_BUILT_HERE = ("docs/",)  # examples are built by the consumer test, from what the README shows


class Tree:
    """The project's files by path relative to its root, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts = {}

    def exists(self, path):
        return (self.root / path).is_file()

    def read(self, path):
        if path not in self.texts:
            file = self.root / path
            if file.is_dir():
                self.texts[path] = ""
            else:
                self.texts[path] = file.read_text(errors="replace") if file.is_file() else None
        return self.texts[path]

    def files(self):
        found = [path for path in self.root.glob("*") if path.is_file()]
        for folder in FOLDERS:
            found += [path for path in (self.root / folder).rglob("*") if path.is_file()]
        for path in sorted(found):
            relative = path.relative_to(self.root).as_posix()
            if "__pycache__" not in relative and (path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES):
                yield relative


def is_lint_itself(path):
    """The rules and their bad samples name what they forbid."""
    return path.startswith("tests/lint/")


def findings(tree):
    for path in tree.files():
        text = tree.read(path)
        if path.endswith(".md"):
            yield from rules_docs.check_page(path, text, tree.read)
            continue
        yield from rules_code.check(path, text, tree.exists)
        if not is_lint_itself(path):
            yield from rules_docs.check_placeholders(path, text)
        if path.endswith((".cc", ".c")) and not path.startswith(NOT_BUILT_HERE):
            yield from rules_docs.check_built(path, tree.read)
    yield from rules_docs.check_changelog(tree.read)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent.parent
    tree = Tree(root)
    bad = list(findings(tree))
    for finding in bad:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.message}")
    print(f"lint: {sum(1 for _ in tree.files())} files, {len(bad)} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
