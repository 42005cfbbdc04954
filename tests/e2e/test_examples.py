# SPDX-License-Identifier: LGPL-2.1-or-later
"""The services of examples/ on their bad day: who waits for what shows, and each ends when its input does."""
import os
import re
import subprocess
import sys
import unittest

from harness import DEADLINE, SOURCE, Case, build_once, functions, need, stacks_of, wait_until

EXAMPLES = os.path.join(SOURCE, "examples")
# On a slow machine the memory of a runtime takes longer to copy than a stop is worth.
PATIENT = ("--runtime-budget", 10000, "--stop-timeout", 30000, "--timeout", 60000)
FORGE = ["background.go", "database.go", "main.go", "process.go", "repository.go", "web.go"]


def shape(node):
    """A logical process without numbers that vary: type, name, those below it."""
    name = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", node["name"])
    return node["type"], name, sorted(shape(child) for child in node.get("children", []))


def each(nodes):
    for node in nodes:
        yield node
        yield from each(node.get("children", []))


class Examples(Case):
    def start(self, *argv):
        return self.program(["nice", "-n", "15", *argv], settled=False, stderr=subprocess.STDOUT)

    def end(self, victim):
        victim.process.stdin.close()
        self.assertEqual(victim.process.wait(DEADLINE), 0, victim.process.stdout.read())

    def forge(self):
        need("go")
        program = build_once("forge", ["go", "build", "-o", "{out}",
                                       *(os.path.join(EXAMPLES, "forge", name) for name in FORGE)],
                             env=dict(os.environ, GO111MODULE="off", GOTOOLCHAIN="local", GOFLAGS=""))
        return self.start(program)

    def stacks(self, node, name):
        """Of all logical processes of a name: stacks."""
        return [stack for logical in each(node["logical"]) if logical["name"].startswith(name)
                for stack in logical["stacks"]]

    def in_place(self, node):
        """Those who are counted before they wait do so."""
        waits = [stack["tasks"][0].get("wait", "") for stack in self.stacks(node, "POST:")]
        pool = [stack for stack in self.stacks(node, "GET:") if "database/sql.(*DB).conn" in functions(stack)]
        asked = [stack for stack in self.stacks(node, "GET:")
                 if "main.connection.QueryContext" in functions(stack)]
        queues = [stack["count"] for stack in self.stacks(node, "Queue:") if stack["tasks"][0].get("wait") == "select"]
        return (len([wait for wait in waits if wait in ("semacquire", "sync.Mutex.Lock")]) == 4 and
                len(pool) == 6 and len(asked) == 2 and sum(queues) == 6)

    def test_the_service_in_go(self):
        victim = self.forge()
        node = {}

        def look():
            node.update(self.node(victim.pid, *PATIENT))
            return self.in_place(node)

        wait_until(look, "the goroutines to be in place")
        get, post = ("request", "GET: /demo/app/issues", []), ("request", "POST: /demo/app/git-receive-pack", [])
        hook = (*post[:2], [("normal", "git receive-pack [demo/app.git]", [])])
        self.assertEqual(sorted(map(shape, node["logical"])), sorted([
            ("none", "(unassociated)", []),
            ("system", "Cron", [("normal", "Cron: repo_statistics", [])]),
            ("system", "Queue: issue_indexer", []),
            ("system", "Queue: mail", []),
            ("system", "Web: ADDRESS", sorted([get] * 8 + [post] * 4 + [hook]))]))
        hooks = [functions(stack) for stack in self.stacks(node, "git receive-pack")]
        self.assertTrue(any("main.(*repository).runGit" in stack for stack in hooks), hooks)
        self.assertTrue(any("main.countCommits" in functions(stack) for stack in self.stacks(node, "Cron: ")))
        for stack in self.stacks(node, "GET:"):
            own = {entry["function"]: not entry.get("system") for entry in stack["entries"]}
            self.assertTrue(own["main.(*site).showIssues"])
            self.assertFalse(own["net/http.(*conn).serve"])
        self.check_text(victim)
        # Of few frames the outermost ones are some, and what is between is counted.
        for stack in self.stacks(self.node(victim.pid, "-n", "6", *PATIENT), "GET:"):
            self.assertEqual((functions(stack)[-1], stack["unwind"]), ("runtime.goexit", "complete"))
            self.assertGreater(stack["gap"]["count"], 3)
        self.end(victim)

    def check_text(self, victim):
        """Requests that wait for the same thing are one; natively there are only threads."""
        text = self.run_tool("-p", victim.pid).text
        self.assertRegex(text, r"6 × GET: /demo/app/issues \[[-0-9, ]+\]  request")
        self.assertRegex(text, r"4 × POST: /demo/app/git-receive-pack \[[-0-9, ]+\]  request")
        self.assertNotRegex(self.run_tool("-p", victim.pid, "-v").text, r"\d × (GET|POST)")
        self.assertNotIn("issues", self.run_tool("-p", victim.pid, "--runtimes", "none").text)
        only = self.run_tool("-p", victim.pid, "--match", "repository..push$", "--no-children").text
        self.assertIn("5 of ", only)
        self.assertNotIn("Queue:", only)

    def test_the_service_in_python(self):
        if not (3, 8) <= sys.version_info < (3, 16) or sys.implementation.name != "cpython":
            raise unittest.SkipTest(f"python: {sys.version}")
        victim = self.start(sys.executable, os.path.join(EXAMPLES, "notes", "notes.py"))
        found = {}

        def look():
            node = self.node(victim.pid, *PATIENT)
            stacks = [(stack["count"], functions(stack)) for stack in stacks_of(node)]
            found.clear()
            for name in ("Mail.announce", "Database.transaction", "make_thumbnail", "_worker", "Feed.follow"):
                found[name] = sum(count for count, names in stacks if name in names)
            found["glue"] = [name for _, names in stacks for name in names
                             if name and name.startswith(("builtin_next", "gen_send", "gen_iternext"))]
            found["tasks"] = [task for stack in stacks_of(node) for task in stack.get("tasks", ())]
            # Whoever has the database asks for mail; the pool's third worker computes.
            return (found["Mail.announce"] == 1 and found["Database.transaction"] == 3 and
                    found["make_thumbnail"] == 1 and found["_worker"] == 3)

        wait_until(look, "the threads to be in place")
        self.assertEqual(found["glue"], [], "next() of a generator, as each context manager is entered")
        if sys.version_info >= (3, 11):
            followers = [task for task in found["tasks"] if task["name"].startswith("follower-")]
            publisher = [task for task in found["tasks"] if task["name"] == "publisher"]
            self.assertEqual(len(followers), 20, found)
            self.assertEqual({task.get("parent") for task in followers}, {publisher[0]["id"]})
            self.assertIn(publisher[0]["parent"], [task["id"] for task in found["tasks"]])
        self.end(victim)
