"""Reads C and C++ sources for the lint rules: what is code, what is comment, and where functions begin and end.

No parser: comments, strings and preprocessor branches are blanked so that counting braces is enough. Line numbers stay.
"""
import re

_TOKEN = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<line>//[^\n]*)'
    r'|(?P<block>/\*.*?\*/)'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<digits>\b\d[\d']*\d)"
    r"|(?P<char>'(?:\\.|[^'\\\n])+')",
    re.S)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def strip_comments(text, keep_strings=False):
    """The text with comments (and, unless kept, the insides of strings) turned into spaces."""
    def replace(match):
        if match.group("digits"):
            return match.group(0).replace("'", " ")
        if match.group("line") or match.group("block"):
            return _blank(match.group(0))
        if keep_strings:
            return match.group(0)
        return '"' + _blank(match.group(0)[1:-1]) + '"'

    # A continued // comment does not occur in this code base; clang warns about it.
    return _TOKEN.sub(replace, text)


def strip_preprocessor(text):
    """Blanks directives (with continuation lines) and every branch of an #if but the first, so that braces balance."""
    result = []
    branches = []  # one flag per open #if: are we past its first branch?
    continued = False
    for line in text.split("\n"):
        if continued or line.lstrip().startswith("#"):
            if not continued:
                word = re.match(r"\s*#\s*(\w*)", line).group(1)
                if word in ("if", "ifdef", "ifndef"):
                    branches.append(False)
                elif word in ("else", "elif") and branches:
                    branches[-1] = True
                elif word == "endif" and branches:
                    branches.pop()
            continued = line.endswith("\\")
            result.append("")
        else:
            result.append("" if any(branches) else line)
    return "\n".join(result)


_CONTROL = re.compile(r"\b(if|for|while|switch|catch)\b\s*(constexpr\s*)?\([^{}]*$|\b(do|else|try)\s*$")
_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$|\bextern\s*\"[^\"]*\"\s*$")
_TABLE = re.compile(r"(=|\breturn|,|\(|\[[^\]]*\])\s*$")
_MEMBER = re.compile(r"\)[^:;]*[^:]:[^:].*[\w>]\s*$", re.S)  # a constructor's list, up to the name of a member


def _kind(head):
    """What a brace at namespace or class level opens: "function", "scope", or "value" (an initialiser)."""
    head = head.strip()
    if _TABLE.search(head) or _MEMBER.search(head):
        return "value"
    if not head or _SCOPE.search(head) or _CONTROL.search(head):
        return "scope"
    return "function" if "(" in head and ")" in head else "value"


def functions(text):
    """Yields (name, first line, last line) of each outermost function body; lambdas and local types count to it."""
    code = strip_preprocessor(strip_comments(text))
    stack = []     # per open brace: its kind, and where the statement around it begins
    start = 0      # where the statement before the next brace begins
    line = 1
    inside = None  # (name, line) of the function being read
    parentheses = 0
    for position, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "(":
            parentheses += 1
        elif char == ")":
            parentheses -= 1
        elif char == "{":
            kind = "scope" if inside else _kind(code[start:position])
            if kind == "function":
                inside = (_name(code[start:position]), line)
            stack.append((kind, start))
            start = position + 1
        elif char == "}":
            kind, begin = stack.pop() if stack else ("scope", 0)
            if kind == "function":
                yield inside[0], inside[1], line
                inside = None
            start = begin if kind == "value" else position + 1  # a value is part of the statement around it
        elif char == ";" and parentheses <= 0:
            start = position + 1


def _name(head):
    match = re.search(r"(operator\s*[^\s\w(]+|[~\w:]+)\s*\(", head)
    return match.group(1) if match else "function"


def arguments_of(code, opening):
    """The text between the parenthesis at `opening` and its partner; the rest of the text when it has none."""
    depth = 0
    for position in range(opening, len(code)):
        if code[position] == "(":
            depth += 1
        elif code[position] == ")":
            depth -= 1
            if depth == 0:
                return code[opening + 1:position]
    return code[opening + 1:]


def line_of(text, position):
    return text.count("\n", 0, position) + 1
