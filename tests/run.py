#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs all tests: unit tests of both builds, then end-to-end tests against the tool.

    tests/run.py --build build [--asan build-asan] [--filter REGEX] [--quick] [--jobs N] [--list]

One line a test; the last line is `N passed, N failed, N skipped`. Ends with 1 if a test failed. With
CI=true in the environment a skip counts as a failure unless ALLOWED_SKIPS has its reason.
STACKSNAP_PATIENCE=N there lets tests wait N times as long for what is late.

What fails beside other tests is run once more when nothing else runs. If it passes then, the load of
the suite has a part in it: it is told as unstable at the end, with what it said, and is somebody's
next work. What a sanitizer says, and more than MOST_AGAIN failures, stay failures."""
import argparse
import concurrent.futures
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
PATIENCE = max(1, int(os.environ.get("STACKSNAP_PATIENCE", "1")))  # of tests and their parts, see e2e/harness.py

# What a machine cannot be made to do by installing packages. The word before the colon of a skip.
ALLOWED_SKIPS = {
    "kernel": "the kernel, or the container around us, refuses the facility",
    "arch": "written for another processor",
    "reader": "a reader that Debian has not could not be fetched; `./dev readers` says why",
}
if os.geteuid():
    ALLOWED_SKIPS["root"] = "the run is not root's"


MOST_AGAIN = 30  # of classes and unit tests; a slow machine has many, and a program that is broken has more
# Said once, it is true however often it is not said.
NEVER_AGAIN = re.compile(r"Sanitizer|runtime error:|skipped, but could have run")
# It is told to look for leaks, and cannot while somebody else traces the process, as tests of all processes do.
WAS_TRACED = re.compile(r"==\d+==(LeakSanitizer has encountered a fatal error|HINT: .*(LeakSanitizer|LSAN_OPTIONS).*)")


def is_for_good(detail):
    return NEVER_AGAIN.search(WAS_TRACED.sub("", detail)) is not None


def with_jsonschema():
    """Debian's module belongs to /usr/bin/python3, which need not be the first in the path."""
    try:
        importlib.import_module("jsonschema")
    except ImportError:
        system = "/usr/bin/python3"
        if os.path.realpath(sys.executable) != os.path.realpath(system) and os.path.exists(system):
            os.execv(system, [system, *sys.argv])


def shortly(err):
    """The message, and the places in the tests that led to it."""
    kind, value, trace = err
    frames = [f for f in traceback.extract_tb(trace) if f.filename.startswith(HERE)]
    places = ", ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in frames)
    return f"{places}\n{kind.__name__}: {value}"


class Collector(unittest.TestResult):
    """Results of one class as plain tuples, which travel between processes."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def row(self, test, verdict, detail=""):
        name = test.id() if hasattr(test, "id") else str(test)
        self.rows.append((name, verdict, time.monotonic() - self.began, detail))

    def addSuccess(self, test):
        self.row(test, "ok")

    def addError(self, test, err):
        self.row(test, "FAILED", shortly(err))

    addFailure = addError

    def addSkip(self, test, reason):
        self.row(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        if err:
            self.row(subtest, "FAILED", shortly(err))


def load(module, variant, arguments):
    os.environ["STACKSNAP_BUILD"] = arguments["build"]
    os.environ["STACKSNAP_BUILD_ASAN"] = arguments["asan"]
    os.environ["STACKSNAP_VARIANT"] = variant
    sys.path.insert(0, os.path.join(HERE, "e2e"))
    return importlib.import_module(module)


def run_class(module, name, variant, arguments, only):
    """In a process of its own: the tests of one class; rows, options used, and the variant."""
    loaded = load(module, variant, arguments)
    kind = getattr(loaded, name)
    import harness
    harness.used_options.clear()
    suite = unittest.TestSuite(kind(n) for n in only)
    result = Collector()
    sys.stdout.flush()
    suite.run(result)
    return result.rows, sorted(harness.used_options), variant


def spawn(module, name, variant, arguments, only):
    """A class in a fresh interpreter: variants do not share module state, a crash is one class's."""
    job = json.dumps([module, name, variant, arguments, only])
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", job],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, timeout=900 * PATIENCE)
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return [[f"{module}.{name}", "FAILED", 0.0, "the worker died:\n" + done.stderr[-3000:]]], [], variant


def discover(arguments, wanted, quick=False):
    """(module, class, variant, names, class object) of all end-to-end tests; quick: of the short ones."""
    jobs = []
    for path in sorted(os.listdir(os.path.join(HERE, "e2e"))):
        found = re.fullmatch(r"(test_\w+)\.py", path)
        if not found:
            continue
        loaded = load(found.group(1), "release", arguments)
        for name, kind in sorted(vars(loaded).items()):
            if not isinstance(kind, type) or not issubclass(kind, unittest.TestCase):
                continue
            if kind.__module__ != loaded.__name__ or (quick and kind.long):
                continue
            for variant in ["release"] + (["asan"] if arguments["asan"] and kind.asan else []):
                names = [n for n in unittest.defaultTestLoader.getTestCaseNames(kind)
                         if wanted.search(f"{found.group(1)}.{name}.{n}.{variant}")]
                if names:
                    jobs.append((found.group(1), name, variant, names, kind))
    return jobs


class Report:
    def __init__(self, strict):
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}
        self.strict = strict
        self.failed = []    # (label, key, detail)
        self.unstable = []  # (label, detail)

    def add(self, name, verdict, seconds, detail="", variant="", key=None):
        """`key`: what is to be run again if it failed; None: it fails for good."""
        if verdict == "skipped" and self.strict and detail.split(":")[0] not in ALLOWED_SKIPS:
            verdict, detail = "FAILED", f"skipped, but could have run here: {detail}"
        label = re.sub(r"^test_", "", name) + (f" [{variant}]" if variant == "asan" else "")
        self.counts[verdict] += 1
        reason = f"  {detail}" if verdict == "skipped" else ""
        print(f"{verdict:8} {label}  {seconds:.2f} s{reason}", flush=True)
        if verdict == "FAILED":
            self.failed.append((label, None if is_for_good(detail) else key, detail))
            print("    " + detail.strip().replace("\n", "\n    "), flush=True)

    def to_run_again(self):
        """Keys of what failed, each once, in order; none where too much did."""
        for_good = {key for _, key, detail in self.failed if is_for_good(detail)}
        keys = list(dict.fromkeys(key for _, key, _ in self.failed if key and key not in for_good))
        return keys if len(keys) <= MOST_AGAIN else []

    def passed_alone(self, key):
        """Its failures become unstable tests, which have passed."""
        moved = [(label, detail) for label, k, detail in self.failed if k == key]
        self.failed = [row for row in self.failed if row[1] != key]
        self.unstable += moved
        self.counts["FAILED"] -= len(moved)
        self.counts["ok"] += len(moved)

    def close(self):
        if self.unstable:
            print("\nunstable: failed beside other tests, passed alone:")
            for label, detail in self.unstable:
                print(f"  {label}\n    " + detail.strip()[-1500:].replace("\n", "\n    "))
        if self.failed:
            print("\nfailed:\n  " + "\n  ".join(label for label, _, _ in self.failed))
        print(f"{self.counts['ok']} passed, {self.counts['FAILED']} failed, "
              f"{self.counts['skipped']} skipped", flush=True)
        return 1 if self.counts["FAILED"] else 0


def tap_rows(name, text):
    """The cases of a unit test; why one skips stands in a line before it (tests/unit/skip.h)."""
    why = ""
    for line in text.splitlines():
        told = re.match(r"# skip: (.*)", line)
        if told:
            why = told.group(1)
        found = re.match(r"(not )?ok \d+\s*-?\s*([^\s#]*)\s*(#\s*(skip|todo)\s*(.*))?", line, re.I)
        if found:
            # cmocka says "not ok N # SKIP name" of a test that skips itself.
            verdict = "skipped" if found.group(4) else "FAILED" if found.group(1) else "ok"
            case, reason = found.group(2), found.group(5) or ""
            if verdict == "skipped":
                case, reason, why = case or reason, why or "no reason is given", ""
            yield f"{name}.{case}", verdict, reason


def run_unit_test(test, build):
    """What meson registered, run directly so that each case counts."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
    environment.update(test.get("env") or {})
    began = time.monotonic()
    try:
        done = subprocess.run(test["cmd"], env=environment, cwd=test.get("workdir") or build,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=(test.get("timeout") or 300) * PATIENCE,
                              errors="replace")
        status, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        status, out, err = -1, "", "timed out"
    return test, time.monotonic() - began, status, out, err


def what_it_said(out, err):
    """The end of it. A case that fails leaves in the middle and gives nothing back: what is said of leaks then
    tells nothing, and hides what does. Run again, and passing, the program is asked for leaks as ever."""
    if re.search(r"^not ok", out, re.M):
        err = re.sub(r"(=+\s*)?==\d+==ERROR: LeakSanitizer.*", "", err, flags=re.S)
    return (out + err)[-3000:]


def report_unit_test(test, seconds, status, out, err, variant, report, key=None):
    name = f"unit.{test['name']}"
    rows = list(tap_rows(name, out))
    for case, verdict, detail in rows:
        report.add(case, verdict, seconds / len(rows), detail or what_it_said(out, err), variant, key)
    if status == 77:
        report.add(name, "skipped", seconds, (out + err).strip()[-200:], variant)
    elif status and not any(r[1] == "FAILED" for r in rows):
        report.add(name, "FAILED", seconds, f"status {status}\n" + (out + err)[-3000:], variant, key)
    elif not rows and not status:
        report.add(name, "ok", seconds, "", variant)


def unit_tests(build, variant, wanted, report):
    """Two at a time: most compute, some wait."""
    listed = subprocess.run(["meson", "introspect", "--tests", build], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    # The end-to-end tests are this program itself, which meson knows, too.
    tests = [test for test in json.loads(listed.stdout or "[]")
             if any(suite.endswith(":unit") for suite in test["suite"])
             and wanted.search(f"unit.{test['name']}.{variant}")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run_unit_test, t, build) for t in tests]):
            done = future.result()
            report_unit_test(*done, variant, report, ("unit", build, variant, done[0]["name"]))
    return {("unit", build, variant, test["name"]): test for test in tests}


def unit_test_passes(test, build):
    _, _, status, out, _ = run_unit_test(test, build)
    return status in (0, 77) and not any(verdict == "FAILED" for _, verdict, _ in tap_rows("", out))


def those_that_failed(report, job):
    """The job of a class with these tests alone; with all where it is not known which."""
    module, name, variant, names, kind = job
    found = [re.match(r"\w+\.\w+\.(test_\w+)", label) for label, key, _ in report.failed if key == job[:3]]
    known = {match.group(1) for match in found if match} & set(names)
    return module, name, variant, sorted(known) if known and all(found) else names, kind


def run_again(report, tests, classes, go):
    """What failed, alone. `tests`: unit tests by key; `classes`: jobs by key."""
    for key in report.to_run_again():
        print(f"again    {key[3] if key in tests else '.'.join(key[:2])}", flush=True)
        if key in tests:
            passed = unit_test_passes(tests[key], key[1])
        else:
            rows, _, _ = go(those_that_failed(report, classes[key]))
            passed = rows and all(verdict != "FAILED" for _, verdict, _, _ in rows)
            for name, verdict, _, detail in rows:
                if verdict == "FAILED":
                    print(f"    {name}: " + detail.strip().replace("\n", "\n    "), flush=True)
        if passed:
            report.passed_alone(key)


def options_covered(build, used, report):
    """No option or command of the help is without a test that runs it."""
    tool = os.path.join(build, "cli", "stacksnap")
    text = subprocess.run([tool, "help", "options"], stdout=subprocess.PIPE, text=True).stdout
    listed = []
    for line in text.splitlines():
        found = re.match(r"\s{1,8}(-\w)?,?\s*(--[a-z][a-z-]+)?(?=[\s=\[,]|$)", line)
        if found and (found.group(1) or found.group(2)):
            listed.append([g for g in found.groups() if g])
    untested = [" ".join(names) for names in listed if not set(names) & used]
    # The short and the long form are one option; each form of the help must have been used.
    verdict = "FAILED" if untested or not listed else "ok"
    report.add("options.all_of_the_help_are_exercised", verdict, 0.0,
               f"{len(listed)} options in the help, no test uses: {', '.join(untested)}")


def set_dispositions():
    """Under nohup, or in the background of a script, some signals are ignored, and what is started
    inherits that. A handler keeps them from ending us and is reset by exec: tools under test get
    them as from a terminal."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def main():
    set_dispositions()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--asan", default="")
    parser.add_argument("--filter", default="", help="regular expression on module.Class.test.variant")
    parser.add_argument("--jobs", type=int, default=min(4, (os.cpu_count() or 2) + 1))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true", help="without the classes that say they are long")
    parser.add_argument("--end-to-end", action="store_true", help="without the unit tests, for meson")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        module, name, variant, arguments, only = json.loads(options.worker)
        print(json.dumps(run_class(module, name, variant, arguments, only)))
        return 0
    wanted = re.compile(options.filter)
    arguments = {"build": os.path.abspath(options.build),
                 "asan": os.path.abspath(options.asan) if options.asan else ""}
    jobs = discover(arguments, wanted, options.quick)
    if options.list:
        for module, name, variant, names, _ in jobs:
            for test in names:
                print(f"{module}.{name}.{test}.{variant}")
        return 0
    report = Report(os.environ.get("CI") == "true")
    tests = {}
    if not options.end_to_end:
        tests.update(unit_tests(arguments["build"], "release", wanted, report))
        if arguments["asan"]:
            tests.update(unit_tests(arguments["asan"], "asan", wanted, report))
    used = set()

    def finish(done, job):
        rows, options_used, variant = done
        used.update(options_used)
        for row in rows:
            report.add(*row, variant, job[:3])

    def go(job):
        module, name, variant, names, _ = job
        try:
            return spawn(module, name, variant, arguments, names)
        except subprocess.TimeoutExpired:
            return [[f"{module}.{name}", "FAILED", 900.0, "the class did not end in 900 s"]], [], variant

    jobs.sort(key=lambda job: -job[4].weight)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(go, job): job for job in jobs if not job[4].exclusive}
        for future in concurrent.futures.as_completed(running):
            finish(future.result(), running[future])
    for job in jobs:
        if job[4].exclusive:
            finish(go(job), job)
    run_again(report, tests, {job[:3]: job for job in jobs}, go)
    if not options.filter and not options.quick:
        options_covered(arguments["build"], used, report)
    return report.close()


if __name__ == "__main__":
    with_jsonschema()
    sys.exit(main())
