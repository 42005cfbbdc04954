/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Options by name: defaults, what is taken, what is refused and with which words. */
#include "api/options.h"
#include "model/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	struct snap_options *options = calloc(1, sizeof(*options));

	snap_options_init(options);
	*state = options;
	return 0;
}

static int teardown(void **state)
{
	snap_options_deinit(*state);
	free(*state);
	return 0;
}

static void take(struct snap_options *options, const char *name, const char *value)
{
	struct stacksnap_error *err = snap_options_set(options, name, value);

	if (err)
		print_message("# --%s %s: %s\n", name, value ? value : "", snap_error_message(err));
	assert_null(err);
}

/* Refused as INVALID, with a message that names the option and holds `words`. */
static void refuse(struct snap_options *options, const char *name, const char *value,
		   const char *words)
{
	struct stacksnap_error *err = snap_options_set(options, name, value);

	if (!err)
		print_message("# --%s %s was taken\n", name, value ? value : "");
	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_INVALID);
	if (!strstr(snap_error_message(err), words))
		print_message("# '%s' is not in '%s'\n", words, snap_error_message(err));
	assert_non_null(strstr(snap_error_message(err), words));
	assert_non_null(strstr(snap_error_message(err), name));
	snap_error_destroy(err);
}

static void test_defaults(void **state)
{
	struct snap_options *options = *state;

	assert_true(options->children);
	assert_int_equal(options->max_stack, 1 << 20);
	assert_int_equal(options->max_snapshot, 128u << 20);
	assert_int_equal(options->stop_timeout_ns, 1000000000);
	assert_int_equal(options->timeout_ns, 11000000000);
	assert_int_equal(options->max_frames, 512);
	assert_int_equal(options->max_memory, 256u << 20);
	assert_int_equal(options->max_stopped, 30000);
	assert_true(options->symbols && options->inlines && options->lines);
	assert_false(options->raw_names || options->debuginfod || options->kernel_stacks);
	assert_int_equal(options->group_by, SNAP_GROUP_STACK | SNAP_GROUP_STATE);
	assert_int_equal(options->engine, SNAP_ENGINE_AUTO);
	assert_int_equal(options->perf_map, SNAP_PERF_MAP_AUTO);
	assert_int_equal(options->states, 0);
	assert_int_equal(options->target_count, 0);
	assert_false(snap_options_cancelled(options));
}

static void test_pids(void **state)
{
	static const char *const bad[] = {
		"x",  "0",  "-1",   "+1",  "1x",  " 1",         "1 ",
		"1,", ",1", "1,,2", "0x1", "1.5", "2147483648", "99999999999999999999"
	};
	struct snap_options *options = *state;
	static const pid_t wanted[] = { 7, 3, 2147483647, 12 };

	take(options, "pid", "7");
	take(options, "pid", "3,2147483647");
	take(options, "pid", "12,7,007");
	assert_int_equal(options->target_count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(options->targets[i].kind, SNAP_TARGET_PID);
		assert_int_equal(options->targets[i].pid, wanted[i]);
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		refuse(options, "pid", bad[i],
		       "is not a process id (expected a number or a comma-separated list)");
}

static void test_other_targets(void **state)
{
	struct snap_options *options = *state;

	take(options, "name", "^(order|ship)d$");
	take(options, "unit", "orderd.service");
	take(options, "cgroup", "/system.slice");
	take(options, "container", "0123abcd");
	take(options, "all", NULL);
	take(options, "no-children", NULL);
	assert_int_equal(options->target_count, 5);
	assert_int_equal(regexec(options->targets[0].regex, "shipd", 0, NULL, 0), 0);
	assert_int_not_equal(regexec(options->targets[0].regex, "shipdx", 0, NULL, 0), 0);
	assert_int_equal(options->targets[1].kind, SNAP_TARGET_UNIT);
	assert_string_equal(options->targets[1].text, "orderd.service");
	assert_int_equal(options->targets[2].kind, SNAP_TARGET_CGROUP);
	assert_int_equal(options->targets[3].kind, SNAP_TARGET_CONTAINER);
	assert_int_equal(options->targets[4].kind, SNAP_TARGET_ALL);
	assert_null(options->targets[4].text);
	assert_false(options->children);
	refuse(options, "name", "(", "not a POSIX extended regular expression");
	refuse(options, "name", "", "empty");
	refuse(options, "unit", NULL, "needs a value");
	refuse(options, "all", "yes", "takes no value");
	assert_int_equal(options->target_count, 5);
}

static void test_texts_are_copied(void **state)
{
	struct snap_options *options = *state;
	char text[] = "first.service";

	take(options, "unit", text);
	take(options, "debug-dir", text);
	memset(text, 'x', sizeof(text) - 1);
	assert_string_equal(options->targets[0].text, "first.service");
	assert_string_equal(options->debug_dirs[0], "first.service");
}

static void test_flags(void **state)
{
	struct snap_options *options = *state;
	static const struct {
		const char *name;
		size_t offset;
		bool wanted;
	} flags[] = {
		{ "flat", offsetof(struct snap_options, flat), true },
		{ "no-system", offsetof(struct snap_options, no_system), true },
		{ "no-idle", offsetof(struct snap_options, no_idle), true },
		{ "call-tree", offsetof(struct snap_options, call_tree), true },
		{ "reverse", offsetof(struct snap_options, reverse), true },
		{ "summary", offsetof(struct snap_options, summary), true },
		{ "kernel", offsetof(struct snap_options, kernel_stacks), true },
		{ "module", offsetof(struct snap_options, show_module), true },
		{ "build-id", offsetof(struct snap_options, show_build_id), true },
		{ "raw", offsetof(struct snap_options, raw_names), true },
		{ "quiet", offsetof(struct snap_options, symbols), false },
		{ "no-inlines", offsetof(struct snap_options, inlines), false },
		{ "no-lines", offsetof(struct snap_options, lines), false },
		{ "debuginfod", offsetof(struct snap_options, debuginfod), true },
		{ "full-names", offsetof(struct snap_options, full_names), true },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(flags); i++) {
		const bool *field = (const bool *)((char *)options + flags[i].offset);

		assert_int_equal(*field, !flags[i].wanted);
		refuse(options, flags[i].name, "1", "takes no value");
		take(options, flags[i].name, NULL);
		assert_int_equal(*field, flags[i].wanted);
	}
}

/* A tree is made of whole stacks, whatever else is told apart, and in whatever order that is said. */
static void test_call_tree_keeps_stacks_apart(void **state)
{
	struct snap_options *options = *state;

	take(options, "group-by", "process,state");
	assert_int_equal(options->group_by, SNAP_GROUP_STATE);
	take(options, "call-tree", NULL);
	assert_int_equal(options->group_by, SNAP_GROUP_STATE | SNAP_GROUP_STACK);
	take(options, "group-by", "name");
	assert_int_equal(options->group_by, SNAP_GROUP_NAME | SNAP_GROUP_STACK);
	assert_true(options->together);
}

static void test_states(void **state)
{
	struct snap_options *options = *state;

	take(options, "state", "running,disk");
	assert_int_equal(options->states, 1 << SNAP_STATE_RUNNING | 1 << SNAP_STATE_DISK |
						  SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING));
	take(options, "state", "unknown");
	assert_int_equal(options->states,
			 1 << SNAP_STATE_UNKNOWN | SNAP_TASK_STATE_BIT(SNAP_TASK_UNKNOWN));
	take(options, "state", "waiting");
	assert_int_equal(options->states, SNAP_TASK_STATE_BIT(SNAP_TASK_WAITING));
	take(options, "state", "R,D,t");
	assert_int_equal(options->states, 1 << SNAP_STATE_RUNNING | 1 << SNAP_STATE_DISK |
						  1 << SNAP_STATE_TRACED |
						  SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING));
	take(options, "state", "S,T,Z,X,I,P");
	take(options, "state", "waiting");
	refuse(options, "state", "d", "is not one of running, sleeping, disk");
	refuse(options, "state", "Running", "is not one of running, sleeping, disk");
	refuse(options, "state", "running,", "'' is not one of running");
	refuse(options, "state", "a-state-with-a-very-long-name", "is not one of running");
	assert_int_equal(options->states, SNAP_TASK_STATE_BIT(SNAP_TASK_WAITING));
}

static void test_task_tree(void **state)
{
	struct snap_options *options = *state;

	assert_string_equal(options->task_tree[SNAP_TREE_PARENT], "ppid");
	take(options, "task-tree", "id,up");
	assert_string_equal(options->task_tree[SNAP_TREE_ID], "id");
	assert_string_equal(options->task_tree[SNAP_TREE_PARENT], "up");
	assert_null(options->task_tree[SNAP_TREE_DESCRIPTION]);
	take(options, "task-tree", "none");
	assert_null(options->task_tree[SNAP_TREE_ID]);
	take(options, "task-tree", "auto");
	assert_string_equal(options->task_tree[SNAP_TREE_TYPE], "process-type");
	refuse(options, "task-tree", "a,b,c,d,e", "is no list of labels");
	refuse(options, "task-tree", "a,,b", "is no list of labels");
	assert_string_equal(options->task_tree[SNAP_TREE_ID], "pid");
}

static void test_group_by(void **state)
{
	struct snap_options *options = *state;

	assert_false(options->together);
	take(options, "group-by", "process,stack");
	assert_int_equal(options->group_by, SNAP_GROUP_STACK);
	assert_false(options->together);
	take(options, "group-by", "stack,name,syscall,cpu,type");
	assert_true(options->together);
	assert_int_equal(options->group_by, SNAP_GROUP_STACK | SNAP_GROUP_NAME |
						    SNAP_GROUP_SYSCALL | SNAP_GROUP_CPU |
						    SNAP_GROUP_TYPE);
	assert_false(options->wchan);
	take(options, "group-by", "wchan");
	assert_int_equal(options->group_by, SNAP_GROUP_WCHAN);
	assert_true(options->wchan);
	take(options, "group-by", "state");
	assert_false(options->wchan);
	take(options, "per-thread", NULL);
	assert_int_equal(options->group_by, SNAP_GROUP_STATE | SNAP_GROUP_TID);
	take(options, "group-by", "stack");
	assert_int_equal(options->group_by, SNAP_GROUP_STACK | SNAP_GROUP_TID);
	take(options, "group-by", "stack,label:tenant,label:a:b");
	assert_int_equal(options->group_label_count, 2);
	assert_string_equal(options->group_labels[0], "tenant");
	assert_string_equal(options->group_labels[1], "a:b");
	refuse(options, "group-by", "label:", "is not one of stack");
	take(options, "group-by", "stack");
	assert_int_equal(options->group_label_count, 0);
	refuse(options, "group-by", "stacks",
	       "is not one of stack, state, name, syscall, wchan, cpu, type, tid");
	take(options, "verbose", NULL);
	take(options, "verbose", NULL);
	assert_int_equal(options->verbose, 2);
	assert_true(options->wchan);
}

static void test_regexes_replace(void **state)
{
	struct snap_options *options = *state;

	take(options, "thread", "^worker-");
	take(options, "thread", "^io-");
	assert_int_equal(regexec(options->thread_regex, "io-1", 0, NULL, 0), 0);
	assert_int_not_equal(regexec(options->thread_regex, "worker-1", 0, NULL, 0), 0);
	refuse(options, "thread", "[", "not a POSIX extended regular expression");
	assert_int_equal(regexec(options->thread_regex, "io-1", 0, NULL, 0), 0);
	take(options, "match", "lock");
	assert_int_equal(regexec(options->match_regex, "unlock", 0, NULL, 0), 0);
}

static void test_numbers(void **state)
{
	struct snap_options *options = *state;

	take(options, "max-frames", "0");
	assert_int_equal(options->max_frames, 0);
	take(options, "max-frames", "17");
	assert_int_equal(options->max_frames, 17);
	refuse(options, "max-frames", "-1", "not a number of frames");
	refuse(options, "max-frames", "", "empty");
	take(options, "max-stack", "65536");
	assert_int_equal(options->max_stack, 65536);
	take(options, "max-stack", "512k");
	assert_int_equal(options->max_stack, 512 << 10);
	take(options, "max-stack", "8M");
	assert_int_equal(options->max_stack, 8 << 20);
	assert_int_equal(options->max_snapshot, 128u << 20);
	take(options, "max-stack", "1G");
	assert_int_equal(options->max_stack, 1 << 30);
	assert_int_equal(options->max_snapshot, 1 << 30);
	refuse(options, "max-stack", "2G", "not a stack size");
	refuse(options, "max-stack", "1023", "not a stack size");
	refuse(options, "max-stack", "k", "not a stack size");
	refuse(options, "max-stack", "1K", "not a stack size");
	refuse(options, "max-stack", "18446744073709551616", "not a stack size");
	take(options, "max-memory", "16M");
	assert_int_equal(options->max_memory, 16 << 20);
	take(options, "max-memory", "64G");
	assert_int_equal(options->max_memory, 64ull << 30);
	refuse(options, "max-memory", "15M", "not a size of memory");
	refuse(options, "max-memory", "65G", "not a size of memory");
	refuse(options, "max-memory", "none", "not a size of memory");
	take(options, "max-stopped", "0.1");
	assert_int_equal(options->max_stopped, 1000);
	take(options, "max-stopped", "12.3456");
	assert_int_equal(options->max_stopped, 123456);
	take(options, "max-stopped", "100");
	assert_int_equal(options->max_stopped, 1000000);
	for (const char *const *bad =
		     (const char *const[]){ "0", "0.0999", "100.0001", "101", "-1", "3%", "1.",
					    ".5", "1.00001", "all", NULL };
	     *bad; bad++)
		refuse(options, "max-stopped", *bad, "not a part of the time in percent");
	take(options, "width", "0");
	take(options, "width", "132");
	assert_int_equal(options->width, 132);
	refuse(options, "width", "wide", "not a number");
}

static void test_timeouts(void **state)
{
	struct snap_options *options = *state;

	take(options, "stop-timeout", "50");
	assert_int_equal(options->stop_timeout_ns, 50000000);
	assert_int_equal(options->timeout_ns, 10050000000);
	take(options, "timeout", "300");
	take(options, "stop-timeout", "200");
	assert_int_equal(options->timeout_ns, 300000000);
	refuse(options, "stop-timeout", "0", "not a number of milliseconds");
	refuse(options, "stop-timeout", "3600001", "not a number of milliseconds");
	refuse(options, "timeout", "0.5", "not a number of milliseconds");
	refuse(options, "timeout", "0.5ms", "not a number of milliseconds");
	refuse(options, "timeout", "25h", "not a number of milliseconds");
	refuse(options, "timeout", "5x", "not a number of milliseconds");
	take(options, "stop-timeout", "5s");
	assert_int_equal(options->stop_timeout_ns, 5000000000);
	take(options, "stop-timeout", "250ms");
	assert_int_equal(options->stop_timeout_ns, 250000000);
}

static void test_runtimes(void **state)
{
	struct snap_options *options = *state;

	assert_int_equal(options->runtimes, SNAP_RUNTIME_ALL);
	assert_false(options->runtimes_given);
	take(options, "runtimes", "python,go");
	assert_int_equal(options->runtimes, SNAP_RUNTIME_GO | SNAP_RUNTIME_CPYTHON);
	assert_true(options->runtimes_given);
	refuse(options, "runtimes", "go,none", "stand alone");
	refuse(options, "runtimes", "auto,none", "stand alone");
	refuse(options, "runtimes", "perl", "not one of go, cpython, php, java, auto, none");
	assert_int_equal(options->runtimes, SNAP_RUNTIME_GO | SNAP_RUNTIME_CPYTHON);
	take(options, "runtimes", "none");
	assert_int_equal(options->runtimes, 0);
	assert_false(options->runtimes_given);
	take(options, "runtimes", "cpython");
	assert_int_equal(options->runtimes, SNAP_RUNTIME_CPYTHON);
	take(options, "runtimes", "auto");
	assert_int_equal(options->runtimes, SNAP_RUNTIME_ALL);
	assert_false(options->runtimes_given);
	take(options, "runtime-budget", "100");
	assert_int_equal(options->runtime_budget_ns, 100000000);
	refuse(options, "runtime-budget", "0", "not a number of milliseconds");
	take(options, "runtime-memory", "256M");
	assert_int_equal(options->runtime_memory, 256 << 20);
	refuse(options, "runtime-memory", "3G", "not a size of memory");
}

static void test_words(void **state)
{
	struct snap_options *options = *state;

	take(options, "engine", "ptrace");
	assert_int_equal(options->engine, SNAP_ENGINE_PTRACE);
	take(options, "engine", "libunwind");
	assert_int_equal(options->engine, SNAP_ENGINE_LIBUNWIND);
	take(options, "engine", "auto");
	assert_int_equal(options->engine, SNAP_ENGINE_AUTO);
	refuse(options, "engine", "gdb", "not one of auto, libunwind, ptrace");
	take(options, "perf-map", "always");
	assert_int_equal(options->perf_map, SNAP_PERF_MAP_ALWAYS);
	take(options, "perf-map", "never");
	assert_int_equal(options->perf_map, SNAP_PERF_MAP_NEVER);
	refuse(options, "perf-map", "yes", "not one of auto, always, never");
	take(options, "color", "always");
	assert_true(options->color);
	take(options, "color", "auto");
	assert_false(options->color);
	refuse(options, "color", "red", "not one of auto, always, never");
	take(options, "charset", "utf-8");
	assert_true(options->utf8);
	take(options, "charset", "ascii");
	assert_false(options->utf8);
}

static void test_rates(void **state)
{
	static const char *const bad[] = {
		"0", "-1", "10001", "20000", "fast", "99.5", "1e3", "+5"
	};
	struct snap_options *options = *state;

	assert_int_equal(options->hz, 99);
	take(options, "hz", "1");
	assert_int_equal(options->hz, 1);
	take(options, "hz", "10000");
	assert_int_equal(options->hz, 10000);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		refuse(options, "hz", bad[i], "from 1 to 10000");
	assert_int_equal(options->hz, 10000);
}

static void test_durations(void **state)
{
	static const char *const bad[] = { "-1",         "-0",   "abc",          "1.",   ".5",
					   "1..5",       "1,5",  "1 s",          " 1",   "1d",
					   "s",          "1e3",  "+1",           "0x10", "1ss",
					   "1s ",        "5min", "0.1234567890", "inf",  "nan",
					   "9999999999h" };
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = { { "30", 30000000000 },
		     { "0.5", 500000000 },
		     { "1.000000001", 1000000001 },
		     { "250ms", 250000000 },
		     { "1.5ms", 1500000 },
		     { "90s", 90000000000 },
		     { "2m", 120000000000 },
		     { "1.5m", 90000000000 },
		     { "1h", 3600000000000 },
		     { "0.25h", 900000000000 },
		     { "87840h", 316224000000000000 } };
	struct snap_options *options = *state;

	assert_int_equal(options->record_ns, 30000000000);
	assert_int_equal(options->ring_ns, 0);
	assert_int_equal(options->interval_ns, 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(good); i++) {
		take(options, "duration", good[i].text);
		assert_int_equal(options->record_ns, good[i].ns);
		take(options, "ring", good[i].text);
		assert_int_equal(options->ring_ns, good[i].ns);
		take(options, "interval", good[i].text);
		assert_int_equal(options->interval_ns, good[i].ns);
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++) {
		refuse(options, "duration", bad[i], "is not a duration (expected seconds from 0");
		refuse(options, "ring", bad[i], "is not a duration (expected seconds above 0");
	}
	refuse(options, "duration", "87841h", "is not a duration");
	refuse(options, "ring", "0", "above 0");
	refuse(options, "interval", "0.0s", "above 0");
	take(options, "duration", "0");
	assert_int_equal(options->record_ns, 0);
}

static void test_conditions(void **state)
{
	static const char *const bad[] = { "threads",
					   "threads>",
					   "threads>x",
					   "threads>-1",
					   "threads=5",
					   "threads>5%",
					   "thread>5",
					   "state",
					   "state=",
					   "state>disk",
					   "state=tired",
					   "state=Q",
					   "state=disk,",
					   "state=disk>",
					   "state=disk>x",
					   "state=disk for",
					   "state=disk for x",
					   "state=disk for -5s",
					   "state=disk for 5s for 6s",
					   "cpu<5",
					   "cpu<%",
					   "cpu=5%",
					   "cpu<5.%",
					   "cpu<.5%",
					   "cpu<5%%",
					   "cpu<1000001%",
					   "for 5s",
					   " for 5s",
					   "memory>5" };
	struct snap_options *options = *state;
	const struct snap_until *until = &options->until;
	char text[] = "threads>500";

	assert_int_equal(until->kind, SNAP_UNTIL_NONE);
	take(options, "until", text);
	memset(text, 'x', sizeof(text) - 1);
	assert_string_equal(until->text, "threads>500");
	assert_int_equal(until->kind, SNAP_UNTIL_THREADS);
	assert_true(!until->below && until->limit == 500 && until->for_ns == 0);
	take(options, "until", " threads < 3  for 1.5m ");
	assert_true(until->below && until->limit == 3 && until->for_ns == 90000000000);
	take(options, "until", "state=D,Z>5");
	assert_int_equal(options->until.states, 1 << SNAP_STATE_DISK | 1 << SNAP_STATE_ZOMBIE);
	take(options, "until", "state=disk for 5s");
	assert_int_equal(until->kind, SNAP_UNTIL_STATE);
	assert_int_equal(until->states, 1 << SNAP_STATE_DISK);
	assert_true(!until->below && until->limit == 0 && until->for_ns == 5000000000);
	take(options, "until", "state=disk,stopped>7");
	assert_int_equal(until->states, 1 << SNAP_STATE_DISK | 1 << SNAP_STATE_STOPPED);
	assert_true(!until->below && until->limit == 7 && until->for_ns == 0);
	take(options, "until", "state=running<1 for 250ms");
	assert_true(until->below && until->limit == 1 && until->for_ns == 250000000);
	take(options, "until", "cpu<5% for 10s");
	assert_int_equal(until->kind, SNAP_UNTIL_CPU);
	assert_true(until->below && until->limit == 5 && until->for_ns == 10000000000);
	take(options, "until", "cpu > 12.25 %");
	assert_true(!until->below && until->limit == 12.25 && until->for_ns == 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		refuse(options, "until", bad[i],
		       "is not a condition (expected threads>N, threads<N, state=");
	assert_true(until->limit == 12.25);
}

static void test_moments(void **state)
{
	static const char *const bad[] = { "-",
					   "--5",
					   "-5x",
					   "yesterday",
					   "07:52:18",
					   "2026-11-20",
					   "2026-11-20T07:52:18",
					   "2026-11-20T07:52Z",
					   "2026-11-20T07:52:18z ",
					   "2026-13-20T07:52:18Z",
					   "2026-11-31T07:52:18Z",
					   "2026-02-29T07:52:18Z",
					   "2026-11-20T24:00:00Z",
					   "2026-11-20T07:60:18Z",
					   "2026-11-20T07:52:61Z",
					   "2026-11-20T07:52:18.Z",
					   "2026-11-20T07:52:18+1:00",
					   "2026-11-20T07:52:18+01",
					   "2026-11-20T07:52:18+24:00",
					   "1969-12-31T23:59:59Z",
					   "2200-01-01T00:00:00Z",
					   "2026-11-2" };
	static const struct {
		const char *text;
		enum snap_moment_kind kind;
		int64_t ns;
	} good[] = {
		{ "5s", SNAP_MOMENT_SINCE_START, 5000000000 },
		{ "1.5", SNAP_MOMENT_SINCE_START, 1500000000 },
		{ "2m", SNAP_MOMENT_SINCE_START, 120000000000 },
		{ "0", SNAP_MOMENT_SINCE_START, 0 },
		{ "-10s", SNAP_MOMENT_BEFORE_END, 10000000000 },
		{ "-0", SNAP_MOMENT_BEFORE_END, 0 },
		{ "1970-01-01T00:00:00Z", SNAP_MOMENT_EPOCH, 0 },
		{ "2026-11-20T07:52:18Z", SNAP_MOMENT_EPOCH, 1795161138000000000 },
		{ "2026-11-20t07:52:18.106z", SNAP_MOMENT_EPOCH, 1795161138106000000 },
		{ "2026-11-20 08:52:18+01:00", SNAP_MOMENT_EPOCH, 1795161138000000000 },
		{ "2026-11-20T02:22:18.000000001-05:30", SNAP_MOMENT_EPOCH, 1795161138000000001 },
		{ "2024-02-29T23:59:60Z", SNAP_MOMENT_EPOCH, 1709251200000000000 },
		{ "2199-12-31T23:59:59Z", SNAP_MOMENT_EPOCH, 7258118399000000000 },
	};
	struct snap_options *options = *state;

	assert_int_equal(options->from.kind, SNAP_MOMENT_NONE);
	assert_int_equal(options->to.kind, SNAP_MOMENT_NONE);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(good); i++) {
		take(options, "from", good[i].text);
		assert_int_equal(options->from.kind, good[i].kind);
		assert_int_equal(options->from.ns, good[i].ns);
		take(options, "to", good[i].text);
		assert_int_equal(options->to.ns, good[i].ns);
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		refuse(options, "from", bad[i], "is not a time (expected a time since the start");
	refuse(options, "to", "", "empty");
}

static void test_words_of_recordings(void **state)
{
	struct snap_options *options = *state;

	assert_false(options->cpu_only);
	take(options, "mode", "cpu");
	assert_true(options->cpu_only);
	take(options, "mode", "wall");
	assert_false(options->cpu_only);
	refuse(options, "mode", "off-cpu", "not one of wall, cpu");
	assert_int_equal(options->state_frames, SNAP_STATE_FRAMES_ROOT);
	take(options, "state-frames", "leaf");
	assert_int_equal(options->state_frames, SNAP_STATE_FRAMES_LEAF);
	take(options, "state-frames", "no");
	assert_int_equal(options->state_frames, SNAP_STATE_FRAMES_NO);
	refuse(options, "state-frames", "yes", "not one of root, leaf, no");
}

static void test_lists_add_up(void **state)
{
	struct snap_options *options = *state;
	char text[32];

	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "/debug/%d", i);
		take(options, "debug-dir", text);
	}
	assert_int_equal(options->debug_dir_count, 100);
	assert_string_equal(options->debug_dirs[0], "/debug/0");
	assert_string_equal(options->debug_dirs[99], "/debug/99");
}

static void test_refuses_the_unknown(void **state)
{
	static const char *const later[] = { "no-such-thing", "core", "listen" };
	struct snap_options *options = *state;
	char *text = malloc(5000);

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(later); i++)
		refuse(options, later[i], NULL, "unknown option");
	refuse(options, "", NULL, "unknown option");
	memset(text, 'x', 4999);
	text[4999] = '\0';
	refuse(options, "name", text, "too long");
	free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),
		TEST(test_pids),
		TEST(test_other_targets),
		TEST(test_texts_are_copied),
		TEST(test_flags),
		TEST(test_states),
		TEST(test_call_tree_keeps_stacks_apart),
		TEST(test_task_tree),
		TEST(test_group_by),
		TEST(test_regexes_replace),
		TEST(test_numbers),
		TEST(test_timeouts),
		TEST(test_words),
		TEST(test_rates),
		TEST(test_runtimes),
		TEST(test_durations),
		TEST(test_conditions),
		TEST(test_moments),
		TEST(test_words_of_recordings),
		TEST(test_lists_add_up),
		TEST(test_refuses_the_unknown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
