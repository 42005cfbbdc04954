# SPDX-License-Identifier: LGPL-2.1-or-later
"""The library as others use it: the example against the shared library and its header, a host with
busy threads that allocate, and a compiler with nothing but the installed files."""
import os
import re
import signal
import subprocess
import tempfile

from harness import BUILD, Case, SOURCE, check_schema, clean_environment, functions, need, processes, run_tool, \
    status_field, wait_until

HOST = r"""
#include <pthread.h>
#include <stacksnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile int done;
static void *busy(void *unused)
{
	unsigned long n = 1;

	while (!done) {
		n = n * 6364136223846793005ul + 1;
		free(memset(malloc(n >> 50 | 1), 1, 1));
	}
	return unused;
}

static int check(struct stacksnap_error *error, const char *what)
{
	if (error)
		fprintf(stderr, "%s: %s\n", what, stacksnap_error_message(error));
	stacksnap_error_destroy(error);
	return error != NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 1, failed = 0;
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, busy, NULL);
	for (int i = 0; i < rounds; i++) {
		struct stacksnap_options *options;
		struct stacksnap_snapshot *snapshot;
		char *text;
		size_t size;
		FILE *out;

		if (check(stacksnap_options_create(&options), "create"))
			return 2;
		failed |= check(stacksnap_options_set(options, "pid", argv[1]), "set");
		if (check(stacksnap_options_set(options, "no-such-option", NULL), "expected") == 0)
			return 3;
		if (check(stacksnap_take(options, &snapshot), "take"))
			return 4;
		out = open_memstream(&text, &size);
		failed |= check(stacksnap_snapshot_render(snapshot, options, "json", out), "render");
		fclose(out);
		if (stacksnap_snapshot_outcome(snapshot) != STACKSNAP_OUTCOME_WHOLE) {
			failed = 1;
			fprintf(stderr, "not whole: %s\n", text);
		}
		if (i == rounds - 1)
			fwrite(text, 1, size, stdout);
		free(text);
		stacksnap_snapshot_destroy(snapshot);
		stacksnap_options_destroy(options);
	}
	done = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return failed;
}
"""

RECORDER = r"""
#include <dirent.h>
#include <pthread.h>
#include <stacksnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stacksnap_options *options;
static struct stacksnap_recorder *recorder;
static int failed;

static int check(struct stacksnap_error *error, const char *what)
{
	if (error)
		fprintf(stderr, "%s: %s\n", what, stacksnap_error_message(error));
	failed |= error != NULL;
	stacksnap_error_destroy(error);
	return error != NULL;
}

/* What is held now, in a format, to stdout; from within the run, too. */
static void show(const char *format)
{
	struct stacksnap_recording *recording;
	const struct stacksnap_recording_stats *stats;
	const char *code, *message;
	pid_t pid, tid;

	if (check(stacksnap_recorder_slice(recorder, options, &recording), "slice"))
		return;
	stats = stacksnap_recording_get_stats(recording);
	printf("== %d %d %llu %llu\n", stacksnap_recording_outcome(recording),
	       stacksnap_recording_get_end(recording), stats->ticks, stats->thread_samples);
	check(stacksnap_recording_render(recording, options, format, stdout), "render");
	for (size_t i = 0; stacksnap_recording_warning(recording, i, &code, &message, &pid, &tid); i++)
		fprintf(stderr, "after %llu ticks: %s: %s (%d %d)\n", stats->ticks, code, message, pid, tid);
	printf("== stats\n");
	check(stacksnap_recording_render_stats(recording, stdout), "stats");
	printf("== summary\n");
	check(stacksnap_recording_summary(recording, options, stdout), "summary");
	stacksnap_recording_destroy(recording);
}

static int on_tick(void *context, const struct stacksnap_recorder_status *status)
{
	(void)context;
	if (status->stats->ticks == 10)
		show("folded");
	if (status->stats->ticks == 20)
		stacksnap_recorder_stop(recorder);
	return 1;
}

static void *record(void *context)
{
	check(stacksnap_recorder_run(recorder, on_tick, context), "run");
	return NULL;
}

static void *create(void *unused)
{
	if (check(stacksnap_recorder_create(options, &recorder), "recorder"))
		exit(2);
	return unused;
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Each step in any thread, also in one that ends with it. */
static void fly(const char *pid)
{
	pthread_t thread;

	check(stacksnap_options_create(&options), "create");
	check(stacksnap_options_set(options, "pid", pid), "pid");
	check(stacksnap_options_set(options, "hz", "50"), "hz");
	check(stacksnap_options_set(options, "duration", "0"), "duration");
	check(stacksnap_options_set(options, "max-stopped", "100"), "max-stopped");
	pthread_create(&thread, NULL, create, NULL);
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, record, NULL);
	pthread_join(thread, NULL);
	show("folded");
	stacksnap_recorder_destroy(recorder);
	stacksnap_options_destroy(options);
}

int main(int argc, char **argv)
{
	int open_files;

	(void)argc;
	fly(argv[1]);
	open_files = descriptors();
	fly(argv[1]);
	if (descriptors() != open_files) {
		fprintf(stderr, "descriptors leak\n");
		return 3;
	}
	return failed;
}
"""

GROUPS = r"""
#include <fcntl.h>
#include <stacksnap.h>
#include <stdio.h>

static int check(struct stacksnap_error *error)
{
	if (error)
		fprintf(stderr, "%s\n", stacksnap_error_message(error));
	return error != NULL;
}

static const char *text(const char *text)
{
	return text ? text : "-";
}

/* The groups of a recording file, a line each. */
int main(int argc, char **argv)
{
	struct stacksnap_options *options;
	struct stacksnap_recording *recording;
	struct stacksnap_groups *groups;
	const struct stacksnap_group *group;

	(void)argc;
	if (check(stacksnap_options_create(&options)) ||
	    check(stacksnap_recording_load(open(argv[1], O_RDONLY), options, &recording)) ||
	    check(stacksnap_groups_create(recording, options, &groups)))
		return 2;
	printf("%llu %zu\n", stacksnap_groups_samples(groups), stacksnap_groups_ticks(groups));
	for (size_t i = 0; (group = stacksnap_groups_get(groups, i)); i++) {
		const char *name, *place;

		printf("%s|%d|%s|%s|%s|%s|%s|%s|%s|%d|%llu|%zu|", group->id, group->pid, group->process,
		       text(group->threads), text(group->state), group->function, text(group->leaf),
		       text(group->wait), group->unwind, group->is_task, group->samples, group->count);
		for (size_t k = 0; (name = stacksnap_groups_frame(groups, i, k, &place)); k++)
			printf("%s@%s;", name, text(place));
		printf("|%zu|%s|%d%d\n", group->frame_count, text(group->holder), group->has_lock,
		       group->waits_for_lock);
	}
	if (stacksnap_groups_frame(groups, 1000, 0, NULL) || stacksnap_groups_frame(groups, 0, 1000, NULL))
		return 3;
	stacksnap_groups_destroy(groups);
	stacksnap_recording_destroy(recording);
	stacksnap_options_destroy(options);
	stacksnap_groups_destroy(NULL);
	return 0;
}
"""


class Library(Case):
    level = "test"

    def compile(self, text, *flags, compiler="gcc", suffix=".c"):
        need(compiler)
        folder = self.scratch()
        source = os.path.join(folder, "host" + suffix)
        with open(source, "w") as f:
            f.write(text)
        program = os.path.join(folder, "host")
        done = subprocess.run([compiler, "-Wall", "-Werror", "-o", program, source, "-I", os.path.join(SOURCE, "lib"),
                               "-L", os.path.join(BUILD, "lib"), "-lstacksnap", "-pthread",
                               "-Wl,-rpath," + os.path.join(BUILD, "lib"), *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return program

    def run_program(self, *argv):
        done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=clean_environment(), timeout=120, stdin=subprocess.DEVNULL)
        return done

    def test_example(self):
        victim = self.victim("threads", "futex:5:worker")
        example = os.path.join(BUILD, "examples", "snapshot-example")
        done = self.run_program(example, victim.pid)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(b"wait_futex", done.stdout)
        self.assertIn(b"1 processes, 6 threads, 2 stacks", done.stderr)
        self.assert_free(victim.pid)
        import json
        check_schema(json.loads(self.run_program(example, victim.pid, "json").stdout))
        self.assertEqual(self.run_program(example, 999999999).returncode, 2)
        self.assertEqual(self.run_program(example, "x").returncode, 2)

    def test_threaded_host_that_allocates(self):
        import json
        victim = self.victim("threads", "futex:5:worker", "spin:1:busy", running=1)
        program = self.compile(HOST)
        done = self.run_program(program, victim.pid, 15)
        self.assertEqual(done.returncode, 0, done.stderr)
        doc = json.loads(done.stdout)
        check_schema(doc)
        self.assertEqual(doc["thread_count"], 7)
        self.assert_free(victim.pid)

    def test_no_child_is_left_and_no_descriptor(self):
        text = HOST.replace("done = 1;", r"""
	{
		char command[200];

		snprintf(command, sizeof(command), "ls /proc/%d/fd | wc -l; cat /proc/%d/task/*/children",
			 getpid(), getpid());
		fflush(stdout);
		if (system(command))
			failed = 1;
	}
	done = 1;""").replace("#include <string.h>", "#include <string.h>\n#include <unistd.h>") \
            .replace("fwrite(text, 1, size, stdout)", "(void)size")
        victim = self.victim("threads", "futex:5:worker")
        program = self.compile(text)
        few = self.run_program(program, victim.pid, 1).stdout.split()
        many = self.run_program(program, victim.pid, 12).stdout.split()
        self.assertEqual(few[0], many[0], "descriptors leak")
        # The one child is the shell that asks.
        self.assertLessEqual(len(many), 2, many)

    def test_recorder_in_a_thread_of_its_own(self):
        import json
        victim = self.victim("threads", "futex:5:worker", "spin:1:busy", running=1)
        done = self.run_program(self.compile(RECORDER), victim.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        heads = re.findall(rb"^== (\d) (\d) (\d+) (\d+)$", done.stdout, re.M)
        # Seven threads at each tick; told to stop is a good end. What was lost is told.
        self.assertEqual(heads, [(b"0", b"1", b"10", b"70"), (b"0", b"1", b"20", b"140")] * 2, done.stderr)
        for folded, samples in zip(re.findall(rb"^== \d[^\n]*\n(.*?)^== stats", done.stdout, re.M | re.S), (10, 20, 10, 20)):
            counts = {}
            for line in folded.splitlines():
                stack, count = line.rsplit(b" ", 1)
                for name in (b"wait_futex", b"spin"):
                    if name in stack:
                        counts[name] = counts.get(name, 0) + int(count)
            self.assertEqual(counts.get(b"wait_futex"), 5 * samples, folded)
            # On a busy machine it may wait for a processor for so long that it does not stop in time.
            self.assertIn(b"spin", counts, folded)
            self.assertLessEqual(counts[b"spin"], samples, folded)
        stats = [json.loads(t) for t in re.findall(rb"^== stats\n(.*)$", done.stdout, re.M)]
        self.assertEqual([s["ticks"] for s in stats], [10, 20, 10, 20])
        self.assertEqual({s["end"] for s in stats}, {"asked"})
        for key in ("hz_asked", "hz_reached", "ticks", "ticks_missed", "duration_ns", "stopped_ns", "stopped_percent",
                    "threads", "thread_samples", "stacks"):
            self.assertIn(key, stats[0])
        self.assertRegex(done.stdout, rb"running +spin")
        self.assertRegex(done.stdout, rb"sleeping +wait_futex \(in ")
        self.assert_free(victim.pid)

    def test_groups_are_those_of_the_document(self):
        victim = self.victim("threads", "futex:5:worker:2", "pipe:2:reader", "spin:1:busy", running=1)
        path = os.path.join(self.scratch(), "run.snaprec")
        self.assertEqual(run_tool(["record", "-d", "0.5", "-o", path, victim.pid]).status, 0)
        document = run_tool(["render", path, "--json"]).doc
        done = self.run_program(self.compile(GROUPS), path)
        self.assertEqual(done.returncode, 0, done)
        head, *lines = done.stdout.decode().splitlines()
        self.assertEqual(head.split(), [str(document["sample_count"]), str(document["tick_count"])])
        stacks = {s["id"]: s for s in processes(document)[victim.pid]["stacks"]}
        rows = [line.split("|") for line in lines]
        self.assertEqual({row[0] for row in rows}, set(stacks))
        self.assertEqual([int(row[10]) for row in rows], sorted((int(row[10]) for row in rows), reverse=True))
        for id_, pid, process, names, state, function, leaf, wait, unwind, is_task, samples, count, frames, number, holder, locks in rows:
            stack = stacks[id_]
            self.assertEqual((int(pid), process, is_task, unwind), (victim.pid, "threads", "0", stack["unwind"]))
            self.assertEqual((int(samples), int(count)), (stack["samples"], stack["count"]))
            self.assertEqual((holder, locks), ("-", "00"))
            self.assertEqual(state, stack["labels"].get("state", "-"))
            self.assertEqual(names, stack["labels"].get("thread_name", "-"))
            shown = [frame.split("@")[0] for frame in frames.split(";")[:-1]]
            self.assertEqual(len(shown), int(number))
            self.assertEqual([n for n in functions(stack) if n], [n for n in shown if n in functions(stack)])
            if leaf != "-":
                self.assertEqual(leaf, shown[0])
        by_function = {row[5]: row for row in rows}
        self.assertEqual(by_function["wait_futex"][3:5] + by_function["wait_futex"][11:12], ["worker-*", "sleeping", "5"])
        self.assertRegex(by_function["wait_futex"][12], r"wait_futex@\S*threads\.c:\d+;")
        self.assertRegex(by_function["wait_futex"][7], "^condition ")
        self.assertIn("spin", by_function)

    def test_groups_say_who_has_a_lock(self):
        victim = self.victim("convoy", "4", "300000")
        path = os.path.join(self.scratch(), "a.snaprec")
        self.run_tool("record", "-p", victim.pid, "-d", "2", "-o", path)
        done = self.run_program(self.compile(GROUPS), path)
        self.assertEqual(done.returncode, 0, done)
        rows = [line.split("|") for line in done.stdout.decode().splitlines()[1:]]
        of = {locks: [row for row in rows if row[-1] == locks] for locks in ("00", "10", "01", "11")}
        self.assertEqual({row[7] for row in of["01"]}, {"mutex busy"}, rows)
        for row in of["01"]:
            self.assertRegex(row[-2], r"^held by (\d threads, most of it )?\d+ convoy \(in take\)$")
        self.assertTrue([row for row in of["10"] if row[5] == "take" and row[7] == "sleep"], rows)
        self.assertIn("victim_hold", {row[5] for row in of["00"]})

    def test_example_of_a_flight_recorder(self):
        victim = self.victim("threads", "futex:5:worker")
        example = os.path.join(BUILD, "examples", "record-example")
        path = os.path.join(self.scratch(), "flight.folded")
        # The condition is met at the first tick, and again only after it has been false.
        process = subprocess.Popen([example, str(victim.pid), "5", path, "threads>5"], stderr=subprocess.PIPE,
                                   env=clean_environment())
        try:
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path), "the dump on the condition")
            os.unlink(path)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 0, errors)
        with open(path) as f:
            self.assertIn("wait_futex", f.read())
        self.assertEqual(errors.count(b" Hz ("), 2, errors)
        self.assert_free(victim.pid)
        self.assertEqual(self.run_program(example, 999999999, 5, path).returncode, 2)
        self.assertEqual(self.run_program(example, victim.pid, "no", path).returncode, 2)

    def test_recorder_without_targets_left(self):
        """The end of the target ends the run; what was taken is shown, and is partial."""
        victim = self.victim("threads", "futex:5:worker")
        example = os.path.join(BUILD, "examples", "record-example")
        path = os.path.join(self.scratch(), "flight.folded")
        process = subprocess.Popen([example, str(victim.pid), "5", path, "threads>5"], stderr=subprocess.PIPE,
                                   env=clean_environment())
        try:
            wait_until(lambda: os.path.exists(path) and os.path.getsize(path), "the first tick")
            os.kill(victim.pid, signal.SIGKILL)
            victim.process.wait()
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn(b"all targets have exited", errors)
        with open(path) as f:
            self.assertIn("wait_futex", f.read())

    def test_from_cxx(self):
        need("g++")
        program = self.compile('#include <stacksnap.h>\nint main() { return stacksnap_version()[0] == 0; }\n',
                               compiler="g++", suffix=".cc")
        self.assertEqual(self.run_program(program).returncode, 0)

    def test_installed_files_are_enough(self):
        need("meson", "pkg-config")
        folder = self.scratch()
        done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        found = {os.path.relpath(os.path.join(d, n), folder) for d, _, names in os.walk(folder) for n in names}
        for pattern in (r"bin/stacksnap$", r"include/stacksnap\.h$", r"libstacksnap\.so\.0", r"libstacksnap\.a$",
                        r"pkgconfig/stacksnap\.pc$", r"\.schema\.json$", r"man1/stacksnap\.1", r"man1/stacksnap-diff\.1", r"man5/stacksnap-json\.5",
                        r"man3/libstacksnap\.3", r"bash-completion/completions/stacksnap$", r"_stacksnap$",
                        r"stacksnap\.fish$"):
            self.assertTrue(any(re.search(pattern, p) for p in found), (pattern, sorted(found)))
        config = next(p for p in found if p.endswith("stacksnap.pc"))
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(folder, os.path.dirname(config)),
                           PKG_CONFIG_SYSROOT_DIR=folder)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "stacksnap"], env=environment,
                               stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        self.assertIn("-lstacksnap", flags)
        source = os.path.join(self.scratch(), "host.c")
        with open(source, "w") as f:
            f.write("#include <stacksnap.h>\nint main(void) { return stacksnap_version()[0] == 0; }\n")
        subprocess.run(["gcc", source, "-o", source + ".out", *flags], check=True)
        library = os.path.dirname(next(os.path.join(folder, p) for p in found if re.search(r"libstacksnap\.so\.0\.\d+\.\d+$", p)))
        self.assertEqual(subprocess.run([source + ".out"], env=dict(os.environ, LD_LIBRARY_PATH=library)).returncode, 0)
