# SPDX-License-Identifier: LGPL-2.1-or-later
"""The real readers of the formats: where they are, and how they are run without the network. What
`./dev readers` could not fetch is a skip with its reason; what a Debian package has is missing."""
import glob
import os
import shutil
import subprocess
import unittest

from harness import BUILD, DEADLINE, SOURCE, missing

FOLDER = os.path.join(BUILD, "readers")
MODULES = os.path.join(FOLDER, "node_modules")
SCRIPTS = os.path.join(SOURCE, "tests", "readers")
CHROMIUM = "/usr/bin/chromium"
# The pages draw with WebGL, which has to come from software here.
CHROMIUM_SWITCHES = ["--headless", "--no-sandbox", "--allow-file-access-from-files",
                     "--enable-unsafe-swiftshader", "--use-angle=swiftshader",
                     "--disable-dev-shm-usage", "--disable-gpu-sandbox"]


def node():
    return shutil.which("node") or shutil.which("nodejs") or missing("node", "nodejs")


def npm_package(name):
    """The folder of a package of tests/readers/package.json."""
    path = os.path.join(MODULES, name)
    if os.path.isdir(path):
        return path
    reason = "run ./dev readers"
    try:
        with open(os.path.join(FOLDER, "missing")) as f:
            reason = "npm says " + f.read().strip()
    except OSError:
        pass
    raise unittest.SkipTest(f"reader: no npm package {name} ({reason})")


def run_node(script, *args, timeout=DEADLINE, **popen):
    """A script of tests/readers/ with the packages in its path; its CompletedProcess."""
    environment = dict(os.environ, NODE_PATH=MODULES, NODE_NO_WARNINGS="1", LC_ALL="C.UTF-8")
    popen.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([node(), os.path.join(SCRIPTS, script), *map(str, args)],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=timeout, **popen)


def profiler_cli():
    """The command line of the Firefox Profiler: [node, script]."""
    return [node(), os.path.join(npm_package("@firefox-devtools/profiler-cli"), "dist",
                                 "profiler-cli.js")]


def trace_viewer():
    """The folder with Catapult's trace viewer, which Go's sources carry."""
    for root in ("/usr/share/go-*", "/usr/lib/go-*", "/usr/local/go"):
        for page in glob.glob(root + "/src/cmd/trace/static/trace_viewer_full.html"):
            return os.path.dirname(page)
    return missing("trace_viewer_full.html", "golang-src")
