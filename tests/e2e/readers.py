# SPDX-License-Identifier: LGPL-2.1-or-later
"""The real readers of the formats: where they are, and how they are run without the network. What
`./dev readers` could not fetch is a skip with its reason; what a Debian package has is missing.
With STACKSNAP_PICTURES=FOLDER in the environment, pages leave pictures there, for people."""
import contextlib
import fcntl
import glob
import json
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
                     "--disable-dev-shm-usage"]
PICTURES = os.environ.get("STACKSNAP_PICTURES", "")


def node():
    """The machine's own, unless it is so old that one came with the packages."""
    for fetched in glob.glob(os.path.join(MODULES, "node-linux-*", "bin", "node")):
        return fetched
    return shutil.which("node") or missing("node", "nodejs")


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
    environment = dict(os.environ, NODE_PATH=MODULES, NODE_NO_WARNINGS="1", LC_ALL="C.UTF-8",
                       CHROMIUM=CHROMIUM, CHROMIUM_SWITCHES=json.dumps(CHROMIUM_SWITCHES))
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


@contextlib.contextmanager
def one_browser():
    """A browser takes much memory: however many tests run, there is one at a time."""
    with open(os.path.join(FOLDER, "browser.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def browse(script, *args):
    """What a script of tests/readers/ that opens a page has printed. Pages ask nobody outside, and
    no script of theirs fails."""
    if not os.path.exists(CHROMIUM):
        missing("chromium", "chromium")
    npm_package("playwright-core")
    with one_browser():
        done = run_node(script, *args, timeout=4 * DEADLINE)
    if done.returncode:
        raise AssertionError(f"{script} {args}: {done.stderr[-3000:]}")
    seen = json.loads(done.stdout)
    bad = [text for kind, text in seen["console"] if kind == "error"] + seen["errors"]
    if bad or seen["refused"]:
        raise AssertionError(f"{script} {args}: errors {bad}, requests outside {seen['refused']}")
    return seen


def picture(name):
    return [os.path.join(PICTURES, name + ".png")] if PICTURES else []


def catapult(path):
    """The model that Catapult's trace viewer makes of a trace."""
    return browse("catapult.js", trace_viewer(), path, *picture("catapult-" + os.path.basename(path)))


def speedscope_app(path, scratch):
    """What speedscope's app makes of a file, in its own format; `scratch` is a folder to write to.
    The app warns of what it does not understand."""
    release = os.path.join(npm_package("speedscope"), "dist", "release")
    seen = browse("speedscope_app.js", release, path, os.path.join(scratch, "profile.js"),
                  *picture("speedscope-" + os.path.basename(path)))
    warnings = [text for kind, text in seen["console"] if kind == "warning"]
    if warnings:
        raise AssertionError(f"speedscope warns: {warnings}")
    return seen["understood"]


def speedscope_complaints(*paths):
    """What speedscope's own schema has against files; "" if nothing."""
    schema = os.path.join(npm_package("speedscope"), "dist", "release", "file-format-schema.json")
    npm_package("ajv")
    done = run_node("schema.js", schema, *paths)
    if done.returncode not in (0, 1) or done.stderr:
        raise AssertionError(done.stderr[-3000:])
    return done.stdout


def pages(word, *urls):
    """Pages of this machine, and whether they show a word: [{url, status, shown}]."""
    return browse("pages.js", PICTURES, word, *urls)["pages"]


def html_page(path, steps=(), axe=True):
    """What a page that the tool wrote is in a browser: see html_page.js."""
    script = os.path.join(npm_package("axe-core"), "axe.min.js") if axe else ""
    return browse("html_page.js", path, script, json.dumps(steps),
                  *([os.path.join(PICTURES, os.path.basename(path))] if PICTURES else []))
