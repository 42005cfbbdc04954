# SPDX-License-Identifier: LGPL-2.1-or-later
"""Chrome traces and speedscope's format in the programs that people look at them with: Catapult's
trace viewer and speedscope's app, both in a browser that reaches nothing outside."""
import copy
import glob
import json
import os
import shutil

from harness import Case, DENIED, HERE, missing
import readers
from test_formats_pprof import serving
import traces

GOLDEN = os.path.join(os.path.dirname(HERE), "golden")


def golden(pattern):
    found = sorted(glob.glob(os.path.join(GOLDEN, pattern)))
    assert found, pattern
    return found


def load(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert not DENIED.search(text), path
    return json.loads(text)


class Formats(Case):
    def recording(self, victim, *flags):
        """A .snaprec of two seconds."""
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-p", victim.pid, "--duration", "2", "-o", path, *flags)
        return path

    def rendered(self, recording, suffix, *flags):
        path = os.path.join(self.scratch(), "a" + suffix)
        self.run_tool("render", recording, "-o", path, *flags)
        return path

    def snapshot(self, victim, suffix, *flags):
        """Path of a file, by its suffix; what the tool was asked for beside."""
        path = os.path.join(self.scratch(), "a" + suffix)
        self.run_tool("-p", victim.pid, "-o", path, *flags)
        return path


class Traces(Formats):
    asan = True

    def assert_good(self, trace):
        self.assertEqual(traces.complaints(trace)[:5], [])

    def test_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        trace = load(self.snapshot(victim, ".trace.json"))
        self.assert_good(trace)
        by_thread = {}
        for slice in traces.slices(trace):
            by_thread.setdefault(slice["tid"], []).append(slice["name"])
        self.assertEqual(len(by_thread), 5)
        waiting = [names for names in by_thread.values() if "wait_futex" in names]
        self.assertEqual(len(waiting), 3)
        for names in waiting:
            self.assertEqual(names[0], "[sleeping]")
            self.assertEqual(names.count("walk"), 6)
        names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
        for tid in by_thread:
            self.assertTrue(any(n.endswith(f"/{tid}") for n in names), names)
        counts = [e["args"] for e in trace["traceEvents"] if e["name"] == "threads"]
        self.assertEqual(counts[0], {"running": 1, "sleeping": 4, "disk": 0, "other": 0})

    def test_made_by_hand(self):
        for path in golden("*.trace"):
            self.assert_good(load(path))


class Recordings(Formats):
    """Both formats of one recording tell the same; nothing depends on how the time was spent."""
    level = "test"
    asan = True

    def shares(self):
        victim = self.victim("shares", settled=False)
        return self.recording(victim)

    def threads(self, trace):
        """{tid: name without the tid}"""
        return {e["tid"]: e["args"]["name"].rsplit("/", 1)[0] for e in trace["traceEvents"]
                if e["name"] == "thread_name"}

    def test_trace(self):
        recording = self.shares()
        path = self.rendered(recording, ".trace.json")
        trace = load(path)
        self.assertEqual(traces.complaints(trace)[:5], [])
        threads = self.threads(trace)
        self.assertLessEqual({"busy", "half", "asleep"}, set(threads.values()))
        for tid, name in threads.items():
            names = {e["name"] for e in traces.slices(trace, tid)}
            wanted = {"busy": {"[running]", "seventy", "twenty", "ten"},
                      "half": {"half_awake", "half_asleep"}, "asleep": {"[sleeping]"}}
            self.assertLessEqual(wanted.get(name, set()), names, name)
        self.assertEqual(trace["otherData"]["ticks"] > 0, True)
        with open(path, "rb") as one, open(self.rendered(recording, ".trace.json"), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_state_frames(self):
        recording = self.shares()
        made = {where: load(self.rendered(recording, ".trace.json", "--state-frames", where))
                for where in ("root", "leaf", "no")}
        for trace in made.values():
            self.assertEqual(traces.complaints(trace)[:5], [])
        root, leaf, no = made.values()
        for tid, name in self.threads(root).items():
            for function in ("seventy", "half_asleep", "[running]"):
                times = {traces.time_of(trace, function, tid) for trace in made.values()}
                if function.startswith("["):
                    self.assertEqual(traces.time_of(root, function, tid),
                                     traces.time_of(leaf, function, tid), name)
                    self.assertEqual(traces.time_of(no, function, tid), 0)
                else:
                    self.assertEqual(len(times), 1, (name, function, times))
        self.assertFalse(any("cname" in e for e in no["traceEvents"]))

    def test_speedscope_tells_what_the_trace_tells(self):
        recording = self.shares()
        trace = load(self.rendered(recording, ".trace.json"))
        document = load(self.rendered(recording, ".speedscope.json"))
        names = [f["name"] for f in document["shared"]["frames"]]
        profiles = {p["name"]: p for p in document["profiles"]}
        self.assertEqual(len({p["endValue"] for n, p in profiles.items() if "/" in n}), 1)
        for tid, thread in self.threads(trace).items():
            profile = profiles[f"{thread}/{tid}"]
            self.assertEqual(profile["unit"], "nanoseconds")
            for name in ("seventy", "twenty", "half_asleep", "[running]", "[sleeping]"):
                number = names.index(name)
                weight = sum(weight for sample, weight in zip(profile["samples"], profile["weights"])
                             if number in sample)
                # The trace is in whole microseconds.
                self.assertAlmostEqual(weight / 1000, traces.time_of(trace, name, tid),
                                       delta=2 * len(profile["samples"]))

    def test_a_slice_of_time(self):
        trace = load(self.rendered(self.shares(), ".trace.json", "--from", "1s"))
        self.assertEqual(traces.complaints(trace)[:5], [])
        self.assertGreaterEqual(min(e["ts"] for e in traces.slices(trace)), 1000000)


class TraceChecker(Formats):
    """The checker itself: each of these it must refuse."""

    def broken(self):
        """A good trace with one thing changed: (what, trace)."""
        good = load(golden("service.trace")[0])
        self.assertEqual(traces.complaints(good), [])
        thread = 1302
        at = next(i for i, e in enumerate(good["traceEvents"]) if e["ph"] == "X" and e["tid"] == thread)

        def change(**values):
            trace = copy.deepcopy(good)
            trace["traceEvents"][at].update(values)
            return trace

        yield "a string as tid", change(tid="1302")
        yield "a bool as time", change(ts=True)
        yield "a time before zero", change(ts=-1)
        yield "a tid of 64 bits", change(tid=2 ** 40)
        yield "a colour that is not reserved", change(cname="thread_state_busy")
        yield "arguments on a frame", change(args={"line": 1})
        yield "no name", change(name="")
        yield "a slice shorter than its child", change(dur=1)
        yield "a slice that overlaps the next", change(dur=40001)
        yield "a thread without name", change(tid=4711)
        yield "an end without begin", change(ph="E")
        trace = copy.deepcopy(good)
        events = trace["traceEvents"]
        events[at], events[at + 7] = events[at + 7], events[at]
        yield "slices out of order", trace
        trace = copy.deepcopy(good)
        del next(e for e in trace["traceEvents"] if e["ph"] == "C")["cat"]
        yield "a counter without category", trace
        trace = copy.deepcopy(good)
        next(e for e in trace["traceEvents"] if e["ph"] == "C")["args"]["running"] = "1"
        yield "a counter of words", trace
        trace = copy.deepcopy(good)
        trace["traceEvents"] = [e for e in good["traceEvents"] if e["name"] != "process_name"]
        yield "a process without name", trace
        yield "the array form", {"traceEvents": good["traceEvents"]}

    def test_refuses_what_is_wrong(self):
        for what, trace in self.broken():
            self.assertNotEqual(traces.complaints(trace), [], what)


class Catapult(Formats):
    """The trace viewer's importer says what it does not understand."""
    level = "all"
    only = "browser"

    def read_in(self, path):
        """Every slice arrives, with its name, time, and under its parent."""
        self.end_victims()
        trace, model = load(path), readers.catapult(path)
        self.assertEqual(model["warnings"], [])
        wanted = {}
        # The viewer counts from the first event; the order of equal times is its own.
        first = min(e["ts"] for e in trace["traceEvents"] if "ts" in e)
        for event in traces.slices(trace):
            wanted.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"] - first, event["dur"], event["name"]))
        # An instant of a thread is a slice without a length there.
        for event in trace["traceEvents"]:
            if event["ph"] == "i" and event["s"] == "t":
                wanted.setdefault((event["pid"], event["tid"]), []).append(
                    (event["ts"] - first, 0, event["name"]))
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"]
                 if e["name"] == "thread_name"}
        got = {(t["pid"], t["tid"]): t for t in model["threads"] if t["slices"]}
        self.assertEqual(set(got), set(wanted))
        for key, thread in got.items():
            self.assertEqual(thread["name"], names[key])
            arrived = [(round(s["start"] * 1000), round(s["duration"] * 1000), s["name"])
                       for s in thread["slices"]]
            self.assertEqual(sorted(arrived), sorted(wanted[key]))
            roots = [s for s in thread["slices"] if s["parent"] is None]
            self.assertTrue(all(s["name"].startswith("[") or s["duration"] == 0 for s in roots),
                            roots[:3])
        counters = {(c["pid"], c["name"]) for c in model["counters"]}
        self.assertEqual(counters, {(e["pid"], e["name"]) for e in trace["traceEvents"]
                                    if e["ph"] == "C"})
        self.assertEqual({c["category"] for c in model["counters"]}, {"stacksnap"})
        return model

    def test_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        self.read_in(self.snapshot(victim, ".trace.json"))

    def test_made_by_hand(self):
        self.read_in(golden("service.trace")[0])

    def test_recording(self):
        victim = self.victim("shares", settled=False)
        self.read_in(self.rendered(self.recording(victim), ".trace.json"))

    def test_says_what_is_wrong(self):
        trace = load(golden("service.trace")[0])
        trace["traceEvents"].append({"ph": "E", "pid": 1234, "tid": 1234, "ts": 1, "name": "nothing"})
        path = os.path.join(self.scratch(), "broken.json")
        with open(path, "w") as f:
            json.dump(trace, f)
        self.assertNotEqual(readers.catapult(path)["warnings"], [])


class Speedscope(Formats):
    level = "all"
    only = "browser"

    def read_in(self, path):
        """Its schema has nothing against the file, and the app finds all of it."""
        self.end_victims()
        document = load(path)
        self.assertEqual(readers.speedscope_complaints(path), "")
        understood = readers.speedscope_app(path, self.scratch())
        # The app saves a frame once a profile that has it.
        frames = {tuple(sorted(f.items())) for f in understood["shared"]["frames"]}
        self.assertEqual(frames, {tuple(sorted(f.items())) for f in document["shared"]["frames"]})
        self.assertEqual([p["name"] for p in understood["profiles"]],
                         [p["name"] for p in document["profiles"]])
        for ours, theirs in zip(document["profiles"], understood["profiles"]):
            self.assertEqual(ours["unit"], theirs["unit"])
            self.assertEqual(ours["endValue"] - ours["startValue"],
                             theirs["endValue"] - theirs["startValue"], ours["name"])
        return document

    def test_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        document = self.read_in(self.snapshot(victim, ".speedscope.json"))
        names = [f["name"] for f in document["shared"]["frames"]]
        everything = document["profiles"][0]
        self.assertEqual(everything["endValue"], 5)
        self.assertEqual(everything["unit"], "none")
        stacks = {tuple(names[i] for i in sample): weight
                  for sample, weight in zip(everything["samples"], everything["weights"])}
        waiting = [(s, w) for s, w in stacks.items() if "wait_futex" in s]
        self.assertEqual([w for _, w in waiting], [3])
        self.assertEqual(waiting[0][0][0].split("[")[0], "threads")
        self.assertEqual(waiting[0][0][1], "[sleeping]")

    def test_recording(self):
        victim = self.victim("shares", settled=False)
        self.read_in(self.rendered(self.recording(victim), ".speedscope.json"))

    def test_inlined_functions_are_frames(self):
        if not os.path.exists(os.path.join(readers.BUILD, "tests", "targets", "inlined")):
            readers.missing("inlined", "g++")
        victim = self.victim("inlined")
        document = load(self.snapshot(victim, ".speedscope.json"))
        node = self.node(victim.pid)
        inlined = {e["function"] for s in node["stacks"] for e in s["entries"] if e.get("inlined")}
        self.assertTrue(inlined)
        self.assertLessEqual(inlined, {f["name"] for f in document["shared"]["frames"]})

    def test_made_by_hand(self):
        self.read_in(golden("service.speedscope")[0])
        self.assertEqual(readers.speedscope_complaints(*golden("*.speedscope")), "")

    def test_the_app_reads_traces_too(self):
        """Each function for as long as we say, in each thread."""
        path = golden("service.trace")[0]
        trace = load(path)
        understood = readers.speedscope_app(path, self.scratch())
        names = [f["name"] for f in understood["shared"]["frames"]]
        threads = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"]
                   if e["name"] == "thread_name"}
        for tid, thread in threads.items():
            profile, = [p for p in understood["profiles"] if thread + " " in p["name"]]
            opened, depth, got = {}, {}, {}
            for event in profile["events"]:
                name = names[event["frame"]]
                depth[name] = depth.get(name, 0) + (1 if event["type"] == "O" else -1)
                if event["type"] == "O" and depth[name] == 1:
                    opened[name] = event["at"]
                elif event["type"] == "C" and depth[name] == 0:
                    got[name] = got.get(name, 0) + event["at"] - opened[name]
            self.assertEqual(got, {e["name"]: traces.time_of(trace, e["name"], tid)
                                   for e in traces.slices(trace, tid)})

    def test_the_schema_refuses_what_is_wrong(self):
        good = load(golden("service.speedscope")[0])
        path = os.path.join(self.scratch(), "broken.json")
        for key, value in (("unit", "threads"), ("weights", ["1"]), ("samples", [["a"]]), ("type", "sums")):
            broken = copy.deepcopy(good)
            broken["profiles"][0][key] = value
            with open(path, "w") as f:
                json.dump(broken, f)
            self.assertNotEqual(readers.speedscope_complaints(path), "", key)

    def test_the_app_refuses_what_is_wrong(self):
        document = load(golden("service.speedscope")[0])
        document["profiles"][0]["weights"].pop()
        path = os.path.join(self.scratch(), "broken.speedscope.json")
        with open(path, "w") as f:
            json.dump(document, f)
        with self.assertRaisesRegex(AssertionError, "Expected samples.length"):
            readers.speedscope_app(path, self.scratch())


class Pprof(Formats):
    """pprof's own pages, whose scripts draw what they show."""
    level = "all"
    only = "browser"

    def test_pages(self):
        for program, package in (("go", "golang-go"), ("dot", "graphviz")):
            if not shutil.which(program):
                missing(program, package)
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        path = self.snapshot(victim, ".pb.gz")
        self.end_victims()
        with serving(self.scratch(), path) as root:
            shown = readers.pages("wait_futex", *(root + page for page in
                                                  ("", "top", "peek?f=.", "flamegraph")))
        for page in shown:
            self.assertEqual((page["status"], page["shown"]), (200, True), page["url"])
