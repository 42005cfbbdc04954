#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the fuzz targets, each for some seconds, two at a time; prints runs, runs a second and findings.

    tests/fuzz/run.py [--build build] [--fuzz build-fuzz] [--seconds 60 | --runs N] [--jobs 2] [TARGET…]

Seeds are made anew; what libFuzzer adds to them stays in build-fuzz/grown, what ends a target in
build-fuzz/findings/TARGET. Run one of those again with build-fuzz/tests/fuzz/fuzz_TARGET FILE."""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
# An input that takes longer is a finding, and so is one that takes more memory.
SECONDS_EACH, MEGABYTES = 2, 1024


def targets(fuzz):
    """Names of the targets that are built."""
    found = glob.glob(os.path.join(fuzz, "tests", "fuzz", "fuzz_*"))
    return sorted(os.path.basename(p)[5:] for p in found if os.path.isfile(p) and os.access(p, os.X_OK))


def make_corpus(build, output):
    subprocess.run([sys.executable, os.path.join(HERE, "make_corpus.py"), "--build", build, output], check=True)


class Outcome:
    def __init__(self, target, runs, rate, findings, log):
        self.target, self.runs, self.rate, self.findings, self.log = target, runs, rate, findings, log


def fuzz_one(fuzz, target, seeds, *limits, grown=None, findings, seconds_each=SECONDS_EACH):
    """One target to its end: the limits are libFuzzer's flags."""
    os.makedirs(findings, exist_ok=True)
    argv = [os.path.join(fuzz, "tests", "fuzz", "fuzz_" + target), *limits, f"-timeout={seconds_each}",
            f"-rss_limit_mb={MEGABYTES}", f"-artifact_prefix={findings}/", "-print_final_stats=1"]
    if grown:
        os.makedirs(grown, exist_ok=True)
        argv.append(grown)
    argv += [seeds] if os.path.isdir(seeds) else []
    before = set(os.listdir(findings))
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:quarantine_size_mb=64", LC_ALL="C.UTF-8",
                       UBSAN_OPTIONS="print_stacktrace=1")
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env=environment)
    log = done.stdout.decode(errors="replace")
    with open(os.path.join(os.path.dirname(findings), target + ".log"), "w") as f:
        f.write(log)
    runs = re.search(r"number_of_executed_units: (\d+)", log)
    rate = re.search(r"average_exec_per_sec: +(\d+)", log)
    new = sorted(set(os.listdir(findings)) - before)
    if done.returncode and not new:
        new = [f"ended with status {done.returncode}"]
    return Outcome(target, int(runs.group(1)) if runs else 0, int(rate.group(1)) if rate else 0, new, log)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--fuzz", default=os.path.join(SOURCE, "build-fuzz"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    corpus = os.path.join(options.fuzz, "corpus")
    make_corpus(options.build, corpus)
    limits = [f"-runs={options.runs}", "-seed=1"] if options.runs else [f"-max_total_time={options.seconds}"]

    def go(target):
        return fuzz_one(options.fuzz, target, os.path.join(corpus, target), *limits,
                        grown=os.path.join(options.fuzz, "grown", target),
                        findings=os.path.join(options.fuzz, "findings", target))

    found = 0
    print(f"{'target':12} {'runs':>10} {'runs/s':>8}  findings", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        wanted = options.targets or targets(options.fuzz)
        for outcome in concurrent.futures.as_completed([pool.submit(go, t) for t in wanted]):
            outcome = outcome.result()
            found += len(outcome.findings)
            print(f"{outcome.target:12} {outcome.runs:10} {outcome.rate:8}  "
                  f"{', '.join(outcome.findings) or 'none'}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
