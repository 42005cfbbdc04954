# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pages: what they are made of, what they show, and how they are in a browser: no request, no error,
nothing sideways, nothing that axe-core calls serious, in both themes and all views."""
import json
import os
import re

from harness import Case, DENIED
import html_pages
import readers


def name_of(entry):
    """As pages name it: by its place where it has no name, as parts of the C library without its debug file."""
    return entry.get("function") or f"{os.path.basename(entry['module'])}+{entry['offset']}"


class Pages(Case):
    def page(self, *argv, suffix=".html", status=0):
        path = os.path.join(self.scratch(), "a" + suffix)
        self.run_tool(*argv, "-o", path, status=status)
        return path

    def load(self, path):
        page = html_pages.load(path)
        self.assertEqual(page.complaints, [])
        self.assertIsNone(DENIED.search(page.texts["pre"]))
        return page

    def recording(self, victim, *flags):
        return self.page("record", "-p", victim.pid, "--duration", "2", *flags, suffix=".snaprec")

    def assert_good(self, seen):
        self.assertEqual(seen["requests"], [])
        self.assertEqual(seen["wide"], [])
        self.assertEqual(seen["axe"], [])


class Documents(Pages):
    """Without a browser."""
    asan = True

    def test_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        page = self.load(self.page("-p", victim.pid))
        process, = page.data["processes"]
        self.assertEqual((process["pid"], sum(g["count"] for g in process["groups"])), (victim.pid, 5))
        self.assertLessEqual({"wait_futex", "walk", "spin", "worker-1", "busy"}, page.names())
        self.assertIn("wait_futex", page.texts["pre"])

    def test_stacks_are_whole(self):
        """Each row of a stack leads on to its caller, and the names are those of the JSON."""
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        capture = os.path.join(self.scratch(), "a.capture")
        self.run_tool("-p", victim.pid, "--save-capture", capture)
        self.end_victims()
        data = self.load(self.page("render", capture)).data
        documented = self.json("render", capture, free=False)["processes"][0]["stacks"]
        wanted = {s["id"]: [name_of(e) for e in s["entries"]] for s in documented}
        groups = data["processes"][0]["groups"]
        self.assertEqual({group["id"] for group in groups}, set(wanted))
        for group in groups:
            names, row = [], group["stack"]
            while row:
                names.append(data["texts"][data["frames"][6 * data["stacks"][2 * row + 1]]])
                row = data["stacks"][2 * row]
            self.assertEqual(names, wanted[group["id"]])

    def test_the_text_is_the_text_report(self):
        victim = self.victim("threads", "futex:3:worker:5")
        capture = os.path.join(self.scratch(), "a.capture")
        self.run_tool("-p", victim.pid, "--save-capture", capture)
        page = self.load(self.page("render", capture))
        self.assertEqual(page.texts["pre"], self.run_tool("render", capture, free=False).text)

    def test_same_bytes(self):
        victim = self.victim("threads", "futex:3:worker:5")
        capture = os.path.join(self.scratch(), "a.capture")
        self.run_tool("-p", victim.pid, "--save-capture", capture)
        made = [self.run_tool("render", capture, "-f", "html", free=False, env={"LC_ALL": locale, "COLUMNS": columns}).raw
                for locale, columns in (("C.UTF-8", "40"), ("C", "200"))]
        self.assertEqual(made[0], made[1])

    def test_recording(self):
        victim = self.victim("shares", settled=False)
        recording = self.recording(victim)
        data = self.load(self.page("render", recording)).data
        self.assertEqual(data["kind"], "recording")
        document = self.run_tool("render", recording, "--json", free=False).doc
        self.assertEqual(len(data["ticks"]), document["tick_count"])
        self.assertEqual(sum(data["ticks"][:-1]) > 0, True)
        samples = 0
        for track in data["tracks"]:
            runs, tick = iter(track["runs"]), 0
            for head in runs:
                if head & 2:
                    tick += next(runs)
                length = next(runs) if head & 1 else 1
                self.assertLess(6 * (head // 4) + 5, len(data["cells"]))
                tick += length
                samples += length
            self.assertLessEqual(tick, len(data["ticks"]))
        self.assertEqual(samples, document["sample_count"])
        names = {data["texts"][track["name"]] for track in data["tracks"]}
        self.assertLessEqual({"busy", "half", "asleep"}, names)

    def test_difference(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        paths = []
        for number, flags in enumerate(((), ("--thread", "busy"))):
            paths.append(os.path.join(self.scratch(), f"{number}.json"))
            self.run_tool("-p", victim.pid, "-o", paths[-1], *flags)
        data = self.load(self.page("diff", *paths, status=1)).data
        self.assertIn(("went", 3000, 0), {(c["change"], c["before"], c["after"]) for c in data["changes"]})
        data = self.load(self.page("diff", paths[0], paths[0])).data
        self.assertEqual((data["changes"], data.get("differs")), ([], None))

    def test_what_is_missing_is_told(self):
        victim = self.victim("threads", "futex:1:worker:2")
        path = os.path.join(self.scratch(), "a.json")
        self.run_tool("-p", victim.pid, "-o", path)
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        document["processes"][0]["error"] = {"code": "permission_denied", "message": "may not be traced"}
        document["warnings"].append({"code": "thread_not_stopped", "message": "it did not stop", "tid": 4711})
        with open(path, "w", encoding="utf-8") as f:
            json.dump(document, f)
        data = self.load(self.page("render", path, status=None)).data
        self.assertEqual((data["processes"][0]["trouble"], data["processes"][0]["because"]),
                         ("permission_denied", "may not be traced"))
        self.assertIn(["it did not stop", 0, 4711], data["warnings"])

    def test_checker_refuses_markup(self):
        """The checker itself."""
        victim = self.victim("threads", "futex:1:worker:2")
        with open(self.page("-p", victim.pid), encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(html_pages.Page(text).complaints, [])
        for old, new in (("</pre>", "<img src=x onerror=alert(1)></pre>"), ("</pre>", "<b></b></pre>"),
                         ("worker", "<!-- x -->worker"), ("'use strict'", "'use  strict'"),
                         ("default-src 'none'; ", ""), ("<pre ", "<pre onclick=x ")):
            self.assertNotEqual(html_pages.Page(text.replace(old, new, 1)).complaints, [], new)


class Browser(Pages):
    level = "all"
    only = "browser"

    def see(self, path, steps, **options):
        self.end_victims()
        return readers.html_page(path, steps, **options)

    def test_snapshot(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        seen = self.see(self.page("-p", victim.pid), [
            ["text", ".group > summary"],
            ["click", ".group > summary >> nth=1"], ["text", ".group[open] .frame .function"],
            ["search", "spin"], ["text", ".group > summary"],
            ["search", "worker-1"], ["text", ".group > summary"],
            ["search", "<b>"], ["text", "#panel"],
            ["search", ""], ["click", "fieldset input[value=sleeping]"], ["text", ".group > summary"],
            ["click", "fieldset input[value=sleeping]"], ["view", "calls"], ["text", "#panel .function"],
            ["view", "functions"], ["text", "td.function"],
            ["view", "waits"], ["text", "#panel"]])
        self.assert_good(seen)
        results = seen["results"]
        self.assertEqual(len(results[0]), 3)
        self.assertIn("busy", results[0][0])
        self.assertIn("worker-*", results[0][1])
        self.assertEqual([name.strip() for name in results[2]].count("walk"), 6)
        self.assertEqual(len(results[4]), 1)
        self.assertIn("busy", results[4][0])
        # One of three.
        self.assertRegex(results[6][0], r"1 \S worker-1 ")
        self.assertIn("Nothing is like that", results[8][0])
        self.assertEqual([("RUNNING" in line or "running" in line) for line in results[11]], [True])
        self.assertTrue(any("wait_futex" in name for name in results[14]), results[14])
        self.assertTrue(any("spin" in name for name in results[16]), results[16])
        self.assertIn("condition", results[18][0])
        self.assertTrue(seen["plain"]["visible"])
        self.assertIn("wait_futex", seen["plain"]["text"])

    def test_a_snapshot_opens_with_what_stands_out(self):
        """As the text does; the rows below have the same order, and no row reads as another one."""
        victim = self.victim("convoy", "5", "3600000000")
        other = self.victim("threads", "futex:2:worker:3", "futex:2:worker:5", "spin:1:busy", running=1)
        seen = self.see(self.page("-p", victim.pid, "-p", other.pid), [
            ["text", ".first p"], ["text", ".group > summary"], ["click", ".group > summary >> text=/in 2 stacks/"],
            ["text", ".group .group > summary"]])
        self.assert_good(seen)
        first, rows, _, stacks = seen["results"]
        self.assertRegex("\n".join(first), r"(?s)^Blocked convoy\[%d\] 4 threads wait for \d+ convoy .*\n"
                         r"Contended 4 \S convoy\[%d\] mutex busy.*\nRuns 1 \S threads\[%d\] busy RUNNING spin$"
                         % (victim.pid, victim.pid, other.pid))
        of_victim = [row for row in rows if "convoy" in row]
        self.assertRegex(of_victim[0], "sleep")
        self.assertRegex(of_victim[1], r"4 \S convoy .*mutex busy, held by \d+ convoy")
        of_other = [row for row in rows if "convoy" not in row]
        self.assertRegex(of_other[0], "busy RUNNING")
        self.assertRegex(of_other[1], r"4 \S worker-\* .*wait_futex.*in 2 stacks")
        self.assertEqual([bool(re.search(r"2 \S worker-\*.*tids \d", row)) for row in stacks], [True, True], stacks)

    def test_what_hardly_counts_is_one_row(self):
        victim = self.victim("threads", "futex:1:worker:2", "pipe:1:reader:2", "spin:1:busy:2", running=1)
        path = self.page("-p", victim.pid, suffix=".json")
        with open(path, encoding="utf-8") as f:
            document = json.load(f)
        for stack in document["processes"][0]["stacks"]:
            thread = stack["threads"][0]
            if thread["name"].startswith("worker"):
                stack["threads"] = [dict(thread, tid=10 ** 6 + i) for i in range(4000)]
                stack["count"] = 4000
        with open(path, "w", encoding="utf-8") as f:
            json.dump(document, f)
        seen = self.see(self.page("render", path, status=None), [
            ["view", "calls"], ["text", ".seldom > summary"], ["text", "#panel .function"],
            ["click", ".seldom > summary"], ["text", ".seldom .function"]], axe=False)
        _, seldom, functions, _, names = seen["results"]
        self.assertRegex(seldom[0], r"^0\.\d % 2 others$")
        self.assertIn("wait_futex", " ".join(functions))
        self.assertNotIn("spin", " ".join(functions))
        self.assertTrue({"spin", "wait_pipe"} <= {name.strip() for name in names}, names)

    def test_keyboard_and_themes(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        seen = self.see(self.page("-p", victim.pid), [
            ["key", "body", "/"], ["focus"],
            ["key", "#tab-tree", "ArrowRight"], ["focus"], ["key", "#tab-calls", "ArrowRight"],
            ["key", ".flame", "ArrowDown"], ["text", ".status"],
            ["key", ".flame", "Enter"], ["text", ".box.above"], ["focus"],
            ["key", ".flame", "Escape"], ["text", ".box.above"],
            ["style", "body", "background-color"], ["click", "#theme"], ["style", "body", "background-color"]], axe=False)
        results = seen["results"]
        self.assertEqual(results[1], "search")
        self.assertEqual(results[3], "tab-calls")
        self.assertRegex(results[6][0], r"clone|start")
        self.assertEqual(results[8], ["all"])
        self.assertEqual(results[9], "flame")
        self.assertEqual(results[11], [])
        self.assertNotEqual(results[12], results[14])

    def test_recording(self):
        victim = self.victim("shares", settled=False)
        seen = self.see(self.page("render", self.recording(victim)), [
            ["text", "[role=tab][aria-selected=true]"], ["text", ".box"], ["view", "functions"], ["text", "td.function"], ["text", "tbody tr:first-child td:nth-child(2)"],
            ["drag", ".brushed", 0.5, 0.75], ["value", ".slice input"], ["text", "tbody tr:first-child td:nth-child(2)"],
            ["fill", ".slice input >> nth=1", "1.2"], ["value", ".slice input >> nth=1"],
            ["click", ".slice button"], ["text", "tbody tr:first-child td:nth-child(2)"],
            ["view", "time"], ["text", ".names button"], ["click", ".names button >> nth=1"], ["value", "#search"],
            ["text", ".group > summary .count"], ["view", "waits"], ["text", "caption"]])
        self.assert_good(seen)
        opened, boxes, *results = seen["results"]
        self.assertEqual(opened, ["Flame graph"])
        self.assertIn("seventy", boxes)
        for name in ("seventy", "half_asleep"):
            self.assertTrue(any(name in text for text in results[1]), (name, results[1]))
        all_of_it, part, again = (int(results[i][0].replace(",", "")) for i in (2, 5, 9))
        self.assertGreater(float(results[4]), 0.5)
        self.assertLess(part, all_of_it)
        self.assertGreater(part, 0)
        self.assertEqual(again, all_of_it)
        self.assertLessEqual(float(results[7]), 1.3)
        self.assertTrue(any("busy" in name for name in results[11]))
        self.assertRegex(results[13], r"^tid:\d+$")
        self.assertTrue(results[14])

    def test_difference(self):
        victim = self.victim("threads", "futex:3:worker:5", "spin:1:busy", running=1)
        before, after = (self.page("-p", victim.pid, *flags, suffix=".json") for flags in ((), ("--thread", "busy")))
        seen = self.see(self.page("diff", before, after, status=1), [
            ["text", "#panel .change"], ["view", "flame"], ["text", ".box"]])
        self.assert_good(seen)
        self.assertTrue(any("went" in change for change in seen["results"][0]), seen["results"][0])
        self.assertIn("wait_futex", seen["results"][2])

    def test_nothing_of_a_target_is_markup(self):
        """Names of threads, arguments, a folder, and a program that try to be markup."""
        evil = '</script><img src=x onerror=alert(1)><!--"\'&'
        victim = self.victim("threads", "futex:2:<img/src=x>:3", exclude=())
        folder = os.path.join(self.scratch(), "<b onclick=x>")
        os.mkdir(folder)
        path = os.path.join(folder, "document.json")
        self.run_tool("-p", victim.pid, "-o", path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        quoted = evil.replace("\\", "\\\\").replace('"', '\\"')
        for name in ("walk", "wait_futex", "threads.c", "libc.so.6", "sleeping in", "root"):
            text = text.replace(name, name + quoted)
        text = re.sub(r'("(?:description|unit|user|exe|name|thread_name|syscall)": ")', lambda m: m.group() + quoted, text)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        made = self.page("render", path, status=None)
        page = self.load(made)
        self.assertTrue(any(evil in name for name in page.names()))
        self.assertIn(evil, page.texts["title"])
        seen = self.see(made, [["click", ".group > summary"], ["text", ".group[open]"], ["view", "flame"],
                               ["text", ".box"], ["view", "functions"], ["text", "td.function"], ["search", "onerror"],
                               ["text", "td.function"]], axe=False)
        self.assertEqual(seen["requests"], [])
        for number in (1, 3, 5, 7):
            self.assertIn("<img src=x onerror=alert(1)>", " ".join(seen["results"][number]), number)
        self.assertFalse({"img", "iframe", "object", "a", "@onerror", "@onclick"} & set(seen["elements"]), seen["elements"])
        self.assertEqual(seen["elements"]["script"], 2)
        self.assertIn(evil, seen["plain"]["text"])
