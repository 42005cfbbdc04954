#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs tests: unit tests, end-to-end tests against the tool, and checks that are commands.

    tests/run.py --build build [--asan build-asan] [--quick | --all | --asan-all | --rest] [--filter REGEX] [--list]
                 [--check NAME=COMMAND] [--alone NAME=COMMAND] [--jobs N] [--measure]

One line a test; the last line is `N passed, N failed, N skipped`. Ends with 1 if a test failed.
A test has a level (harness.Case): --quick runs those of "quick", --all runs all, a filter chooses among all; without
any of them those of "all" are left out. With a second build, which has sanitizers, unit tests and the classes that
say `asan` run there, and what meson's suite "both" names in both; --all runs all in both. --asan-all and --rest are
two halves: the first for a bare system, the second for the machine itself. In them what parses and computes runs with
sanitizers alone.
With CI=true in the environment a skip counts as a failure unless ALLOWED_SKIPS has its reason.
STACKSNAP_PATIENCE=N there lets tests wait N times as long for what is late.

What fails beside other tests is run once more when nothing else runs. If it passes then it is reported as unstable,
with what it said: it has found something, in the program or in itself. With CI=true it has failed, unless UNSTABLE
has it with a reason. What a sanitizer says, and more than MOST_AGAIN failures, stay failures."""
import argparse
import concurrent.futures
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

import pool

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


# Tests that may pass at the second try alone, by a regular expression on `module.Class.test` or `unit.NAME.test`, and
# why that is no matter of the code. All others, which compute, must pass at the first.
UNSTABLE = {
    r"^(stop|nostop|rest|exec|children|threads|tree|tasks|target_files|sandbox|trace|unwind|witness|core|output|symbols|"
    r"rights|calls|chain|library|bad_input|mutated_targets|aarch64)\.":
        "they stop a live program at one moment, and on a busy machine it may be elsewhere then, or late",
    r"^(record|record_\w+|top|watch|silent|silent_files|stalls|crowds|deadlines|soak|serve|serve_clients)\.":
        "they count what happens in a second, of which a busy machine gives them a part",
    r"^(waits_\w+|incidents)\.":
        "what a thread waits for is asked of other processes, for which a busy machine may leave no time",
    r"^(runtime_\w+|runtimes_matrix|python_states|fold|explain|jit|mappings)\.":
        "they read a runtime while it runs: it may be about to do something else",
    r"^(formats_\w+|debuginfod|completions|faults|fuzz|mutants|examples|filters|capture_file|hostile_names|packages)\.":
        "browsers, servers, shells and fuzzers that they start have time limits of their own",
    r"^unit\.(\w+_live|recorder|recording|record_\w+|sampler\w*|single|tracer|tracee|roles|parsers|collectors|"
    r"naming|watch|workers|spawn|stop_\w+|thread_asker|tick_pacer|touch|unwinder_\w+|remote_unwinder|capture\w*|nostop|sandbox\w*|"
    r"serve|log_\w+|explain|opener|discover|api|wait_\w+|waits_\w+|copy_blocked|cgroup|files)\.":
        "their processes, or timers, wait for a processor",
}

BARE = "[bare]"  # a mark at what a check has run
LEVELS = ["quick", "test", "all"]
DURATIONS = os.path.join(HERE, "durations.txt")
MOST_AGAIN = 30  # of classes and unit tests; a slow machine has many, and a program that is broken has more
# Said once, it is true however often it is not said.
NEVER_AGAIN = re.compile(r"Sanitizer|runtime error:|skipped, but could have run")
# It is told to look for leaks, and cannot while somebody else traces the process, as tests of all processes do.
WAS_TRACED = re.compile(r"==\d+==(LeakSanitizer has encountered a fatal error|HINT: .*(LeakSanitizer|LSAN_OPTIONS).*)")


def is_for_good(detail):
    return NEVER_AGAIN.search(WAS_TRACED.sub("", detail)) is not None


def with_jsonschema():
    """Debian's module belongs to /usr/bin/python3, which need not be the first in the path."""
    if not importlib.util.find_spec("jsonschema"):  # found, not loaded: that takes a worker as long as some tests
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
    """In a process of its own: the tests of one class; rows, options used, and seconds of a processor."""
    loaded = load(module, variant, arguments)
    kind = getattr(loaded, name)
    import harness
    harness.used_options.clear()
    suite = unittest.TestSuite(kind(n) for n in only)
    result = Collector()
    sys.stdout.flush()
    suite.run(result)
    return result.rows, sorted(harness.used_options), sum(os.times()[:4])


def spawn(module, name, variant, arguments, only):
    """A class in a fresh interpreter: variants do not share module state, a crash is one class's."""
    job = json.dumps([module, name, variant, arguments, only])
    try:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--worker", job],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              text=True, timeout=900 * PATIENCE)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        why = f"the class did not end in {900 * PATIENCE} s"
    except (IndexError, ValueError):
        why = f"the worker ended with {done.returncode}:\n" + done.stderr[-3000:]
    return [[f"{module}.{name}", "FAILED", 0.0, why]], [], 0.0


class ClassTest:
    """The tests of a class, in one of the builds."""

    def __init__(self, module, kind, variant, arguments, names):
        self.module, self.kind, self.variant, self.arguments, self.names = module, kind, variant, arguments, names
        self.name = f"{module}.{kind.__name__}.{variant}"
        self.place = pool.ALONE if kind.alone else pool.BESIDE
        self.only = kind.only

    def listed(self):
        return [f"{self.module}.{self.kind.__name__}.{name}.{self.variant}" for name in self.names]

    def run(self, names=None):
        """Rows of what ran, the options that were used, seconds of a processor."""
        return spawn(self.module, self.kind.__name__, self.variant, self.arguments, names or self.names)

    def passes(self, labels):
        """Those that failed, alone; all of them where it is not known which did."""
        found = [re.match(r"\w+\.\w+\.(test_\w+)", label) for label in labels]
        known = {match.group(1) for match in found if match} & set(self.names)
        rows, _, _ = self.run(sorted(known) if known and all(found) else None)
        return rows


class UnitTest:
    """What meson registered, run directly so that each case counts."""
    place, only = pool.BESIDE, None
    timed = []  # words before the command, which say what it computed

    def __init__(self, test, build, variant):
        self.test, self.build, self.variant = test, build, variant
        self.name = f"unit.{test['name']}.{variant}"

    def listed(self):
        return [self.name]

    def run(self):
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="halt_on_error=1")
        environment.update(self.test.get("env") or {})
        began = time.monotonic()
        try:
            done = subprocess.run([*self.timed, *self.test["cmd"]], env=environment,
                                  cwd=self.test.get("workdir") or self.build, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=(self.test.get("timeout") or 300) * PATIENCE, errors="replace")
            status, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            status, out, err = -1, "", "timed out"
        busy = [float(word) for word in err.split()[-2:]] if self.timed else []
        rows = list(unit_rows(f"unit.{self.test['name']}", time.monotonic() - began, status, out, err))
        return rows, [], sum(busy)

    def passes(self, _):
        return self.run()[0]


class Check:
    """A command that ends with 0 when all is well. What it prints as this program does are its tests."""
    variant, passes, only = "release", None, None

    def __init__(self, text, place):
        self.place = place
        self.title, _, self.command = text.partition("=")
        self.name = f"check.{self.title.replace(' ', '_')}.release"

    def listed(self):
        return [self.name]

    def run(self):
        began = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            done = subprocess.run(["bash", "-c", self.command], stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, check=False)
            output.seek(0)
            said = output.read()
        seconds = time.monotonic() - began
        verdict = "FAILED" if done.returncode else "ok"
        rows = [[label + " " + BARE, *row] for label, *row in printed_rows(said)]
        return [*rows, [self.name[:-len(".release")], verdict, seconds, said.strip()[-60000:]]], [], seconds


def printed_rows(text):
    """What a run of this program has printed: label, verdict, seconds, reason. What passed alone has passed."""
    _, found, end = text.rpartition("\nfailed:\n")
    failed = set(re.findall(r"^  (\S.*)$", end, re.M)) if found else set()
    for verdict, label, seconds, reason, lines in re.findall(
            r"^(ok|FAILED|skipped) +(\S.*?)  ([\d.]+) s(?:  (.*))?((?:\n    .*)*)$", text, re.M):
        reason = reason or lines.replace("\n    ", "\n").strip()
        if verdict == "FAILED" and label not in failed:
            verdict, reason = "ok", ""
        yield label, verdict, float(seconds), reason


def level_of(kind, name):
    """Of a method; its class has one for those that say nothing."""
    return LEVELS.index(getattr(getattr(kind, name), "level", kind.level))


def variant_runs(kind, name, variant, options, has_asan):
    """Whether a method of a class runs in that build."""
    with_asan = kind.asan and has_asan
    if options.all or options.filter:
        return variant == "release" or with_asan
    # What is "all" parses and computes: where it runs with sanitizers the other build tells nothing more.
    unchecked = kind.asan in (False, "both")
    if options.rest:
        return variant == "release" and unchecked and level_of(kind, name) == LEVELS.index("all")
    if level_of(kind, name) > LEVELS.index("quick" if options.quick else "test"):
        return variant == "asan" and with_asan and options.asan_all
    if variant == "release":
        return unchecked or not has_asan or (kind.asan == "all" and not options.asan_all)
    return with_asan and (kind.asan is True or options.asan_all)


def class_tests(arguments, options, wanted):
    """All classes of end-to-end tests, with the methods that run."""
    found = []
    for path in sorted(os.listdir(os.path.join(HERE, "e2e"))):
        module = re.fullmatch(r"(test_\w+)\.py", path)
        if not module:
            continue
        loaded = load(module.group(1), "release", arguments)
        for name, kind in sorted(vars(loaded).items()):
            if not isinstance(kind, type) or not issubclass(kind, unittest.TestCase):
                continue
            if kind.__module__ != loaded.__name__:
                continue
            for variant in ("release", "asan"):
                names = [n for n in unittest.defaultTestLoader.getTestCaseNames(kind)
                         if variant_runs(kind, n, variant, options, arguments["asan"] != "") and
                         wanted.search(f"{module.group(1)}.{name}.{n}.{variant}")]
                if names:
                    found.append(ClassTest(module.group(1), kind, variant, arguments, names))
    return found


def unit_tests(arguments, options, wanted):
    """With sanitizers where there is such a build; in the other as well those of the suite "both", or if all is asked
    for. What meson calls heavy computes for seconds."""
    builds = {"asan": arguments["asan"], "release": arguments["build"]}
    if options.rest:
        return
    if not arguments["asan"]:
        del builds["asan"]
    heavy = options.all or options.filter or options.asan_all
    for variant, build in builds.items():
        listed = subprocess.run(["meson", "introspect", "--tests", build], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False)
        # The end-to-end tests are this program itself, which meson knows, too.
        for test in json.loads(listed.stdout or "[]"):
            suites = [suite.rpartition(":")[2] for suite in test["suite"]]
            if variant == "release" and arguments["asan"] and "both" not in suites and not (options.all or options.filter):
                continue
            if "unit" in suites and (heavy or "heavy" not in suites) and \
                    wanted.search(f"unit.{test['name']}.{variant}"):
                yield UnitTest(test, build, variant)


class Report:
    def __init__(self, strict):
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}
        self.strict = strict
        self.failed = []    # (label, what is run again, detail)
        self.unstable = []  # (label, detail)

    def add(self, name, verdict, seconds, detail="", variant="", test=None):
        """`test`: what is to be run again if it failed; None: it fails for good."""
        if verdict == "skipped" and self.strict and detail.split(":")[0] not in ALLOWED_SKIPS:
            verdict, detail = "FAILED", f"skipped, but could have run here: {detail}"
        label = re.sub(r"^test_", "", name) + (f" [{variant}]" if variant == "asan" else "")
        self.counts[verdict] += 1
        reason = f"  {detail}" if verdict == "skipped" else ""
        print(f"{verdict:8} {label}  {seconds:.2f} s{reason}", flush=True)
        if verdict == "FAILED":
            self.failed.append((label, None if is_for_good(detail) else test, detail))
            print("    " + detail.strip().replace("\n", "\n    "), flush=True)

    def to_run_again(self):
        """Tests of which something failed, each once, in order; none where too much did."""
        for_good = {id(test) for _, test, detail in self.failed if is_for_good(detail)}
        tests = {id(test): test for _, test, _ in self.failed if test and test.passes}
        found = [test for key, test in tests.items() if key not in for_good]
        return found if len(found) <= MOST_AGAIN else []

    def labels_of(self, test):
        return [label for label, one, _ in self.failed if one is test]

    def passed_alone(self, test):
        """Its failures become unstable tests. They have passed, but for a strict run, which wants a reason."""
        moved = [(label, detail) for label, one, detail in self.failed if one is test]
        self.failed = [row for row in self.failed if row[1] is not test]
        self.unstable += moved
        for label, detail in moved:
            if self.strict and not any(re.search(pattern, label) for pattern in UNSTABLE):
                self.failed.append((label + " (passes alone)", None, detail))
            else:
                self.counts["FAILED"] -= 1
                self.counts["ok"] += 1

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


def what_it_said(out, err):
    """The end of it. A case that fails leaves in the middle and gives nothing back: what is said of leaks then
    tells nothing, and hides what does. Run again, and passing, the program is asked for leaks as ever."""
    if re.search(r"^not ok", out, re.M):
        err = re.sub(r"(=+\s*)?==\d+==ERROR: LeakSanitizer.*", "", err, flags=re.S)
    return (out + err)[-3000:]


def unit_rows(name, seconds, status, out, err):
    rows = list(tap_rows(name, out))
    for case, verdict, detail in rows:
        yield case, verdict, seconds / len(rows), detail or what_it_said(out, err)
    if status == 77:
        yield name, "skipped", seconds, (out + err).strip()[-200:]
    elif status and not any(verdict == "FAILED" for _, verdict, _ in rows):
        yield name, "FAILED", seconds, f"status {status}\n" + (out + err)[-3000:]
    elif not rows and not status:
        yield name, "ok", seconds, ""


def run_again(report):
    """What failed, alone."""
    for test in report.to_run_again():
        print(f"again    {test.name}", flush=True)
        rows = test.passes(report.labels_of(test))
        for name, verdict, _, detail in rows:
            if verdict == "FAILED":
                print(f"    {name}: " + detail.strip().replace("\n", "\n    "), flush=True)
        if rows and all(row[1] != "FAILED" for row in rows):
            report.passed_alone(test)


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


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--asan", default="")
    parser.add_argument("--filter", default="", help="regular expression on module.Class.test.variant")
    parser.add_argument("--jobs", type=int, default=0, help="at once; without it the processors decide")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true", help="only tests of the level quick")
    parser.add_argument("--all", action="store_true", help="tests of all levels, in both builds")
    parser.add_argument("--asan-all", action="store_true", help="tests of all levels where sanitizers are in the build")
    parser.add_argument("--rest", action="store_true", help="what a run with --asan-all leaves out")
    parser.add_argument("--check", action="append", default=[], metavar="NAME=COMMAND", help="what else must succeed, beside the tests")
    parser.add_argument("--alone", action="append", default=[], metavar="NAME=COMMAND", help="when nothing else runs")
    parser.add_argument("--measure", action="store_true", help="write down how long they take, in durations.txt")
    parser.add_argument("--end-to-end", action="store_true", help="without the unit tests, for meson")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen_tests(options):
    wanted = re.compile(options.filter)
    arguments = {"build": os.path.abspath(options.build),
                 "asan": os.path.abspath(options.asan) if options.asan else ""}
    found = [Check(text, pool.BESIDE) for text in options.check] + [Check(text, pool.ALONE) for text in options.alone]
    if not options.end_to_end:
        found += unit_tests(arguments, options, wanted)
    return found + class_tests(arguments, options, wanted)


def main():
    set_dispositions()
    options = parse_options()
    if options.worker:
        print(json.dumps(run_class(*json.loads(options.worker))))
        return 0
    tests = chosen_tests(options)
    if options.list:
        print("\n".join(name for test in tests for name in test.listed()))
        return 0
    if options.measure:
        UnitTest.timed = ["bash", "-c", 'TIMEFORMAT="%U %S"; time "$@"', "bash"]
    report, used, durations = Report(os.environ.get("CI") == "true"), set(), pool.read_durations(DURATIONS)

    def timed(test):
        began = time.monotonic()
        return test.run(), time.monotonic() - began

    def ended(job, done):
        (rows, options_used, busy), seconds = done
        used.update(options_used)
        durations[job.name] = pool.Cost(seconds, busy)
        for row in rows:
            report.add(*row, job.test.variant, job.test)

    processors = len(os.sched_getaffinity(0))
    pool.Pool(dict(durations), processors, options.jobs or pool.most_at_once(processors)).run(
        [pool.Job(test.name, test.place, test, lambda test=test: timed(test), test.only) for test in tests], ended)
    run_again(report)
    if options.measure:
        pool.write_durations(DURATIONS, durations)
    if not options.filter and not options.quick and not options.rest:
        options_covered(os.path.abspath(options.build), used, report)
    return report.close()


if __name__ == "__main__":
    with_jsonschema()
    sys.exit(main())
