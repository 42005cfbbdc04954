/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Options by name: one table from a long option's name to the function that parses its text.
 *
 * To add an option: a field in model/options.h, a line in the table here (or in the one of
 * options_record.c, if it is about recordings), a line in the table of cli/options.c (which also
 * makes --help and the completions), the man page.
 */
#include "api/options.h"
#include "base/buffer.h"

#include "api/options_internal.h"
#include "api/parse.h"
#include "model/snapshot.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

enum {
	MAX_TEXT = 4096, /* bytes of a value: a path, a list */
	MAX_WIDTH = 10000,
};

static const int64_t NS_PER_MS = 1000000;
static const int64_t DEFAULT_TIMEOUT_EXTRA_NS = 10000000000; /* over the stop timeout */
static const uint64_t MAX_STACK = 1ull << 30;

void snap_options_init(struct snap_options *options)
{
	*options = (struct snap_options){
		.children = true,
		.max_stack = 1 << 20,
		.max_snapshot = 128u << 20,
		.stop_timeout_ns = 1000 * NS_PER_MS,
		.timeout_ns = 1000 * NS_PER_MS + DEFAULT_TIMEOUT_EXTRA_NS,
		.hz = 99,
		.record_ns = 30000 * NS_PER_MS,
		.max_frames = 512,
		.symbols = true,
		.inlines = true,
		.lines = true,
		.group_by = SNAP_GROUP_STACK | SNAP_GROUP_STATE,
	};
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
	snap_arena_deinit(&options->arena);
	*options = (struct snap_options){ 0 };
}

static struct snap_error *add_target(struct snap_options *options, struct snap_target target)
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

static struct snap_error *set_pid(struct snap_options *options,
				  const struct snap_setting *setting _unused_, const char *value)
{
	const char *cursor = value, *item;
	size_t length;
	uint64_t pid;

	while ((item = snap_parse_item(&cursor, &length))) {
		struct snap_target target = { .kind = SNAP_TARGET_PID };
		struct snap_error *err;

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

static struct snap_error *set_name(struct snap_options *options,
				   const struct snap_setting *setting _unused_, const char *value)
{
	struct snap_target target = { .kind = SNAP_TARGET_NAME };
	struct snap_error *err;

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
static struct snap_error *set_target(struct snap_options *options,
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

static struct snap_error *set_flag(struct snap_options *options, const struct snap_setting *setting,
				   const char *value _unused_)
{
	*(bool *)((char *)options + setting->offset) = setting->value;
	return NULL;
}

static struct snap_error *set_regex(struct snap_options *options,
				    const struct snap_setting *setting, const char *value)
{
	regex_t **field = (regex_t **)((char *)options + setting->offset);
	regex_t *regex = NULL;
	struct snap_error *err;

	err = snap_parse_regex(value, &regex);
	if (err)
		return err;
	snap_regex_destroy(*field);
	*field = regex;
	return NULL;
}

static struct snap_error *set_states(struct snap_options *options,
				     const struct snap_setting *setting _unused_, const char *value)
{
	const char *cursor = value, *item;
	unsigned states = 0;
	size_t length;

	while ((item = snap_parse_item(&cursor, &length))) {
		char word[16];
		enum snap_state state = SNAP_STATE_COUNT;

		if (length < sizeof(word)) {
			memcpy(word, item, length);
			word[length] = '\0';
			state = snap_state_of_word(word);
		}
		if (state == SNAP_STATE_COUNT)
			return snap_error_format(
				SNAP_ERROR_INVALID,
				"'%.*s' is not a thread state (expected a comma-separated list of "
				"running, sleeping, disk, stopped, traced, zombie, dead, idle, "
				"parked, unknown)",
				(int)length, item);
		states |= 1u << state;
	}
	options->states = states;
	return NULL;
}

/* wchan is a read of its own per thread: only on request. */
static void decide_wchan(struct snap_options *options)
{
	options->wchan = options->verbose > 0 || (options->group_by & SNAP_GROUP_WCHAN);
}

static struct snap_error *set_group_by(struct snap_options *options,
				       const struct snap_setting *setting _unused_,
				       const char *value)
{
	static const struct {
		const char *word;
		unsigned bit;
	} words[] = {
		{ "stack", SNAP_GROUP_STACK },     { "state", SNAP_GROUP_STATE },
		{ "name", SNAP_GROUP_NAME },       { "thread_name", SNAP_GROUP_NAME },
		{ "syscall", SNAP_GROUP_SYSCALL }, { "wchan", SNAP_GROUP_WCHAN },
		{ "cpu", SNAP_GROUP_CPU },         { "type", SNAP_GROUP_TYPE },
		{ "tid", SNAP_GROUP_TID },
	};
	const char *cursor = value, *item;
	unsigned bits = options->group_by & SNAP_GROUP_TID; /* --per-thread given before */
	size_t length;

	while ((item = snap_parse_item(&cursor, &length))) {
		size_t i = 0;

		while (i < SNAP_ARRAY_SIZE(words) && (strlen(words[i].word) != length ||
						      memcmp(words[i].word, item, length) != 0))
			i++;
		if (i == SNAP_ARRAY_SIZE(words))
			return snap_error_format(
				SNAP_ERROR_INVALID,
				"'%.*s' is not a grouping key (expected a comma-separated list of "
				"stack, state, name, syscall, wchan, cpu, type, tid)",
				(int)length, item);
		bits |= words[i].bit;
	}
	options->group_by = bits;
	decide_wchan(options);
	return NULL;
}

static struct snap_error *set_per_thread(struct snap_options *options,
					 const struct snap_setting *setting _unused_,
					 const char *value _unused_)
{
	options->group_by |= SNAP_GROUP_TID;
	return NULL;
}

static struct snap_error *set_verbose(struct snap_options *options,
				      const struct snap_setting *setting _unused_,
				      const char *value _unused_)
{
	options->verbose++;
	decide_wchan(options);
	return NULL;
}

static struct snap_error *set_max_frames(struct snap_options *options,
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

static struct snap_error *set_max_stack(struct snap_options *options,
					const struct snap_setting *setting _unused_,
					const char *value)
{
	static const char suffixes[] = "kMG";
	size_t length = strlen(value);
	const char *suffix = length ? strchr(suffixes, value[length - 1]) : NULL;
	unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
	uint64_t number;

	if (!snap_parse_number(value, length - (suffix != NULL), 1, MAX_STACK >> shift, &number) ||
	    number << shift < 1024)
		return snap_error_format(SNAP_ERROR_INVALID,
					 "'%s' is not a stack size (expected bytes from 1024 to "
					 "1G, such as 65536, 512k or 4M)",
					 value);
	options->max_stack = number << shift;
	if (options->max_snapshot < options->max_stack)
		options->max_snapshot = options->max_stack;
	return NULL;
}

/* Milliseconds into the int64_t nanoseconds at setting->offset; at most setting->value. */
static struct snap_error *set_milliseconds(struct snap_options *options,
					   const struct snap_setting *setting, const char *value)
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

static struct snap_error *set_engine(struct snap_options *options,
				     const struct snap_setting *setting _unused_, const char *value)
{
	static const struct snap_choice choices[] = { { "auto", SNAP_ENGINE_AUTO },
						      { "libunwind", SNAP_ENGINE_LIBUNWIND },
						      { "ptrace", SNAP_ENGINE_PTRACE } };
	unsigned engine = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &engine);
	if (!err)
		options->engine = engine;
	return err;
}

static struct snap_error *set_perf_map(struct snap_options *options,
				       const struct snap_setting *setting _unused_,
				       const char *value)
{
	static const struct snap_choice choices[] = { { "auto", SNAP_PERF_MAP_AUTO },
						      { "always", SNAP_PERF_MAP_ALWAYS },
						      { "never", SNAP_PERF_MAP_NEVER } };
	unsigned perf_map = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &perf_map);
	if (!err)
		options->perf_map = perf_map;
	return err;
}

/* The library knows no terminal: who has one decides what "auto" means, before calling. */
static struct snap_error *set_color(struct snap_options *options,
				    const struct snap_setting *setting _unused_, const char *value)
{
	static const struct snap_choice choices[] = { { "auto", false },
						      { "always", true },
						      { "never", false } };
	unsigned color = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &color);
	if (!err)
		options->color = color;
	return err;
}

static struct snap_error *set_charset(struct snap_options *options,
				      const struct snap_setting *setting _unused_,
				      const char *value)
{
	static const struct snap_choice choices[] = { { "ascii", false }, { "utf-8", true } };
	unsigned utf8 = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &utf8);
	if (!err)
		options->utf8 = utf8;
	return err;
}

static struct snap_error *set_width(struct snap_options *options,
				    const struct snap_setting *setting _unused_, const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), 0, MAX_WIDTH, &number))
		return snap_parse_number_error(value, "number of columns", 0, MAX_WIDTH);
	options->width = (unsigned)number;
	return NULL;
}

static struct snap_error *set_debug_dir(struct snap_options *options,
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

#define FIELD(name) offsetof(struct snap_options, name)

static const struct snap_setting settings[] = {
	{ "pid", "PID", set_pid, 0, 0 },
	{ "name", "REGEX", set_name, 0, 0 },
	{ "unit", "UNIT", set_target, 0, SNAP_TARGET_UNIT },
	{ "cgroup", "PATH", set_target, 0, SNAP_TARGET_CGROUP },
	{ "container", "ID", set_target, 0, SNAP_TARGET_CONTAINER },
	{ "all", NULL, set_target, 0, SNAP_TARGET_ALL },
	{ "no-stop", NULL, set_flag, FIELD(no_stop), true },
	{ "no-sandbox", NULL, set_flag, FIELD(no_sandbox), true },
	{ "no-children", NULL, set_flag, FIELD(children), false },
	{ "flat", NULL, set_flag, FIELD(flat), true },
	{ "no-system", NULL, set_flag, FIELD(no_system), true },
	{ "no-idle", NULL, set_flag, FIELD(no_idle), true },
	{ "state", "LIST", set_states, 0, 0 },
	{ "thread", "REGEX", set_regex, FIELD(thread_regex), 0 },
	{ "match", "REGEX", set_regex, FIELD(match_regex), 0 },
	{ "group-by", "LIST", set_group_by, 0, 0 },
	{ "summary", NULL, set_flag, FIELD(summary), true },
	{ "per-thread", NULL, set_per_thread, 0, 0 },
	{ "kernel", NULL, set_flag, FIELD(kernel_stacks), true },
	{ "max-frames", "COUNT", set_max_frames, 0, 0 },
	{ "module", NULL, set_flag, FIELD(show_module), true },
	{ "build-id", NULL, set_flag, FIELD(show_build_id), true },
	{ "raw", NULL, set_flag, FIELD(raw_names), true },
	{ "quiet", NULL, set_flag, FIELD(symbols), false },
	{ "no-inlines", NULL, set_flag, FIELD(inlines), false },
	{ "no-lines", NULL, set_flag, FIELD(lines), false },
	{ "max-stack", "BYTES", set_max_stack, 0, 0 },
	{ "stop-timeout", "MS", set_milliseconds, FIELD(stop_timeout_ns), 3600000 },
	{ "timeout", "MS", set_milliseconds, FIELD(timeout_ns), 86400000 },
	{ "engine", "ENGINE", set_engine, 0, 0 },
	{ "debug-dir", "DIR", set_debug_dir, 0, 0 },
	{ "debuginfod", NULL, set_flag, FIELD(debuginfod), true },
	{ "perf-map", "WHEN", set_perf_map, 0, 0 },
	{ "color", "WHEN", set_color, 0, 0 },
	{ "charset", "NAME", set_charset, 0, 0 },
	{ "full-names", NULL, set_flag, FIELD(full_names), true },
	{ "width", "COLUMNS", set_width, 0, 0 },
	{ "verbose", NULL, set_verbose, 0, 0 },
	{ NULL, NULL, NULL, 0, 0 },
};

static const struct snap_setting *find_setting(const struct snap_setting *table, const char *name)
{
	while (table->name && strcmp(table->name, name) != 0)
		table++;
	return table->name ? table : NULL;
}

struct snap_error *snap_options_set(struct snap_options *options, const char *name,
				    const char *value)
{
	const struct snap_setting *setting = find_setting(settings, name);
	struct snap_error *err;

	if (!setting)
		setting = find_setting(snap_record_settings, name);
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
