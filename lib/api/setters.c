/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See setters.h. */
#include "api/setters.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "model/wait/alert.h"

#include <limits.h>
#include <string.h>

enum {
	MIN_HZ = 1,
	LEAST_STOPPED = 1000, /* millionths */
	MAX_HZ = 10000,
};

static const uint64_t MAX_STACK = 1ull << 30;
static const uint64_t LEAST_RUNTIME_MEMORY = 1 << 16, MAX_RUNTIME_MEMORY = 1ull << 31;
static const uint64_t LEAST_MEMORY = 16ull << 20, MAX_MEMORY = 64ull << 30;

static struct stacksnap_error *add_target(struct snap_options *options, struct snap_target target)
{
	return snap_no_memory_unless(snap_append(options->targets, options->target_count,
						 options->target_capacity, target));
}

struct stacksnap_error *snap_set_pid(struct snap_options *options,
				     const struct snap_setting *setting _unused_, const char *value)
{
	const char *cursor = value, *item;
	size_t length;
	uint64_t pid;

	while ((item = snap_parse_item(&cursor, &length))) {
		struct snap_target target = { .kind = SNAP_TARGET_PID };

		if (!snap_parse_number(item, length, 1, INT_MAX, &pid))
			return snap_error_format(SNAP_ERROR_INVALID,
						 "'%.*s' is not a process id (expected a number or "
						 "a comma-separated list)",
						 (int)length, item);
		target.pid = (pid_t)pid;
		if (snap_options_has_pid(options, target.pid))
			continue;
		SNAP_TRY(add_target(options, target));
	}
	return NULL;
}

struct stacksnap_error *snap_set_name(struct snap_options *options,
				      const struct snap_setting *setting _unused_,
				      const char *value)
{
	struct snap_target target = { .kind = SNAP_TARGET_NAME };
	struct stacksnap_error *err = NULL;

	target.text = snap_arena_strdup(&options->arena, value);
	SNAP_TRY(snap_no_memory_unless(target.text));
	SNAP_TRY(snap_parse_regex(value, &target.regex));
	err = add_target(options, target);
	if (err)
		snap_regex_destroy(target.regex);
	return err;
}

/* --unit, --cgroup, --container, --all: a target of kind setting->value and its text. */
struct stacksnap_error *snap_set_target(struct snap_options *options,
					const struct snap_setting *setting, const char *value)
{
	struct snap_target target = { .kind = setting->value };

	if (value) {
		target.text = snap_arena_strdup(&options->arena, value);
		SNAP_TRY(snap_no_memory_unless(target.text));
	}
	return add_target(options, target);
}

struct stacksnap_error *snap_set_flag(struct snap_options *options,
				      const struct snap_setting *setting,
				      const char *value _unused_)
{
	*(bool *)((char *)options + setting->offset) = setting->value;
	return NULL;
}

struct stacksnap_error *snap_set_regex(struct snap_options *options,
				       const struct snap_setting *setting, const char *value)
{
	regex_t **field = (regex_t **)((char *)options + setting->offset);
	regex_t *regex = NULL;

	SNAP_TRY(snap_parse_regex(value, &regex));
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
struct stacksnap_error *snap_set_value(struct snap_options *options,
				       const struct snap_setting *setting,
				       const char *value _unused_)
{
	*(unsigned *)((char *)options + setting->offset) = setting->value;
	return NULL;
}

/* A list of setting->choices, whose values are bits, into the unsigned at setting->offset. */
struct stacksnap_error *snap_set_list(struct snap_options *options,
				      const struct snap_setting *setting, const char *value)
{
	const char *cursor = value, *item;
	unsigned bits = 0;
	size_t length;

	while ((item = snap_parse_item(&cursor, &length))) {
		unsigned bit = 0;

		SNAP_TRY(snap_parse_choice(setting->choices, item, length, &bit));
		bits |= bit;
	}
	*(unsigned *)((char *)options + setting->offset) = bits;
	return NULL;
}

/* "auto" and "none" stand alone; naming runtimes explicitly searches every process for them. */
struct stacksnap_error *snap_set_runtimes(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	unsigned before = options->runtimes, words = SNAP_RUNTIMES_AUTO | SNAP_RUNTIMES_NONE;
	struct stacksnap_error *err = snap_set_list(options, setting, value);

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
			options->runtimes == SNAP_RUNTIMES_AUTO ? (unsigned)SNAP_RUNTIME_ALL : 0;
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

	return snap_no_memory_unless(copy &&
				     snap_append(options->group_labels, options->group_label_count,
						 options->group_label_capacity, copy));
}

/* A tree is made of whole stacks, and not of what threads of a group have in common. */
static void keep_stacks_apart(struct snap_options *options)
{
	if (options->call_tree)
		options->group_by |= SNAP_GROUP_STACK;
}

/* As snap_set_list(), and labels of tasks. */
struct stacksnap_error *snap_set_group_by(struct snap_options *options,
					  const struct snap_setting *setting, const char *value)
{
	unsigned bits = options->group_by & SNAP_GROUP_TID; /* --per-thread given before */
	const char *cursor = value, *item;
	size_t length;

	options->group_label_count = 0;
	while ((item = snap_parse_item(&cursor, &length))) {
		const char *key = label_key(item, &length);
		unsigned bit = 0;

		SNAP_TRY(key ? add_group_label(options, key, length)
			     : snap_parse_choice(setting->choices, item, length, &bit));
		bits |= bit;
	}
	options->together = !(bits & SNAP_GROUP_PROCESS);
	options->group_by = bits & ~(unsigned)SNAP_GROUP_PROCESS;
	keep_stacks_apart(options);
	decide_wchan(options);
	return NULL;
}

struct stacksnap_error *snap_set_call_tree(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value _unused_)
{
	options->call_tree = true;
	keep_stacks_apart(options);
	return NULL;
}

struct stacksnap_error *snap_set_per_thread(struct snap_options *options,
					    const struct snap_setting *setting _unused_,
					    const char *value _unused_)
{
	options->group_by |= SNAP_GROUP_TID;
	return NULL;
}

void snap_set_default_tree_keys(struct snap_options *options)
{
	static const char *const keys[SNAP_TREE_KEYS] = { "pid", "ppid", "process-description",
							  "process-type" };

	memcpy(options->task_tree, keys, sizeof(keys));
}

/* As many keys as there are, in the order of enum snap_tree_key. */
struct stacksnap_error *snap_set_task_tree(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value)
{
	const char *keys[SNAP_TREE_KEYS] = { NULL }, *cursor = value, *item;
	size_t count = 0, length;

	options->await_tree = strcmp(value, "auto") == 0;
	if (options->await_tree) {
		snap_set_default_tree_keys(options);
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
		SNAP_TRY(snap_no_memory_unless(keys[count++]));
	}
	memcpy(options->task_tree, keys, sizeof(keys));
	return NULL;
}

struct stacksnap_error *snap_set_verbose(struct snap_options *options,
					 const struct snap_setting *setting _unused_,
					 const char *value _unused_)
{
	options->verbose++;
	decide_wchan(options);
	return NULL;
}

struct stacksnap_error *snap_set_max_frames(struct snap_options *options,
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

struct stacksnap_error *snap_set_max_stack(struct snap_options *options,
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

struct stacksnap_error *snap_set_runtime_memory(struct snap_options *options,
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

struct stacksnap_error *snap_set_max_memory(struct snap_options *options,
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

/* Milliseconds, or with a unit, into the int64_t nanoseconds at setting->offset; at most setting->value. */
struct stacksnap_error *snap_set_milliseconds(struct snap_options *options,
					      const struct snap_setting *setting, const char *value)
{
	bool has_unit = value[strspn(value, "0123456789.")] != '\0';
	int64_t ns = 0;
	uint64_t number;

	if (has_unit && !snap_parse_duration(value, strlen(value), &ns))
		ns = 0;
	if (!has_unit && snap_parse_number(value, strlen(value), 1, setting->value, &number))
		ns = (int64_t)number * SNAP_NS_PER_MS;
	if (ns < SNAP_NS_PER_MS || ns / SNAP_NS_PER_MS > setting->value)
		return snap_error_format(SNAP_ERROR_INVALID,
					 "'%s' is not a number of milliseconds from 1 to %u "
					 "(expected such as 500, 500ms or 5s)",
					 value, setting->value);
	*(int64_t *)((char *)options + setting->offset) = ns;
	if (setting->offset == offsetof(struct snap_options, timeout_ns))
		options->timeout_given = true;
	if (!options->timeout_given)
		options->timeout_ns =
			options->stop_timeout_ns + SNAP_TIMEOUT_EXTRA_MS * SNAP_NS_PER_MS;
	return NULL;
}

/* One of setting->choices into the enum at setting->offset. */
struct stacksnap_error *snap_set_choice(struct snap_options *options,
					const struct snap_setting *setting, const char *value)
{
	return snap_parse_choice(setting->choices, value, strlen(value),
				 (unsigned *)((char *)options + setting->offset));
}

/* The same into a bool. */
struct stacksnap_error *snap_set_either(struct snap_options *options,
					const struct snap_setting *setting, const char *value)
{
	unsigned choice = 0;

	SNAP_TRY(snap_parse_choice(setting->choices, value, strlen(value), &choice));
	*(bool *)((char *)options + setting->offset) = choice;
	return NULL;
}

/* Into the unsigned at setting->offset; at most setting->value. */
struct stacksnap_error *snap_set_number(struct snap_options *options,
					const struct snap_setting *setting, const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), 0, setting->value, &number))
		return snap_parse_number_error(value, "number", 0, setting->value);
	*(unsigned *)((char *)options + setting->offset) = (unsigned)number;
	return NULL;
}

struct stacksnap_error *snap_set_debug_dir(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value)
{
	const char *copy = snap_arena_strdup(&options->arena, value);

	return snap_no_memory_unless(copy &&
				     snap_append(options->debug_dirs, options->debug_dir_count,
						 options->debug_dir_capacity, copy));
}

struct stacksnap_error *snap_set_exe(struct snap_options *options,
				     const struct snap_setting *setting _unused_, const char *value)
{
	options->exe = snap_arena_strdup(&options->arena, value);
	return options->exe ? NULL : snap_error_no_memory();
}

struct stacksnap_error *snap_set_hz(struct snap_options *options,
				    const struct snap_setting *setting _unused_, const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), MIN_HZ, MAX_HZ, &number))
		return snap_parse_number_error(value, "rate in samples per second", MIN_HZ, MAX_HZ);
	options->hz = (unsigned)number;
	return NULL;
}

/* Ten thousandths of a percent are millionths: here thousandths of a look. */
struct stacksnap_error *snap_set_task_hz(struct snap_options *options,
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

struct stacksnap_error *snap_set_max_stopped(struct snap_options *options,
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
struct stacksnap_error *snap_set_duration(struct snap_options *options,
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

struct stacksnap_error *snap_set_until(struct snap_options *options,
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
	SNAP_TRY(snap_no_memory_unless(until.text));
	options->until = until;
	return NULL;
}

struct stacksnap_error *snap_set_watch(struct snap_options *options,
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
struct stacksnap_error *snap_set_moment(struct snap_options *options,
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
