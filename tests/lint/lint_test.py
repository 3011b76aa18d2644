#!/usr/bin/env python3
"""Shows that each lint rule fails on a bad sample and passes a good one. The samples live in a temporary folder."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import lint  # noqa: E402
import source_text  # noqa: E402
import symbols  # noqa: E402

VERSION_H = "#define OMNES_MAJOR 0\n#define OMNES_MINOR 1\n#define OMNES_PATCH 0\n"
CLEAN = {
    "docs/CHANGELOG.md": "# Changelog\n\n## 0.1.0\n",
    "include/omnes/version.h": VERSION_H,
}


class Sample(unittest.TestCase):
    def rules(self, files):
        """The rule names that the files (path -> text), added to a clean tree, break."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**CLEAN, **files}.items():
                if text is not None:
                    file = Path(folder, path)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
            return sorted({finding.rule for finding in lint.findings(lint.Tree(folder))})

    def source(self, path, text, **more):
        """As rules(), for one .cc file that is built."""
        folder, name = path.rsplit("/", 1)
        return self.rules({path: text, f"{folder}/meson.build": f"static_library('x', '{name}')\n", **more})

    def assert_breaks(self, rule, found):
        self.assertEqual([rule], found)

    def assert_clean(self, found):
        self.assertEqual([], found)


class TreeTest(Sample):
    def test_clean_tree_is_clean(self):
        self.assert_clean(self.rules({}))

    def test_changelog_missing(self):
        self.assert_breaks("changelog", self.rules({"docs/CHANGELOG.md": None}))

    def test_changelog_without_this_version(self):
        self.assert_breaks("changelog", self.rules({"docs/CHANGELOG.md": "# Changelog\n\n## 0.0.9\n"}))

    def test_file_of_701_lines(self):
        self.assert_breaks("file-length", self.source("src/base/x.cc", "int a;\n" * 701))
        self.assert_clean(self.source("src/base/x.cc", "int a;\n" * 700))

    def test_source_that_is_not_built(self):
        self.assert_breaks("not-built", self.rules({"src/base/x.cc": "", "src/base/meson.build": "# 'x.cc'\n"}))

    def test_source_built_by_a_script(self):
        self.assert_clean(self.rules({"perf/gates/peer.c": "", "perf/gates/run": "mpicc peer.c\n"}))
        self.assert_breaks("not-built", self.rules({"perf/gates/peer.c": "", "perf/gates/run": "mpicc other.c\n"}))

    def test_source_named_by_loop_or_parent(self):
        loop = "foreach n : ['fd']\n  executable(n, n + '_test.cc')\nendforeach\n"
        self.assert_clean(self.rules({"tests/unit/fd_test.cc": "", "tests/unit/meson.build": loop}))
        self.assert_clean(self.rules({"src/a/b/x.cc": "", "src/a/meson.build": "lib('a', 'b/x.cc')\n"}))
        self.assert_breaks("not-built", self.rules({"tests/unit/clock_test.cc": "", "tests/unit/meson.build": loop}))


class CodeTest(Sample):
    def test_getenv_outside_config(self):
        text = 'const char* a = std::getenv("A");\n'
        self.assert_breaks("getenv", self.source("src/core/x.cc", text))
        self.assert_clean(self.source("src/base/config.cc", text))

    def test_printing(self):
        for text in ('void f() { printf("a"); }\n', "void f() { std::cerr << 1; }\n", 'void f() { fputs("a", stderr); }\n'):
            self.assert_breaks("print", self.source("transports/shm/x.cc", text))
            self.assert_clean(self.source("perf/x.cc", text))
        self.assert_clean(self.source("src/base/x.cc", 'void f() { snprintf(b, 1, "x"); }\n'))

    def test_comments_and_strings_do_not_count(self):
        self.assert_clean(self.source("src/base/x.cc", '// printf("a")\n/* getenv("b") */\nauto c = "goto getenv(d)";\n'))

    def test_allowance_needs_a_reason(self):
        line = "void f() { printf(a); }  // lint: allow print"
        self.assert_breaks("print", self.source("src/base/x.cc", line + "\n"))
        self.assert_clean(self.source("src/base/x.cc", line + " (last words before abort)\n"))

    def test_fence(self):
        self.assert_breaks("fence", self.source("src/base/x.cc", "void f() { std::atomic_thread_fence(order); }\n"))

    def test_seq_cst(self):
        self.assert_breaks("seq-cst", self.source("src/base/x.cc", "int f() { return a.load(std::memory_order_seq_cst); }\n"))

    def test_goto(self):
        self.assert_breaks("goto", self.source("src/base/x.cc", "void f() { goto end; }\n"))

    def test_default_atomic_order(self):
        head = "#include <atomic>\nstd::atomic<int> a{0};\n"
        for use in ("a.load()", "a.store(1)", "a.fetch_add(f(1, 2))", "p->exchange(3)", "a.compare_exchange_weak(b, c)"):
            self.assert_breaks("atomic-order", self.source("src/base/x.cc", f"{head}void g() {{ {use}; }}\n"))
        for use in ("a++", "++a", "a += 2"):
            self.assert_breaks("atomic-order", self.source("src/base/x.cc", f"{head}void g() {{ {use}; }}\n"))
        good = "a.load(std::memory_order_acquire); a.fetch_add(f(1),\n    std::memory_order_relaxed); b.a++;"
        self.assert_clean(self.source("src/base/x.cc", f"{head}void g() {{ {good} }}\n"))

    def test_pragma_once(self):
        self.assert_breaks("pragma-once", self.rules({"src/base/x.h": "int a();\n"}))
        self.assert_clean(self.rules({"src/base/x.h": "// Why.\n#pragma once\n"}))
        self.assert_clean(self.rules({"src/base/x.h": "// lint: allow pragma-once (a reason)\nint a();\n"}))
        self.assert_breaks("pragma-once", self.rules({"src/base/x.h": "// lint: allow pragma-once\nint a();\n"}))
        guard = "#ifndef OMNES_X_H_\n#define OMNES_X_H_\n#endif\n"
        self.assert_breaks("pragma-once", self.rules({"src/base/x.h": guard}))
        self.assert_clean(self.rules({"perf/x.h": guard}))

    def test_placeholder_in_code(self):
        self.assert_breaks("placeholder", self.source("src/base/x.cc", "// TODO: later\n"))
        self.assert_clean(self.source("src/base/x.cc", "// TODO(#12): later\n"))


class IncludeTest(Sample):
    TARGETS = {
        "src/base/status.h": "#pragma once\n", "src/plan/plan.h": "#pragma once\n", "src/plan/hierarchy.h": "#pragma once\n",
        "src/core/comm.h": "#pragma once\n", "algorithms/registry.h": "#pragma once\n",
        "transports/transport.h": "#pragma once\n", "transports/shm/ring.h": "#pragma once\n",
        "src/kernels/kernels.h": "#pragma once\n", "include/omnes/omnes.h": "",
    }

    def include(self, path, name, quote='""'):
        return self.source(path, f"#include {quote[0]}{name}{quote[1]}\n", **self.TARGETS)

    def test_edges_of_the_table(self):
        good = [("src/plan/x.cc", "base/status.h"), ("algorithms/x.cc", "plan/plan.h"), ("src/core/x.cc", "algorithms/registry.h"),
                ("src/core/x.cc", "transports/transport.h"), ("src/api/x.cc", "core/comm.h"), ("perf/x.cc", "omnes/omnes.h"),
                ("perf/micro/x.cc", "kernels/kernels.h"), ("src/topo/x.cc", "plan/hierarchy.h"),
                ("transports/shm/x.cc", "transports/transport.h"), ("tests/unit/x.cc", "core/comm.h"),
                ("src/kernels/x.cc", "hwy/highway.h")]
        bad = [("src/base/x.cc", "plan/plan.h"), ("src/plan/x.cc", "core/comm.h"), ("src/plan/x.cc", "algorithms/registry.h"),
               ("src/kernels/x.cc", "plan/plan.h"), ("src/core/x.cc", "transports/shm/ring.h"), ("perf/x.cc", "base/status.h"),
               ("transports/tcp/x.cc", "transports/shm/ring.h"), ("src/topo/x.cc", "plan/plan.h"),
               ("src/api/x.cc", "plan/plan.h"), ("plugins/torch/x.cc", "core/comm.h"), ("src/core/x.cc", "core/none.h"),
               ("src/core/x.cc", "../base/status.h")]
        for path, name in good:
            with self.subTest(path=path, name=name):
                self.assert_clean(self.include(path, name))
        for path, name in bad:
            with self.subTest(path=path, name=name):
                self.assert_breaks("include", self.include(path, name))

    def test_angle_brackets_do_not_hide_an_edge(self):
        self.assert_breaks("include", self.include("src/base/x.cc", "plan/plan.h", "<>"))

    def test_an_edge_may_be_allowed_with_a_reason(self):
        text = '#include "transports/shm/ring.h"  // lint: allow include (until the registry has it)\n'
        self.assert_clean(self.source("src/core/x.cc", text, **self.TARGETS))

    def test_own_header_first(self):
        files = {"src/base/x.h": "#pragma once\n", **self.TARGETS}
        self.assert_breaks("first-include", self.source("src/base/x.cc", "#include <vector>\n#include \"base/x.h\"\n", **files))
        self.assert_clean(self.source("src/base/x.cc", "#include \"base/x.h\"\n", **files))


class FunctionTest(Sample):
    def body(self, head, lines, tail="}\n"):
        return head + "\n" + "  step();\n" * (lines - 2) + tail

    def test_limit_of_100_lines(self):
        for head in ("void f(int a) {", "A::A(int a) : a_(a), b_{a} {", "template <class T>\nauto A::f() const noexcept -> int {",
                     "TEST(Suite, Name) {", "void f(A a = {}, B b = B{1}) {",
                     "bool operator<(const A& a, const A& b) {", "A::A() noexcept : B<int>{2}, c_{1} {", "namespace a {\nstruct B {\n int f() override {\n} int g() {"):
            closing = "}\n" + ("};\n}\n" if head.startswith("namespace") else "")
            with self.subTest(head=head):
                self.assert_breaks("function-length", self.source("src/base/x.cc", self.body(head, 101, closing)))
                self.assert_clean(self.source("src/base/x.cc", self.body(head, 100, closing)))

    def test_tables_and_scopes_are_exempt(self):
        for head, closing in (("namespace omnes::base {", "}\n"), ("constexpr int kTable[f(2)] = {", "};\n"),
                              ("class A : public B<int> {", "};\n"), ('extern "C" {', "}\n")):
            with self.subTest(head=head):
                self.assert_clean(self.source("src/base/x.cc", self.body(head, 150, closing)))

    def test_spans(self):
        text = 'int a() {\n  auto f = [](int b) {\n    return b;\n  };\n}\n#if X\nint b() {\n#else\nint b(int) {\n#endif\n' \
               '  char c = \'{\';\n  int n = 1\'000;\n  auto s = R"({{{)";\n  // {\n}\nint c() { return 1; }\n'
        self.assertEqual([("a", 1, 5), ("b", 7, 15), ("c", 16, 16)], list(source_text.functions(text)))


class DocsTest(Sample):
    def test_broken_link(self):
        self.assert_breaks("link", self.rules({"README.md": "See [this](docs/none.md).\n"}))
        self.assert_breaks("link", self.rules({"README.md": "See [this](docs/CHANGELOG.md#nothing).\n"}))
        self.assert_breaks("link", self.rules({"README.md": "See [this](../outside.md).\n"}))

    def test_good_links(self):
        text = "# My `Title`, here\n[a](docs/CHANGELOG.md) [b](docs/CHANGELOG.md#010) [c](#my-title-here) [d](https://x.y/z) " \
               "[e](docs/)\n```\n[f](none)\n```\n"
        self.assert_clean(self.rules({"README.md": text}))

    def test_placeholder(self):
        for text in ("TBD\n", "A TODO here\n", "FIXME\n"):
            self.assert_breaks("placeholder", self.rules({"docs/a.md": text}))
        self.assert_clean(self.rules({"docs/a.md": "TODO(#3): more\n"}))


class SymbolTest(unittest.TestCase):
    HEADER = "OMNES_EXPORT omnesResult_t omnesA(int a,\n  int b);\n/* OMNES_EXPORT int omnesC(void); */\n" \
             "OMNES_EXPORT const char* omnesB(void);\n#define OMNES_EXPORT\n"

    def test_header(self):
        self.assertEqual({"omnesA", "omnesB"}, symbols.declared(self.HEADER))

    def test_map(self):
        self.assertEqual({"omnesA", "omnesB"}, symbols.mapped("OMNES_0.1 {\n global:\n  omnesA;\n  omnesB;\n local: *;\n};\n"))
        for bad in ("OMNES_0.1 { global: omnesA; };", "OMNES_0.1 { global: omnes*; local: *; };"):
            with self.assertRaises(ValueError):
                symbols.mapped(bad)

    def test_nm(self):
        text = "0001 T omnesA@@OMNES_0.1\n0002 A OMNES_0.1\n0003 D data\n"
        self.assertEqual({"omnesA", "data"}, symbols.exported(text))

    def test_difference_is_named(self):
        self.assertEqual(["omnesA is in the map but not in the header"], symbols.compare("map", {"omnesA"}, "header", set()))


if __name__ == "__main__":
    unittest.main()
