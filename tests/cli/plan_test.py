#!/usr/bin/env python3
"""The command "omnes plan", run as a user runs it: plan_test.py PROGRAM."""
import copy
import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else "omnes"


def omnes(*words):
    return subprocess.run([PROGRAM, "plan", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def good(self, *words):
        done = omnes(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def refused(self, expected, *words, code=1):
        done = omnes(*words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def file(self, text, name="plan.json"):
        path = self.folder / name
        path.write_text(text)
        return path


class Registered(Case):
    def test_list_has_costs_and_says_what_does_not_fit(self):
        lines = self.good("list", "--nranks", 5).splitlines()
        rows = {tuple(line.split()[:2]): line.split()[2:] for line in lines[2:]}
        self.assertEqual(rows[("AllReduce", "ring")][:2], ["8", "8"])
        self.assertEqual(rows[("AllReduce", "circulant")][0], "6")
        only = self.good("list", "--collective", "all_gather", "--nranks", 5).splitlines()
        self.assertTrue(all(line.startswith("AllGather ") for line in only[2:]))
        self.assertGreater(len(only), 4)

    def test_show(self):
        text = self.good("show", "allreduce", "ring", "--nranks", 3)
        self.assertEqual(text.count("AllReduce ring: rank"), 3)
        text = self.good("show", "AllReduce", "ring", "--nranks", 3, "--rank", 1)
        self.assertEqual(text.count("AllReduce ring: rank 1 of 3"), 1)
        self.assertNotIn("rank 0 of", text)

    def test_every_algorithm_is_proven_and_travels(self):
        lines = self.good("list", "--nranks", 3).splitlines()[2:]
        self.assertGreater(len(lines), 30)
        for line in lines:
            collective, algorithm, rounds = line.split()[:3]
            if rounds == "not":
                continue
            text = self.good("verify", collective, algorithm, "--nranks", 3)
            self.assertIn(": proven", text)
            self.assertIn(f"out of place: {rounds} rounds", text)
            self.assertEqual("in place:  " in text, collective != "AlltoAll")
            path = self.folder / "out.json"
            self.good("export", collective, algorithm, "--nranks", 3, "-o", path)
            self.assertEqual(self.good("import", path), path.read_text())

    def test_goal_sends_what_is_received(self):
        text = self.good("export", "allreduce", "ring", "--nranks", 4, "--format", "goal", "--bytes", "1002")
        self.assertTrue(text.startswith("num_ranks 4\n"))
        sent, received = [], []
        for rank, body in enumerate(text.split("\nrank ")[1:]):
            defined = set()
            for line in body.splitlines()[1:]:
                words = line.replace(":", "").split()
                if "requires" in words:
                    self.assertIn(words[2], defined)  # and so no cycle within a rank
                elif words[1:2] == ["send"]:
                    sent.append((rank, int(words[4]), words[6], words[2]))
                elif words[1:2] == ["recv"]:
                    received.append((int(words[4]), rank, words[6], words[2]))
                defined.add(words[0])
        self.assertEqual(sorted(sent), sorted(received))
        lanes = text.count("calc 0") // 4 // 7  # 2n - 1 steps
        self.assertEqual(sum(int(size[:-1]) for *_, size in sent), lanes * 6 * 1002)  # 2(n - 1)/n of n ranks

    def test_chakra(self):
        trace = json.loads(self.good("export", "alltoall", "direct", "--nranks", 3, "--format", "chakra", "--bytes", "6"))
        self.assertEqual([each["rank"] for each in trace["ranks"]], [0, 1, 2])
        nodes = [node for each in trace["ranks"] for node in each["nodes"]]
        for kind in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
            found = [{a["name"]: next(v for k, v in a.items() if k != "name") for a in node["attr"]}
                     for node in nodes if node["type"] == kind]
            pairs = sorted((each["comm_src"], each["comm_dst"], each["comm_size"]) for each in found)
            self.assertEqual(pairs, [(s, d, 2) for s in range(3) for d in range(3) if s != d])
        self.refused("--bytes", "export", "alltoall", "direct", "--format", "goal", "--bytes", "x")

    def test_hosts(self):
        self.assertIn("4 ranks", self.good("verify", "allreduce", "hierarchical", "--hosts", "3,1"))

    def test_draw(self):
        svg = self.folder / "plan.svg"
        self.good("draw", "allreduce", "circulant", "--nranks", 5, "-o", svg)
        root = xml.etree.ElementTree.parse(svg).getroot()
        names = "{http://www.w3.org/2000/svg}"
        texts = [text.text for text in root.iter(names + "text")]
        for expected in ("AllReduce circulant, 5 ranks; 5 blocks a slice", "rank 4", "round 6", "reduces"):
            self.assertIn(expected, texts)
        arrows = [path for path in root.iter(names + "path") if path.get("class") in ("whole", "partial")]
        self.assertEqual(len(arrows), 5 * 6 + 2)  # a message a rank and round, and the legend
        self.refused("17 ranks are too many", "draw", "allreduce", "ring", "--nranks", 17)
        for line in self.good("list", "--nranks", 4).splitlines()[2:]:
            if "not for" not in line:
                xml.etree.ElementTree.fromstring(self.good("draw", *line.split()[:2], "--nranks", 4))

    def test_wrong_words(self):
        self.refused("there are oneshot", "verify", "allreduce", "rong")
        self.refused("is no collective; there are AllReduce", "show", "allreduc", "ring")
        self.refused("--root 9 is no rank", "show", "broadcast", "binomial", "--root", 9)
        self.refused("has no root", "show", "allreduce", "ring", "--root", 0)
        self.refused("give 1 to 4096", "verify", "allreduce", "ring", "--nranks", 0)
        self.refused("give 1 to 4096", "list", "--nranks", 1000000)
        self.refused("--rank 3", "show", "allreduce", "ring", "--nranks", 3, "--rank", 3)
        self.refused("--hosts", "verify", "allreduce", "ring", "--hosts", "3,x")
        self.refused("--format xml", "export", "allreduce", "ring", "--format", "xml")
        self.refused("cannot be opened", "verify", self.folder / "none.json")
        self.refused("cannot be created", "export", "allreduce", "ring", "-o", self.folder / "no" / "file")
        self.refused("", "show", code=2)
        self.refused("--what", "list", "--what", code=2)


class FromOutside(Case):
    """A plan with something wrong is refused, with the place named."""

    def setUp(self):
        super().setUp()
        self.ring = json.loads(self.good("export", "allreduce", "ring", "--nranks", 3))
        self.gather = json.loads(self.good("export", "allgather", "direct", "--nranks", 3))

    def refuse(self, plans, *expected):
        path = self.file(json.dumps(plans))
        for word in ("verify", "import"):
            error = self.refused(expected[0], word, path)
            for text in expected:
                self.assertIn(text, error)

    def changed(self, plans, change):
        plans = copy.deepcopy(plans)
        change(plans["plans"])
        return plans

    def test_hole(self):
        def leave_out(plans):
            lane = plans[1]["lanes"][0]
            index = next(i for i, step in enumerate(lane) if any(s.get("space") == "input" for s in step["sources"])
                         and any(s.get("space") == "output" for s in step["sinks"]))
            step = lane[index]
            step["sinks"] = [sink for sink in step["sinks"] if sink.get("space") != "output"]
            if not step["sinks"]:
                del lane[index]
        self.refuse(self.changed(self.gather, leave_out), "property 3", "rank 1")

    def test_overlap(self):
        def twice(plans):
            step = next(step for step in plans[0]["lanes"][0] if step.get("op") == "reduce")
            step["sources"].append(next(s for s in step["sources"] if "space" in s))
        self.refuse(self.changed(self.ring, twice), "property 3", "rank", "step")

    def test_cycle(self):
        def all_wait_first(plans):
            for plan in plans:
                lane = plan["lanes"][0]
                lane.append(lane.pop(0))
        self.refuse(self.changed(self.ring, all_wait_first), "step 0", "rank 0")

    def test_absurd_sizes(self):
        self.refuse(self.changed(self.ring, lambda plans: plans[2].update(blocks=2147483647)), "property 5")
        self.refuse(self.changed(self.ring, lambda plans: [p.update(scratchBlocks=2000000000) for p in plans]),
                    "2000000000 scratch blocks")
        self.refuse(self.changed(self.ring, lambda plans: plans[0].update(nranks=1 << 40)),
                    "plans[0].nranks: expected an integer from 1 to 2147483647")

        def endless(plans):
            for plan in plans:
                plan["lanes"][0][3]["iterations"] = 2147483647
        self.refuse(self.changed(self.ring, endless), "property")

    def test_wrong_types(self):
        def count_as_text(plans):
            plans[1]["lanes"][0][0]["sources"][0]["count"] = "1"
        self.refuse(self.changed(self.ring, count_as_text), "plans[1].lanes[0][0].sources[0].count")
        self.refuse(self.changed(self.ring, lambda plans: plans[0].update(lanes={})), "plans[0].lanes")
        self.refuse([1, 2], "expected an object")

    def test_not_json(self):
        for text in ("", "{", "\0", "[" * 100000, "{\"format\": 1e999}"):
            self.refused("plan.json", "verify", self.file(text))

    def test_options_of_registered_algorithms(self):
        self.refused("says its own", "verify", self.file(json.dumps(self.ring)), "--nranks", 3)


STEP = ('<step s="{}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}" cnt="1" depid="{}" deps="{}" '
        'hasdep="0"/>')


def step(number, kind, source=("i", 0), sink=("o", 0), after=(-1, -1)):
    return STEP.format(number, kind, *source, *sink, *after)


def ring(nranks):
    """MSCCL's ring all-reduce in place: n - 1 steps that add, n - 1 that hand on."""
    ranks = []
    for rank in range(nranks):
        places = [("i", (rank - k) % nranks) for k in range(2 * nranks - 1)]
        kinds = ["s"] + ["rrs"] * (nranks - 2) + ["rrcs"] + ["rcs"] * (nranks - 2) + ["r"]
        steps = "".join(step(i, kind, places[i], places[i]) for i, kind in enumerate(kinds))
        ranks.append(f'<gpu id="{rank}" i_chunks="{nranks}" o_chunks="{nranks}" s_chunks="0">'
                     f'<tb id="0" send="{(rank + 1) % nranks}" recv="{(rank - 1) % nranks}" chan="0">{steps}</tb></gpu>')
    return (f'<algo name="ring" nchannels="1" ngpus="{nranks}" proto="Simple" coll="allreduce" inplace="1">\n'
            + "\n".join(ranks) + "\n</algo>\n")


def exchange(nranks):
    """All-to-all, a thread block a peer."""
    ranks = []
    for rank in range(nranks):
        blocks = []
        for peer in range(nranks):
            there = peer if peer != rank else -1
            steps = (step(0, "s", ("i", peer)) + step(1, "r", ("i", 0), ("o", peer)) if peer != rank
                     else step(0, "cpy", ("i", rank), ("o", rank)))
            blocks.append(f'<tb id="{peer}" send="{there}" recv="{there}" chan="0">{steps}</tb>')
        ranks.append(f'<gpu id="{rank}" i_chunks="{nranks}" o_chunks="{nranks}" s_chunks="0">{"".join(blocks)}</gpu>')
    return f'<algo name="x" nchannels="1" ngpus="{nranks}" coll="alltoall">{"".join(ranks)}</algo>'


# Two thread blocks, scratch, a reduction of its own step, and dependencies between thread blocks.
PAIR = """<algo name="pair" nchannels="2" ngpus="2" proto="LL" coll="allreduce" inplace="0">
""" + "".join(
    f"""<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="1">
<tb id="7" send="{1 - rank}" recv="-1" chan="1">{step(0, "s")}</tb>
<tb id="3" send="-1" recv="{1 - rank}" chan="1">{step(0, "r", ("i", 0), ("s", 0))}</tb>
<tb id="5" send="-1" recv="-1" chan="0">{step(0, "nop", after=(7, 0))}{step(1, "re", ("i", 0), ("s", 0), (3, 0))}
{step(2, "cpy", ("s", 0), ("o", 0))}</tb></gpu>
""" for rank in range(2)) + "</algo>"


class Msccl(Case):
    def test_ring(self):
        for nranks in (2, 3, 5):
            proof = self.good("verify", self.file(ring(nranks), "ring.xml"))
            self.assertIn(f"AllReduce ring, {nranks} ranks: proven", proof)
            self.assertIn(f"in place:     {2 * nranks - 2} rounds", proof)
            self.assertIn(f" {2 * nranks - 2} messages", proof)

    def test_others(self):
        self.assertIn("AlltoAll x, 4 ranks: proven", self.good("verify", self.file(exchange(4), "a.xml")))
        self.assertIn("AllReduce pair, 2 ranks: proven", self.good("verify", self.file(PAIR, "pair.xml")))

    def test_import_writes_json(self):
        out = self.folder / "out.json"
        self.good("import", self.file(ring(4), "ring.xml"), "-o", out)
        self.assertEqual(len(json.loads(out.read_text())["plans"]), 4)
        self.assertEqual(self.good("import", out), out.read_text())

    def refuse(self, text, expected):
        self.assertIn("MSCCL XML: line ", self.refused(expected, "import", self.file(text, "bad.xml")))

    def change(self, text, before, after):
        self.assertIn(before, text)
        return text.replace(before, after, 1)

    def test_what_does_not_fit_names_the_element(self):
        good = ring(3)
        self.refuse(self.change(good, 'type="rrs"', 'type="rrx"'), 'line 2, gpu 0, tb 0, step 1: type="rrx" is none of')
        self.refuse(self.change(good, 'coll="allreduce"', 'coll="custom"'), 'line 1, algo: coll="custom"')
        self.refuse(self.change(good, 'ngpus="3"', 'ngpus="4"'), "gpu 3 is missing")
        self.refuse(self.change(good, 'ngpus="3"', 'ngpus="2000000000"'), "expected an integer from 1 to 256")
        self.refuse(self.change(good, 'id="1"', 'id="0"'), "line 3, gpu 0: is there twice")
        self.refuse(self.change(good, 'chan="0"', 'chan="8"'), "gpu 0, tb 0: attribute chan")
        self.refuse(self.change(good, 'cnt="1"', 'cnt="x"'), 'gpu 0, tb 0, step 0: attribute cnt="x"')
        self.refuse(self.change(good, 'cnt="1"', 'cnt="1" cnt="1"'), "line 2: not XML")
        self.refuse(self.change(good, 'srcoff="0"', 'srcoff="3"'), "step 0: attribute srcoff")
        self.refuse(self.change(good, '<step s="0"', '<hop s="0"'), "line")
        self.refuse(self.change(good, 'depid="-1" deps="-1"', 'depid="9" deps="0"'), "depends on tb 9 step 0")
        self.refuse(good[:-20], "not XML")
        self.refuse("<a>" * 100000, "not XML")
        self.refuse("<algo/><algo/>", "a second root")

    def test_wrong_schedules_name_the_step(self):
        good = ring(3)
        # A hole: what was never written is read.
        self.refuse(PAIR.replace('type="r"', 'type="nop"'), "reads s[0], into which nothing was written")
        # An overlap: one contribution twice.
        self.refuse(self.change(PAIR, step(0, "s"), step(0, "s") + step(1, "nop")).replace(
            step(1, "re", ("i", 0), ("s", 0), (3, 0)), step(1, "re", ("s", 0), ("s", 0), (3, 0))), "twice")
        # A cycle.
        self.refuse(self.change(PAIR, step(0, "s"), step(0, "s", after=(3, 0))).replace(
            step(0, "s"), step(0, "s", after=(3, 0))), "gpu 0, tb 7, step 0: can never run: a cycle")
        # Nobody takes what is sent.
        self.refuse(self.change(good, 'type="r"', 'type="nop"'), "than that receives")
        # One result never comes.
        self.refused("property 3", "import", self.file(
            PAIR.replace(step(2, "cpy", ("s", 0), ("o", 0)), "", 1), "bad.xml"))


if __name__ == "__main__":
    unittest.main()
