/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options by name: one table from a long option's name to the function that sets its field
 * (setters.c), and to the words that it takes, if these are few; messages, --help and completions
 * have them from here. Knows nothing of how values are written (parse.c).
 *
 * To add an option: a field in model/options.h, a line in the table here, a line in the table of
 * cli/options.c (which also makes --help and the completions), the man page.
 */
#include "api/options.h"

#include "api/setters.h"
#include "base/clock.h"
#include "containers/containers.h"
#include "model/snapshot.h"
#include "model/wait/alert.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_TEXT = 4096 }; /* bytes of a value: a path, a list */

/* ---- defaults ---- */

void snap_options_init(struct snap_options *options)
{
	*options = (struct snap_options){
		.children = true,
		.find_containers = snap_containers_find,
		.max_stack = 1 << 20,
		.max_snapshot = 128u << 20,
		.stop_timeout_ns = 1000 * SNAP_NS_PER_MS,
		.timeout_ns = (1000 + SNAP_TIMEOUT_EXTRA_MS) * SNAP_NS_PER_MS,
		.runtimes = SNAP_RUNTIME_ALL,
		.runtime_budget_ns = 30 * SNAP_NS_PER_MS,
		.runtime_memory = 64 << 20,
		.hz = 99,
		.record_ns = 30000 * SNAP_NS_PER_MS,
		.max_memory = 256u << 20,
		.max_stopped = 30000,
		.task_millihertz = 1000,
		.max_frames = SNAP_USUAL_FRAMES,
		.symbols = true,
		.inlines = true,
		.lines = true,
		.group_by = SNAP_GROUP_USUAL,
		.watch_rules = snap_watch_default_rules(),
		.every_ns = 1000000000,
		.await_tree = true,
	};
	snap_set_default_tree_keys(options);
	snap_arena_init(&options->arena);
}

void snap_options_deinit(struct snap_options *options)
{
	for (size_t i = 0; i < options->target_count; i++)
		snap_regex_destroy(options->targets[i].regex);
	snap_regex_destroy(options->thread_regex);
	snap_regex_destroy(options->match_regex);
	free(options->targets);
	free((void *)(uintptr_t)options->seen);
	free(options->debug_dirs);
	free(options->group_labels);
	snap_arena_deinit(&options->arena);
	if (options->trace)
		munmap(options->trace, sizeof(*options->trace));
	*options = (struct snap_options){ 0 };
}

/* ---- words ---- */

/* The letters are those of ps(1) and proc(5). */
static const struct snap_choice states[] = {
	{ "running", 1u << SNAP_STATE_RUNNING | SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING) },
	{ "R", 1u << SNAP_STATE_RUNNING | SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING) },
	{ "sleeping", 1u << SNAP_STATE_SLEEPING },
	{ "S", 1u << SNAP_STATE_SLEEPING },
	{ "disk", 1u << SNAP_STATE_DISK },
	{ "D", 1u << SNAP_STATE_DISK },
	{ "stopped", 1u << SNAP_STATE_STOPPED },
	{ "T", 1u << SNAP_STATE_STOPPED },
	{ "traced", 1u << SNAP_STATE_TRACED },
	{ "t", 1u << SNAP_STATE_TRACED },
	{ "zombie", 1u << SNAP_STATE_ZOMBIE },
	{ "Z", 1u << SNAP_STATE_ZOMBIE },
	{ "dead", 1u << SNAP_STATE_DEAD | SNAP_TASK_STATE_BIT(SNAP_TASK_DEAD) },
	{ "X", 1u << SNAP_STATE_DEAD | SNAP_TASK_STATE_BIT(SNAP_TASK_DEAD) },
	{ "idle", 1u << SNAP_STATE_IDLE },
	{ "I", 1u << SNAP_STATE_IDLE },
	{ "parked", 1u << SNAP_STATE_PARKED },
	{ "P", 1u << SNAP_STATE_PARKED },
	{ "frozen", 1u << SNAP_STATE_FROZEN },
	{ "unknown", 1u << SNAP_STATE_UNKNOWN | SNAP_TASK_STATE_BIT(SNAP_TASK_UNKNOWN) },
	{ "runnable", SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNABLE) },
	{ "syscall", SNAP_TASK_STATE_BIT(SNAP_TASK_SYSCALL) },
	{ "waiting", SNAP_TASK_STATE_BIT(SNAP_TASK_WAITING) },
	{ NULL, 0 },
};
static const struct snap_choice groups[] = {
	{ "stack", SNAP_GROUP_STACK },     { "state", SNAP_GROUP_STATE },
	{ "name", SNAP_GROUP_NAME },       { "thread_name", SNAP_GROUP_NAME },
	{ "syscall", SNAP_GROUP_SYSCALL }, { "wchan", SNAP_GROUP_WCHAN },
	{ "cpu", SNAP_GROUP_CPU },         { "type", SNAP_GROUP_TYPE },
	{ "tid", SNAP_GROUP_TID },         { "wait", SNAP_GROUP_WAIT },
	{ "process", SNAP_GROUP_PROCESS }, { NULL, 0 },
};
static const struct snap_choice runtimes[] = {
	{ "go", SNAP_RUNTIME_GO },          { "cpython", SNAP_RUNTIME_CPYTHON },
	{ "python", SNAP_RUNTIME_CPYTHON }, { "php", SNAP_RUNTIME_PHP },
	{ "java", SNAP_RUNTIME_JAVA },      { "auto", SNAP_RUNTIMES_AUTO },
	{ "none", SNAP_RUNTIMES_NONE },     { NULL, 0 },
};
static const struct snap_choice engines[] = {
	{ "auto", SNAP_ENGINE_AUTO },
	{ "libunwind", SNAP_ENGINE_LIBUNWIND },
	{ "ptrace", SNAP_ENGINE_PTRACE },
	{ NULL, 0 },
};
static const struct snap_choice perf_maps[] = {
	{ "auto", SNAP_PERF_MAP_AUTO },
	{ "always", SNAP_PERF_MAP_ALWAYS },
	{ "never", SNAP_PERF_MAP_NEVER },
	{ NULL, 0 },
};
/* The library knows no terminal: the caller decides what "auto" means before the call. */
static const struct snap_choice colors[] = {
	{ "auto", false }, { "always", true }, { "never", false }, { NULL, 0 }
};
static const struct snap_choice charsets[] = { { "ascii", false }, { "utf-8", true }, { NULL, 0 } };
static const struct snap_choice modes[] = { { "wall", false }, { "cpu", true }, { NULL, 0 } };
static const struct snap_choice state_frames[] = {
	{ "root", SNAP_STATE_FRAMES_ROOT },
	{ "leaf", SNAP_STATE_FRAMES_LEAF },
	{ "no", SNAP_STATE_FRAMES_NO },
	{ NULL, 0 },
};

/* ---- the table ---- */

#define FIELD(name) offsetof(struct snap_options, name)

static const struct snap_setting settings[] = {
	{ "pid", "PID", snap_set_pid, 0, 0, NULL },
	{ "name", "REGEX", snap_set_name, 0, 0, NULL },
	{ "unit", "UNIT", snap_set_target, 0, SNAP_TARGET_UNIT, NULL },
	{ "cgroup", "PATH", snap_set_target, 0, SNAP_TARGET_CGROUP, NULL },
	{ "container", "ID", snap_set_target, 0, SNAP_TARGET_CONTAINER, NULL },
	{ "all", NULL, snap_set_target, 0, SNAP_TARGET_ALL, NULL },
	{ "no-stop", NULL, snap_set_flag, FIELD(no_stop), true, NULL },
	{ "force-stop", NULL, snap_set_flag, FIELD(force_stop), true, NULL },
	{ "stop-all", NULL, snap_set_flag, FIELD(stop_all), true, NULL },
	{ "no-sandbox", NULL, snap_set_flag, FIELD(no_sandbox), true, NULL },
	{ "no-children", NULL, snap_set_flag, FIELD(children), false, NULL },
	{ "flat", NULL, snap_set_flag, FIELD(flat), true, NULL },
	{ "no-system", NULL, snap_set_flag, FIELD(no_system), true, NULL },
	{ "no-idle", NULL, snap_set_flag, FIELD(no_idle), true, NULL },
	{ "state", "LIST", snap_set_list, FIELD(states), 0, states },
	{ "thread", "REGEX", snap_set_regex, FIELD(thread_regex), 0, NULL },
	{ "match", "REGEX", snap_set_regex, FIELD(match_regex), 0, NULL },
	{ "group-by", "LIST", snap_set_group_by, FIELD(group_by), 0, groups },
	{ "task-tree", "KEYS", snap_set_task_tree, 0, 0, NULL },
	{ "threads", NULL, snap_set_flag, FIELD(all_threads), true, NULL },
	{ "system-tasks", NULL, snap_set_flag, FIELD(system_tasks), true, NULL },
	{ "native", NULL, snap_set_flag, FIELD(native), true, NULL },
	{ "no-fold", NULL, snap_set_flag, FIELD(no_fold), true, NULL },
	{ "call-tree", NULL, snap_set_call_tree, 0, 0, NULL },
	{ "reverse", NULL, snap_set_flag, FIELD(reverse), true, NULL },
	{ "summary", NULL, snap_set_flag, FIELD(summary), true, NULL },
	{ "per-thread", NULL, snap_set_per_thread, 0, 0, NULL },
	{ "explain", NULL, snap_set_value, FIELD(explain), SNAP_EXPLAIN_ALL, NULL },
	{ "deadlocks", NULL, snap_set_flag, FIELD(deadlocks_only), true, NULL },
	{ "no-explain", NULL, snap_set_value, FIELD(explain), SNAP_EXPLAIN_NO, NULL },
	{ "kernel", NULL, snap_set_flag, FIELD(kernel_stacks), true, NULL },
	{ "runtimes", "LIST", snap_set_runtimes, FIELD(runtimes), 0, runtimes },
	{ "runtime-budget", "MS", snap_set_milliseconds, FIELD(runtime_budget_ns), 60000, NULL },
	{ "runtime-memory", "BYTES", snap_set_runtime_memory, 0, 0, NULL },
	{ "max-frames", "COUNT", snap_set_max_frames, 0, 0, NULL },
	{ "module", NULL, snap_set_flag, FIELD(show_module), true, NULL },
	{ "build-id", NULL, snap_set_flag, FIELD(show_build_id), true, NULL },
	{ "raw", NULL, snap_set_flag, FIELD(raw_names), true, NULL },
	{ "quiet", NULL, snap_set_flag, FIELD(symbols), false, NULL },
	{ "no-symbolize", NULL, snap_set_flag, FIELD(symbols), false, NULL },
	{ "no-inlines", NULL, snap_set_flag, FIELD(inlines), false, NULL },
	{ "no-lines", NULL, snap_set_flag, FIELD(lines), false, NULL },
	{ "max-stack", "BYTES", snap_set_max_stack, 0, 0, NULL },
	{ "max-memory", "BYTES", snap_set_max_memory, 0, 0, NULL },
	{ "max-stopped", "PERCENT", snap_set_max_stopped, 0, 0, NULL },
	{ "stop-timeout", "MS", snap_set_milliseconds, FIELD(stop_timeout_ns), 3600000, NULL },
	{ "timeout", "MS", snap_set_milliseconds, FIELD(timeout_ns), 86400000, NULL },
	{ "engine", "ENGINE", snap_set_choice, FIELD(engine), 0, engines },
	{ "debug-dir", "DIR", snap_set_debug_dir, 0, 0, NULL },
	{ "exe", "FILE", snap_set_exe, 0, 0, NULL },
	{ "debuginfod", NULL, snap_set_flag, FIELD(debuginfod), true, NULL },
	{ "perf-map", "WHEN", snap_set_choice, FIELD(perf_map), 0, perf_maps },
	{ "color", "WHEN", snap_set_either, FIELD(color), 0, colors },
	{ "charset", "NAME", snap_set_either, FIELD(utf8), 0, charsets },
	{ "full-names", NULL, snap_set_flag, FIELD(full_names), true, NULL },
	{ "width", "COLUMNS", snap_set_number, FIELD(width), 10000, NULL },
	{ "group-lines", "LINES", snap_set_number, FIELD(group_lines), 100000, NULL },
	{ "verbose", NULL, snap_set_verbose, 0, 0, NULL },
	{ "hz", "RATE", snap_set_hz, 0, 0, NULL },
	{ "task-hz", "RATE", snap_set_task_hz, 0, 0, NULL },
	{ "duration", "TIME", snap_set_duration, FIELD(record_ns), true, NULL },
	{ "ring", "TIME", snap_set_duration, FIELD(ring_ns), false, NULL },
	{ "until", "CONDITION", snap_set_until, 0, 0, NULL },
	{ "mode", "MODE", snap_set_either, FIELD(cpu_only), 0, modes },
	{ "from", "TIME", snap_set_moment, FIELD(from), 0, NULL },
	{ "to", "TIME", snap_set_moment, FIELD(to), 0, NULL },
	{ "state-frames", "WHERE", snap_set_choice, FIELD(state_frames), 0, state_frames },
	{ "watch", "LIST", snap_set_watch, 0, 0, NULL },
	{ "every", "TIME", snap_set_duration, FIELD(every_ns), false, NULL },
	{ "again", "TIME", snap_set_duration, FIELD(again_ns), false, NULL },
	{ "once", NULL, snap_set_flag, FIELD(watch_once), true, NULL },
	{ "interval", "TIME", snap_set_duration, FIELD(interval_ns), false, NULL },
	{ NULL, NULL, NULL, 0, 0, NULL },
};

static const struct snap_setting *find_setting(const char *name)
{
	const struct snap_setting *setting = settings;

	while (setting->name && strcmp(setting->name, name) != 0)
		setting++;
	return setting->name ? setting : NULL;
}

const char *snap_options_value(const char *name, size_t index)
{
	const struct snap_setting *setting = find_setting(name);
	const struct snap_choice *choice = setting ? setting->choices : NULL;

	for (; choice && choice->word; choice++)
		if (!snap_choice_is_alias(setting->choices, choice) && index-- == 0)
			return choice->word;
	return NULL;
}

struct stacksnap_error *snap_options_set(struct snap_options *options, const char *name,
					 const char *value)
{
	const struct snap_setting *setting = find_setting(name);
	struct stacksnap_error *err;

	if (!setting)
		return snap_error_format(SNAP_ERROR_INVALID, "unknown option '%s'", name);
	if (setting->argument && !value)
		return snap_error_format(SNAP_ERROR_INVALID, "%s: needs a value (%s)", name,
					 setting->argument);
	if (!setting->argument && value)
		return snap_error_format(SNAP_ERROR_INVALID, "%s: takes no value", name);
	if (value && (value[0] == '\0' || strlen(value) > MAX_TEXT))
		return snap_error_format(SNAP_ERROR_INVALID, "%s: the value is %s", name,
					 value[0] ? "too long" : "empty");
	err = setting->set(options, setting, value);
	if (err && snap_error_code(err) == SNAP_ERROR_INVALID)
		return snap_error_wrap(err, "%s", name);
	return err;
}
