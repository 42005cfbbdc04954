/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options by name: one table from a long option's name to the function that parses its text, and
 * to the words that it takes, if these are few; messages, --help and completions have them from
 * here. Knows nothing of how values are written (parse.c).
 *
 * To add an option: a field in model/options.h, a line in the table here, a line in the table of
 * cli/options.c (which also makes --help and the completions), the man page.
 */
#include "api/options.h"
#include "base/buffer.h"

#include "api/parse.h"
#include "model/snapshot.h"
#include "model/wait/alert.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

enum {
	MAX_TEXT = 4096, /* bytes of a value: a path, a list */
	MAX_WIDTH = 10000,
	MIN_HZ = 1,
	LEAST_STOPPED = 1000, /* millionths */
	MAX_HZ = 10000,
	/* Words of --runtimes beside those of enum snap_runtime_kind. */
	RUNTIMES_AUTO = 1 << 16,
	RUNTIMES_NONE = 1 << 17,
};

static const int64_t NS_PER_MS = 1000000;
static const int64_t DEFAULT_TIMEOUT_EXTRA_NS = 10000000000; /* over the stop timeout */
static const uint64_t MAX_STACK = 1ull << 30;
static const uint64_t LEAST_RUNTIME_MEMORY = 1 << 16, MAX_RUNTIME_MEMORY = 1ull << 31;
static const uint64_t LEAST_MEMORY = 16ull << 20, MAX_MEMORY = 64ull << 30;

struct snap_setting {
	const char *name;
	const char *argument; /* what the value is, for messages; NULL: the option takes none */
	struct stacksnap_error *(*set)(struct snap_options *options,
				       const struct snap_setting *setting, const char *value);
	size_t offset;  /* of the field, for setters that serve several options */
	unsigned value; /* what to put there */
	const struct snap_choice *choices; /* the words that it takes; NULL: any text */
};

static const char *const default_tree[SNAP_TREE_KEYS] = { "pid", "ppid", "process-description",
							  "process-type" };

void snap_options_init(struct snap_options *options)
{
	*options = (struct snap_options){
		.children = true,
		.max_stack = 1 << 20,
		.max_snapshot = 128u << 20,
		.stop_timeout_ns = 1000 * NS_PER_MS,
		.timeout_ns = 1000 * NS_PER_MS + DEFAULT_TIMEOUT_EXTRA_NS,
		.runtimes = SNAP_RUNTIME_ALL,
		.runtime_budget_ns = 30 * NS_PER_MS,
		.runtime_memory = 64 << 20,
		.hz = 99,
		.record_ns = 30000 * NS_PER_MS,
		.max_memory = 256u << 20,
		.max_stopped = 30000,
		.task_millihertz = 1000,
		.max_frames = 512,
		.symbols = true,
		.inlines = true,
		.lines = true,
		.group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE,
		.watch_rules = snap_watch_default_rules(),
		.every_ns = 1000000000,
		.await_tree = true,
	};
	memcpy(options->task_tree, default_tree, sizeof(default_tree));
	snap_arena_init(&options->arena);
}

void snap_options_deinit(struct snap_options *options)
{
	for (size_t i = 0; i < options->target_count; i++)
		snap_regex_destroy(options->targets[i].regex);
	snap_regex_destroy(options->thread_regex);
	snap_regex_destroy(options->match_regex);
	free(options->targets);
	free(options->debug_dirs);
	free(options->group_labels);
	snap_arena_deinit(&options->arena);
	*options = (struct snap_options){ 0 };
}

static struct stacksnap_error *add_target(struct snap_options *options, struct snap_target target)
{
	if (!snap_reserve_array(options->targets, options->target_capacity,
				options->target_count + 1))
		return snap_error_no_memory();
	options->targets[options->target_count++] = target;
	return NULL;
}

static bool has_pid(const struct snap_options *options, pid_t pid)
{
	for (size_t i = 0; i < options->target_count; i++)
		if (options->targets[i].kind == SNAP_TARGET_PID && options->targets[i].pid == pid)
			return true;
	return false;
}

static struct stacksnap_error *set_pid(struct snap_options *options,
				       const struct snap_setting *setting _unused_,
				       const char *value)
{
	const char *cursor = value, *item;
	size_t length;
	uint64_t pid;

	while ((item = snap_parse_item(&cursor, &length))) {
		struct snap_target target = { .kind = SNAP_TARGET_PID };
		struct stacksnap_error *err;

		if (!snap_parse_number(item, length, 1, INT_MAX, &pid))
			return snap_error_format(SNAP_ERROR_INVALID,
						 "'%.*s' is not a process id (expected a number or "
						 "a comma-separated list)",
						 (int)length, item);
		target.pid = (pid_t)pid;
		if (has_pid(options, target.pid))
			continue;
		err = add_target(options, target);
		if (err)
			return err;
	}
	return NULL;
}

static struct stacksnap_error *set_name(struct snap_options *options,
					const struct snap_setting *setting _unused_,
					const char *value)
{
	struct snap_target target = { .kind = SNAP_TARGET_NAME };
	struct stacksnap_error *err;

	target.text = snap_arena_strdup(&options->arena, value);
	if (!target.text)
		return snap_error_no_memory();
	err = snap_parse_regex(value, &target.regex);
	if (err)
		return err;
	err = add_target(options, target);
	if (err)
		snap_regex_destroy(target.regex);
	return err;
}

/* --unit, --cgroup, --container, --all: a target of kind setting->value and its text. */
static struct stacksnap_error *set_target(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	struct snap_target target = { .kind = setting->value };

	if (value) {
		target.text = snap_arena_strdup(&options->arena, value);
		if (!target.text)
			return snap_error_no_memory();
	}
	return add_target(options, target);
}

static struct stacksnap_error *set_flag(struct snap_options *options,
					const struct snap_setting *setting,
					const char *value _unused_)
{
	*(bool *)((char *)options + setting->offset) = setting->value;
	return NULL;
}

static struct stacksnap_error *set_regex(struct snap_options *options,
					 const struct snap_setting *setting, const char *value)
{
	regex_t **field = (regex_t **)((char *)options + setting->offset);
	regex_t *regex = NULL;
	struct stacksnap_error *err;

	err = snap_parse_regex(value, &regex);
	if (err)
		return err;
	snap_regex_destroy(*field);
	*field = regex;
	return NULL;
}

/* wchan is a read of its own per thread: only on request. */
static void decide_wchan(struct snap_options *options)
{
	options->wchan = options->verbose > 0 || (options->group_by & SNAP_GROUP_WCHAN);
}

/* setting->value into the unsigned or enum at setting->offset. */
static struct stacksnap_error *set_value(struct snap_options *options,
					 const struct snap_setting *setting,
					 const char *value _unused_)
{
	*(unsigned *)((char *)options + setting->offset) = setting->value;
	return NULL;
}

/* A list of setting->choices, whose values are bits, into the unsigned at setting->offset. */
static struct stacksnap_error *set_list(struct snap_options *options,
					const struct snap_setting *setting, const char *value)
{
	const char *cursor = value, *item;
	unsigned bits = 0;
	size_t length;

	while ((item = snap_parse_item(&cursor, &length))) {
		struct stacksnap_error *err;
		unsigned bit = 0;

		err = snap_parse_choice(setting->choices, item, length, &bit);
		if (err)
			return err;
		bits |= bit;
	}
	*(unsigned *)((char *)options + setting->offset) = bits;
	return NULL;
}

/* "auto" and "none" stand alone; who names runtimes has each process asked. */
static struct stacksnap_error *set_runtimes(struct snap_options *options,
					    const struct snap_setting *setting, const char *value)
{
	unsigned before = options->runtimes, words = RUNTIMES_AUTO | RUNTIMES_NONE;
	struct stacksnap_error *err = set_list(options, setting, value);

	if (!err && (options->runtimes & words) && (options->runtimes & (options->runtimes - 1)))
		err = snap_error_format(SNAP_ERROR_INVALID,
					"'%s' is no list of runtimes: auto and none stand alone",
					value);
	if (err) {
		options->runtimes = before;
		return err;
	}
	options->runtimes_given = !(options->runtimes & words);
	if (options->runtimes & words)
		options->runtimes =
			options->runtimes == RUNTIMES_AUTO ? (unsigned)SNAP_RUNTIME_ALL : 0;
	return NULL;
}

/* The key in "label:KEY"; NULL: it is another word. */
static const char *label_key(const char *item, size_t *length)
{
	static const char prefix[] = "label:";
	size_t skipped = sizeof(prefix) - 1;

	if (*length <= skipped || strncmp(item, prefix, skipped) != 0)
		return NULL;
	*length -= skipped;
	return item + skipped;
}

static struct stacksnap_error *add_group_label(struct snap_options *options, const char *key,
					       size_t length)
{
	const char *copy = snap_arena_strndup(&options->arena, key, length);

	if (!copy || !snap_reserve_array(options->group_labels, options->group_label_capacity,
					 options->group_label_count + 1))
		return snap_error_no_memory();
	options->group_labels[options->group_label_count++] = copy;
	return NULL;
}

/* As set_list(), and labels of tasks. */
static struct stacksnap_error *set_group_by(struct snap_options *options,
					    const struct snap_setting *setting, const char *value)
{
	unsigned bits = options->group_by & SNAP_GROUP_TID; /* --per-thread given before */
	const char *cursor = value, *item;
	size_t length;

	options->group_label_count = 0;
	while ((item = snap_parse_item(&cursor, &length))) {
		const char *key = label_key(item, &length);
		struct stacksnap_error *err;
		unsigned bit = 0;

		err = key ? add_group_label(options, key, length)
			  : snap_parse_choice(setting->choices, item, length, &bit);
		if (err)
			return err;
		bits |= bit;
	}
	options->group_by = bits;
	decide_wchan(options);
	return NULL;
}

static struct stacksnap_error *set_per_thread(struct snap_options *options,
					      const struct snap_setting *setting _unused_,
					      const char *value _unused_)
{
	options->group_by |= SNAP_GROUP_TID;
	return NULL;
}

/* As many keys as there are, in the order of enum snap_tree_key. */
static struct stacksnap_error *set_task_tree(struct snap_options *options,
					     const struct snap_setting *setting _unused_,
					     const char *value)
{
	const char *keys[SNAP_TREE_KEYS] = { NULL }, *cursor = value, *item;
	size_t count = 0, length;

	options->await_tree = strcmp(value, "auto") == 0;
	if (options->await_tree) {
		memcpy(options->task_tree, default_tree, sizeof(default_tree));
		return NULL;
	}
	while (strcmp(value, "none") != 0 && (item = snap_parse_item(&cursor, &length))) {
		if (count == SNAP_TREE_KEYS || length == 0)
			return snap_error_format(SNAP_ERROR_INVALID,
						 "'%s' is no list of labels (expected auto, none, "
						 "or the keys of id, parent, description and type, "
						 "such as 'request_id,parent_id')",
						 value);
		keys[count] = snap_arena_strndup(&options->arena, item, length);
		if (!keys[count++])
			return snap_error_no_memory();
	}
	memcpy(options->task_tree, keys, sizeof(keys));
	return NULL;
}

static struct stacksnap_error *set_verbose(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value _unused_)
{
	options->verbose++;
	decide_wchan(options);
	return NULL;
}

static struct stacksnap_error *set_max_frames(struct snap_options *options,
					      const struct snap_setting *setting _unused_,
					      const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), 0, INT_MAX, &number))
		return snap_parse_number_error(value, "number of frames", 0, INT_MAX);
	options->max_frames = number;
	options->frames_given = true;
	return NULL;
}

/* "512k": bytes, with a suffix or without. */
static bool parse_bytes(const char *value, uint64_t least, uint64_t most, uint64_t *ret)
{
	static const char suffixes[] = "kMG";
	size_t length = strlen(value);
	const char *suffix = length ? strchr(suffixes, value[length - 1]) : NULL;
	unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
	uint64_t number;

	if (!snap_parse_number(value, length - (suffix != NULL), 1, most >> shift, &number) ||
	    number << shift < least)
		return false;
	*ret = number << shift;
	return true;
}

static struct stacksnap_error *set_max_stack(struct snap_options *options,
					     const struct snap_setting *setting _unused_,
					     const char *value)
{
	if (!parse_bytes(value, 1024, MAX_STACK, &options->max_stack))
		return snap_error_format(SNAP_ERROR_INVALID,
					 "'%s' is not a stack size (expected bytes from 1024 to "
					 "1G, such as 65536, 512k or 4M)",
					 value);
	if (options->max_snapshot < options->max_stack)
		options->max_snapshot = options->max_stack;
	return NULL;
}

static struct stacksnap_error *set_runtime_memory(struct snap_options *options,
						  const struct snap_setting *setting _unused_,
						  const char *value)
{
	if (parse_bytes(value, LEAST_RUNTIME_MEMORY, MAX_RUNTIME_MEMORY, &options->runtime_memory))
		return NULL;
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a size of memory (expected bytes from 64k to 2G, "
				 "such as 64M or 1G)",
				 value);
}

static struct stacksnap_error *set_max_memory(struct snap_options *options,
					      const struct snap_setting *setting _unused_,
					      const char *value)
{
	if (parse_bytes(value, LEAST_MEMORY, MAX_MEMORY, &options->max_memory))
		return NULL;
	return snap_error_format(SNAP_ERROR_INVALID,
				 "'%s' is not a size of memory (expected bytes from 16M to 64G, "
				 "such as 256M or 1G)",
				 value);
}

/* Milliseconds into the int64_t nanoseconds at setting->offset; at most setting->value. */
static struct stacksnap_error *set_milliseconds(struct snap_options *options,
						const struct snap_setting *setting,
						const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), 1, setting->value, &number))
		return snap_parse_number_error(value, "number of milliseconds", 1, setting->value);
	*(int64_t *)((char *)options + setting->offset) = (int64_t)number * NS_PER_MS;
	if (setting->offset == offsetof(struct snap_options, timeout_ns))
		options->timeout_given = true;
	if (!options->timeout_given)
		options->timeout_ns = options->stop_timeout_ns + DEFAULT_TIMEOUT_EXTRA_NS;
	return NULL;
}

/* One of setting->choices into the enum at setting->offset. */
static struct stacksnap_error *set_choice(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	return snap_parse_choice(setting->choices, value, strlen(value),
				 (unsigned *)((char *)options + setting->offset));
}

/* The same into a bool. */
static struct stacksnap_error *set_either(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	unsigned choice = 0;
	struct stacksnap_error *err;

	err = snap_parse_choice(setting->choices, value, strlen(value), &choice);
	if (!err)
		*(bool *)((char *)options + setting->offset) = choice;
	return err;
}

static struct stacksnap_error *set_width(struct snap_options *options,
					 const struct snap_setting *setting _unused_,
					 const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), 0, MAX_WIDTH, &number))
		return snap_parse_number_error(value, "number of columns", 0, MAX_WIDTH);
	options->width = (unsigned)number;
	return NULL;
}

static struct stacksnap_error *set_debug_dir(struct snap_options *options,
					     const struct snap_setting *setting _unused_,
					     const char *value)
{
	const char *copy = snap_arena_strdup(&options->arena, value);

	if (!copy || !snap_reserve_array(options->debug_dirs, options->debug_dir_capacity,
					 options->debug_dir_count + 1))
		return snap_error_no_memory();
	options->debug_dirs[options->debug_dir_count++] = copy;
	return NULL;
}

static struct stacksnap_error *
set_hz(struct snap_options *options, const struct snap_setting *setting _unused_, const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), MIN_HZ, MAX_HZ, &number))
		return snap_parse_number_error(value, "rate in samples per second", MIN_HZ, MAX_HZ);
	options->hz = (unsigned)number;
	return NULL;
}

/* Ten thousandths of a percent are millionths: here thousandths of a look. */
static struct stacksnap_error *set_task_hz(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value)
{
	uint64_t millionths;

	if (!snap_parse_percent(value, strlen(value), &millionths) || millionths % 10)
		return snap_error_format(SNAP_ERROR_INVALID,
					 "'%s' is not a rate of looks at tasks in a second "
					 "(expected a number from 0 to 100, such as 1 or 0.2)",
					 value);
	options->task_millihertz = (uint32_t)(millionths / 10);
	return NULL;
}

static struct stacksnap_error *set_max_stopped(struct snap_options *options,
					       const struct snap_setting *setting _unused_,
					       const char *value)
{
	uint64_t millionths;

	if (!snap_parse_percent(value, strlen(value), &millionths) || millionths < LEAST_STOPPED)
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"'%s' is not a part of the time in percent (expected a number from 0.1 to "
			"100, such as 3 or 0.5)",
			value);
	options->max_stopped = (uint32_t)millionths;
	return NULL;
}

/* Into the int64_t nanoseconds at setting->offset; setting->value: 0 is a duration, too. */
static struct stacksnap_error *set_duration(struct snap_options *options,
					    const struct snap_setting *setting, const char *value)
{
	int64_t ns;

	if (!snap_parse_duration(value, strlen(value), &ns) || (ns == 0 && !setting->value))
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"'%s' is not a duration (expected seconds%s, such as 30 or 0.5, or a "
			"number with a unit: 250ms, 90s, 5m, 1h)",
			value, setting->value ? " from 0, which means no limit" : " above 0");
	*(int64_t *)((char *)options + setting->offset) = ns;
	return NULL;
}

static struct stacksnap_error *set_until(struct snap_options *options,
					 const struct snap_setting *setting _unused_,
					 const char *value)
{
	struct snap_until until;

	if (!snap_parse_until(value, &until))
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"'%s' is not a condition (expected threads>N, threads<N, state=LIST, "
			"state=LIST>N, cpu>N%% or cpu<N%%, and optionally ' for TIME': "
			"'threads>500', 'state=disk for 5s', 'cpu<5%% for 10s')",
			value);
	until.text = snap_arena_strdup(&options->arena, value);
	if (!until.text)
		return snap_error_no_memory();
	options->until = until;
	return NULL;
}

static struct stacksnap_error *set_watch(struct snap_options *options,
					 const struct snap_setting *setting _unused_,
					 const char *value)
{
	if (!snap_parse_watch(value, &options->watch_rules))
		return snap_error_format(
			SNAP_ERROR_INVALID,
			"'%s' is not a list of conditions (expected deadlock, blocked>=N, stuck, "
			"disk, spinning>=N%%, pool, peer or growth>=N%%, each optionally with "
			"' for TIME', separated by commas: 'deadlock,blocked>=3 for 10s')",
			value);
	options->watch = true;
	return NULL;
}

/* Into the struct snap_moment at setting->offset. */
static struct stacksnap_error *set_moment(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	struct snap_moment moment;

	if (!snap_parse_moment(value, &moment))
		return snap_error_format(SNAP_ERROR_INVALID,
					 "'%s' is not a time (expected a time since the start: 5s, "
					 "1.5, 2m; a time before the end: -10s; or a date with Z "
					 "or an offset: 2026-11-20T07:52:18.5Z)",
					 value);
	*(struct snap_moment *)((char *)options + setting->offset) = moment;
	return NULL;
}

/* ---- words ---- */

static const struct snap_choice states[] = {
	{ "running", 1u << SNAP_STATE_RUNNING | SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNING) },
	{ "sleeping", 1u << SNAP_STATE_SLEEPING },
	{ "disk", 1u << SNAP_STATE_DISK },
	{ "stopped", 1u << SNAP_STATE_STOPPED },
	{ "traced", 1u << SNAP_STATE_TRACED },
	{ "zombie", 1u << SNAP_STATE_ZOMBIE },
	{ "dead", 1u << SNAP_STATE_DEAD | SNAP_TASK_STATE_BIT(SNAP_TASK_DEAD) },
	{ "idle", 1u << SNAP_STATE_IDLE },
	{ "parked", 1u << SNAP_STATE_PARKED },
	{ "unknown", 1u << SNAP_STATE_UNKNOWN | SNAP_TASK_STATE_BIT(SNAP_TASK_UNKNOWN) },
	{ "runnable", SNAP_TASK_STATE_BIT(SNAP_TASK_RUNNABLE) },
	{ "syscall", SNAP_TASK_STATE_BIT(SNAP_TASK_SYSCALL) },
	{ "waiting", SNAP_TASK_STATE_BIT(SNAP_TASK_WAITING) },
	{ NULL, 0 },
};
static const struct snap_choice groups[] = {
	{ "stack", SNAP_GROUP_STACK },
	{ "state", SNAP_GROUP_STATE },
	{ "name", SNAP_GROUP_NAME },
	{ "thread_name", SNAP_GROUP_NAME },
	{ "syscall", SNAP_GROUP_SYSCALL },
	{ "wchan", SNAP_GROUP_WCHAN },
	{ "cpu", SNAP_GROUP_CPU },
	{ "type", SNAP_GROUP_TYPE },
	{ "tid", SNAP_GROUP_TID },
	{ "wait", SNAP_GROUP_WAIT },
	{ NULL, 0 },
};
static const struct snap_choice runtimes[] = {
	{ "go", SNAP_RUNTIME_GO },          { "cpython", SNAP_RUNTIME_CPYTHON },
	{ "python", SNAP_RUNTIME_CPYTHON }, { "php", SNAP_RUNTIME_PHP },
	{ "java", SNAP_RUNTIME_JAVA },      { "auto", RUNTIMES_AUTO },
	{ "none", RUNTIMES_NONE },          { NULL, 0 },
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
/* The library knows no terminal: who has one decides what "auto" means, before calling. */
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
	{ "pid", "PID", set_pid, 0, 0, NULL },
	{ "name", "REGEX", set_name, 0, 0, NULL },
	{ "unit", "UNIT", set_target, 0, SNAP_TARGET_UNIT, NULL },
	{ "cgroup", "PATH", set_target, 0, SNAP_TARGET_CGROUP, NULL },
	{ "container", "ID", set_target, 0, SNAP_TARGET_CONTAINER, NULL },
	{ "all", NULL, set_target, 0, SNAP_TARGET_ALL, NULL },
	{ "no-stop", NULL, set_flag, FIELD(no_stop), true, NULL },
	{ "no-sandbox", NULL, set_flag, FIELD(no_sandbox), true, NULL },
	{ "no-children", NULL, set_flag, FIELD(children), false, NULL },
	{ "flat", NULL, set_flag, FIELD(flat), true, NULL },
	{ "no-system", NULL, set_flag, FIELD(no_system), true, NULL },
	{ "no-idle", NULL, set_flag, FIELD(no_idle), true, NULL },
	{ "state", "LIST", set_list, FIELD(states), 0, states },
	{ "thread", "REGEX", set_regex, FIELD(thread_regex), 0, NULL },
	{ "match", "REGEX", set_regex, FIELD(match_regex), 0, NULL },
	{ "group-by", "LIST", set_group_by, FIELD(group_by), 0, groups },
	{ "task-tree", "KEYS", set_task_tree, 0, 0, NULL },
	{ "threads", NULL, set_flag, FIELD(all_threads), true, NULL },
	{ "system-tasks", NULL, set_flag, FIELD(system_tasks), true, NULL },
	{ "native", NULL, set_flag, FIELD(native), true, NULL },
	{ "summary", NULL, set_flag, FIELD(summary), true, NULL },
	{ "per-thread", NULL, set_per_thread, 0, 0, NULL },
	{ "explain", NULL, set_value, FIELD(explain), SNAP_EXPLAIN_ALL, NULL },
	{ "deadlocks", NULL, set_flag, FIELD(deadlocks_only), true, NULL },
	{ "no-explain", NULL, set_value, FIELD(explain), SNAP_EXPLAIN_NO, NULL },
	{ "kernel", NULL, set_flag, FIELD(kernel_stacks), true, NULL },
	{ "runtimes", "LIST", set_runtimes, FIELD(runtimes), 0, runtimes },
	{ "runtime-budget", "MS", set_milliseconds, FIELD(runtime_budget_ns), 60000, NULL },
	{ "runtime-memory", "BYTES", set_runtime_memory, 0, 0, NULL },
	{ "max-frames", "COUNT", set_max_frames, 0, 0, NULL },
	{ "module", NULL, set_flag, FIELD(show_module), true, NULL },
	{ "build-id", NULL, set_flag, FIELD(show_build_id), true, NULL },
	{ "raw", NULL, set_flag, FIELD(raw_names), true, NULL },
	{ "quiet", NULL, set_flag, FIELD(symbols), false, NULL },
	{ "no-inlines", NULL, set_flag, FIELD(inlines), false, NULL },
	{ "no-lines", NULL, set_flag, FIELD(lines), false, NULL },
	{ "max-stack", "BYTES", set_max_stack, 0, 0, NULL },
	{ "max-memory", "BYTES", set_max_memory, 0, 0, NULL },
	{ "max-stopped", "PERCENT", set_max_stopped, 0, 0, NULL },
	{ "stop-timeout", "MS", set_milliseconds, FIELD(stop_timeout_ns), 3600000, NULL },
	{ "timeout", "MS", set_milliseconds, FIELD(timeout_ns), 86400000, NULL },
	{ "engine", "ENGINE", set_choice, FIELD(engine), 0, engines },
	{ "debug-dir", "DIR", set_debug_dir, 0, 0, NULL },
	{ "debuginfod", NULL, set_flag, FIELD(debuginfod), true, NULL },
	{ "perf-map", "WHEN", set_choice, FIELD(perf_map), 0, perf_maps },
	{ "color", "WHEN", set_either, FIELD(color), 0, colors },
	{ "charset", "NAME", set_either, FIELD(utf8), 0, charsets },
	{ "full-names", NULL, set_flag, FIELD(full_names), true, NULL },
	{ "width", "COLUMNS", set_width, 0, 0, NULL },
	{ "verbose", NULL, set_verbose, 0, 0, NULL },
	{ "hz", "RATE", set_hz, 0, 0, NULL },
	{ "rate", "RATE", set_hz, 0, 0, NULL },
	{ "task-hz", "RATE", set_task_hz, 0, 0, NULL },
	{ "duration", "TIME", set_duration, FIELD(record_ns), true, NULL },
	{ "ring", "TIME", set_duration, FIELD(ring_ns), false, NULL },
	{ "until", "CONDITION", set_until, 0, 0, NULL },
	{ "mode", "MODE", set_either, FIELD(cpu_only), 0, modes },
	{ "from", "TIME", set_moment, FIELD(from), 0, NULL },
	{ "to", "TIME", set_moment, FIELD(to), 0, NULL },
	{ "state-frames", "WHERE", set_choice, FIELD(state_frames), 0, state_frames },
	{ "watch", "LIST", set_watch, 0, 0, NULL },
	{ "every", "TIME", set_duration, FIELD(every_ns), false, NULL },
	{ "once", NULL, set_flag, FIELD(watch_once), true, NULL },
	{ "interval", "TIME", set_duration, FIELD(interval_ns), false, NULL },
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
