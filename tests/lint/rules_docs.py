"""Lint rules on documents and build files."""
import posixpath
import re

from rules_code import Finding

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.M | re.S)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
_PLACEHOLDER = re.compile(r"\b(TBD|FIXME|XXX)\b|\bTODO\b(?!\(#\d+\))")


def _blank_fences(text):
    return _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def slugs(text):
    """The anchors that a Markdown page has, as the usual renderers make them."""
    found = set()
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*\s*$", _blank_fences(text), re.M):
        words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def check_links(path, text, read):
    """`read(path)` gives a file's text, "" for a folder, None when there is no such file."""
    prose = _blank_fences(text)
    for match in _LINK.finditer(prose):
        target = match.group(1)
        line = prose.count("\n", 0, match.start()) + 1
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        where = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
        content = text if where == path else read(where)
        if where.startswith(("../", "/")) or content is None:
            yield Finding(path, line, "link", f"{target} does not exist")
        elif anchor and where.endswith(".md") and anchor not in slugs(content):
            yield Finding(path, line, "link", f"{where} has no heading #{anchor}")


def check_placeholders(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        match = _PLACEHOLDER.search(line)
        if match:
            yield Finding(path, number, "placeholder", f"{match.group(0)}: finish it, or name an issue: TODO(#12)")


def check_changelog(read):
    text = read("docs/CHANGELOG.md")
    header = read("include/omnes/version.h") or ""
    version = ".".join(re.findall(r"#define OMNES_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    if text is None:
        yield Finding("docs/CHANGELOG.md", 1, "changelog", "is missing")
    elif not re.search(rf"^## {re.escape(version)}\b", text, re.M):
        yield Finding("docs/CHANGELOG.md", 1, "changelog", f"has no heading for {version}, the version of version.h")


def _strings(build_text):
    code = re.sub(r"#.*", "", build_text)
    return set(re.findall(r"'([^'\n]*)'", code))


def _names_source(strings, relative):
    stem = re.sub(r"\.(cc|c)$", "", relative)
    if relative in strings or stem in strings:
        return True
    # foreach name : ['fd', 'clock'] ... name + '_test.cc', '@0@_test.cc'.format(name)
    for text in strings:
        ending = re.sub(r"^(@\w+@)", "", text)
        if ending and relative.endswith(ending) and ending.endswith((".cc", ".c")):
            if ending != relative and relative[:-len(ending)] in strings:
                return True
    return False


def check_built(path, read):
    """A .cc or .c file that no meson.build of its folder or of one above names is dead."""
    folder = posixpath.dirname(path)
    script = read(posixpath.join(folder, "run"))  # what needs another compiler (mpicc) is built by a script beside it
    if script and posixpath.basename(path) in script:
        return
    while True:
        build = read(posixpath.join(folder, "meson.build"))
        if build is not None and _names_source(_strings(build), posixpath.relpath(path, folder or ".")):
            return
        if not folder:
            break
        folder = posixpath.dirname(folder)
    yield Finding(path, 1, "not-built", "no meson.build names it")


def check_page(path, text, read):
    yield from check_links(path, text, read)
    yield from check_placeholders(path, text)
