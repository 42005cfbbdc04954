# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every state of states.php with many interpreters, against debug_backtrace(), and the tool's report against the reading. An
interpreter is a path, or ROOT:PATH for one that lives in a root folder of its own."""
import os
import re
import shutil
import subprocess
import tempfile

import matrix_rows as rows
import php_server
import still
import truth_php
import truth_python
import truth_tool


def read(bed, command, script, state):
    """How many frames are equal, and the comparison with the tool; None: it was refused, with the message."""
    victim = subprocess.Popen([*command, script, state], stdout=subprocess.PIPE, text=True)

    try:
        line = victim.stdout.readline()
        still.until_blocked(victim.pid)
        _, result = truth_python.read(bed.reader, "php", victim.pid, ["--image"])
        report = truth_tool.read(bed.tool, victim.pid, "php")
        if not result or result["refused"]:
            return None, (report.messages() or [result and result["refused"] or "not found"])[0]
        count = truth_php.compare(result, line, script)
        comparison = truth_tool.Comparison()
        for thread in result["threads"]:
            frames = truth_python.frames_of(result, thread["stack"])
            comparison.add_stack(state, [(function, file, number) for file, number, function in frames],
                                 report.threads.get(thread["tid"]))
        return count, comparison
    finally:
        victim.kill()
        victim.communicate()


def version_of(command):
    """8.2.29, and how it was built; None: it does not run."""
    done = subprocess.run([*command, "-r", "echo PHP_VERSION, ' ', PHP_ZTS ? 'ZTS' : 'NTS', PHP_DEBUG ? ' debug' : '';"],
                          capture_output=True, text=True, check=False)
    words = done.stdout.split()
    return (words[0], ", ".join(words[1:])) if len(words) > 1 else None


def has(command, what):
    done = subprocess.run([*command, "-r", f"echo {what} ? 'yes' : 'no';"], capture_output=True, text=True, check=False)
    return done.stdout == "yes"


# Code as it was written, rewritten, compiled when it is hot, after the second call, and all of it beforehand.
MODES = {"": [], "opcache": [], "JIT of traces": ["-d", "opcache.jit=1254", "-d", "opcache.jit_hot_func=2", "-d", "opcache.jit_hot_loop=2"],
         "JIT of functions": ["-d", "opcache.jit=1205"]}


def modes(version):
    """Those that a version may have."""
    return [mode for mode in MODES if not MODES[mode] or version >= "8"]


def run(bed, interpreter, where, mode=""):
    root, _, path = interpreter.rpartition(":")
    command = (["chroot", root] if root else []) + [path]
    if not has(command, "function_exists('json_encode')"):
        command += ["-d", "extension=json"]  # a package of its own, which is unpacked, not set up
    if mode:
        if not has(command, "extension_loaded('Zend OPcache')"):
            command += ["-d", "zend_extension=opcache"]
        command += ["-d", "opcache.enable_cli=1", "-d",
                    "opcache.jit_buffer_size=" + ("32M" if MODES[mode] else "0"), *MODES[mode]]
        where += f", {mode}"
    found = version_of(command)
    if not found:
        return rows.skipped("PHP", "", where, "it does not run")
    if mode and not has(command, "(opcache_get_status()['jit']['on'] ?? false)" if MODES[mode] else
                        "(opcache_get_status()['opcache_enabled'] ?? false)"):
        return rows.skipped("PHP", found[0], where, "it has none")
    folder = tempfile.mkdtemp(prefix="stacksnap-matrix.", dir=os.path.join(root or "/", "tmp"))
    try:
        script = os.path.join("/" + os.path.relpath(folder, root or "/"), "states.php")
        shutil.copy(truth_php.STATES, folder)
        return run_states(bed, rows.Row("PHP", found[0].split("-")[0], f"{where}, {found[1]}", rows.RIGHT), command, script)
    finally:
        shutil.rmtree(folder)


def run_server(bed, program, where):
    """php-fpm: frames and what it was asked, of the worker that is at it."""
    said = subprocess.run([program, "-v"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"PHP ([\d.]+)", said)
    if not version:
        return rows.skipped("PHP", "", where, "it does not run")
    row = rows.Row("PHP", version[1], f"{where}, {'ZTS' if 'ZTS' in said.split(chr(10))[0] else 'NTS'}", rows.RIGHT)
    folder = tempfile.mkdtemp(prefix="stacksnap-matrix.")
    try:
        os.chmod(folder, 0o777)
        with php_server.Server(program, folder) as server:
            results = [truth_python.read(bed.reader, "php", pid, ["--image"])[1] for pid in server.workers()]
            busy = php_server.compare(results, folder)
            report = truth_tool.read(bed.tool, server.pid, "php")
        comparison = truth_tool.Comparison()
        for thread in busy["threads"]:
            comparison.add_stack("worker", [(function, file, line) for file, line, function in
                                            truth_python.frames_of(busy, thread["stack"])],
                                 report.threads.get(thread["tid"]))
        comparison.add("request", [busy["labels"]], report.process_labels())
        row.said = "a request, 3 frames, of 2 workers"
        row.tool = rows.of(comparison.equal, comparison.count, "stacks and requests")
        row.differences = comparison.differences
        row.result = rows.WRONG if comparison.differences else rows.RIGHT
    except (php_server.Differs, RuntimeError, OSError, ValueError, TypeError, subprocess.TimeoutExpired) as error:
        row.result, row.differences = rows.WRONG, (str(error),)
    finally:
        shutil.rmtree(folder)
    return row


def run_states(bed, row, command, script):
    states = subprocess.run([*command, script, "list"], capture_output=True, text=True, check=True).stdout.split()
    frames = same = equal = 0
    differences = []
    for state in states:
        try:
            count, found = read(bed, command, script, state)
        except (truth_php.Differs, RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            differences.append(f"{state}: {error}")
            continue
        if count is None:
            row.result, row.why = rows.WRONG if row.build.endswith("NTS") else rows.REFUSED, found
            return row
        equal, frames, same = equal + 1, frames + count, same + found.equal
        differences += found.differences
    row.said = f"{equal} of {len(states)} states, {frames} frames"
    row.tool = rows.of(same, len(states), "stacks")
    row.result, row.differences = rows.WRONG if differences else rows.RIGHT, differences
    return row
