/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The options of recordings: rate, length, ring, condition, and the slice that is shown of one. The
 * second table of options.c. Knows nothing of how values are written (parse_time.c, parse_until.c).
 */
#include "api/options_internal.h"
#include "api/parse.h"

#include <string.h>

enum { MIN_HZ = 1, MAX_HZ = 10000 };

#define FIELD(name) offsetof(struct snap_options, name)

static struct snap_error *set_hz(struct snap_options *options,
				 const struct snap_setting *setting _unused_, const char *value)
{
	uint64_t number;

	if (!snap_parse_number(value, strlen(value), MIN_HZ, MAX_HZ, &number))
		return snap_parse_number_error(value, "rate in samples per second", MIN_HZ, MAX_HZ);
	options->hz = (unsigned)number;
	return NULL;
}

/* Into the int64_t nanoseconds at setting->offset; setting->value: 0 is a duration, too. */
static struct snap_error *set_duration(struct snap_options *options,
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

static struct snap_error *set_mode(struct snap_options *options,
				   const struct snap_setting *setting _unused_, const char *value)
{
	static const struct snap_choice choices[] = { { "wall", false }, { "cpu", true } };
	unsigned cpu_only = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &cpu_only);
	if (!err)
		options->cpu_only = cpu_only;
	return err;
}

static struct snap_error *set_until(struct snap_options *options,
				    const struct snap_setting *setting _unused_, const char *value)
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

/* Into the struct snap_moment at setting->offset. */
static struct snap_error *set_moment(struct snap_options *options,
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

static struct snap_error *set_state_frames(struct snap_options *options,
					   const struct snap_setting *setting _unused_,
					   const char *value)
{
	static const struct snap_choice choices[] = { { "root", SNAP_STATE_FRAMES_ROOT },
						      { "leaf", SNAP_STATE_FRAMES_LEAF },
						      { "no", SNAP_STATE_FRAMES_NO } };
	unsigned where = 0;
	struct snap_error *err;

	err = snap_parse_choice(choices, SNAP_ARRAY_SIZE(choices), value, &where);
	if (!err)
		options->state_frames = where;
	return err;
}

const struct snap_setting snap_record_settings[] = {
	{ "hz", "RATE", set_hz, 0, 0 },
	{ "rate", "RATE", set_hz, 0, 0 },
	{ "duration", "TIME", set_duration, FIELD(record_ns), true },
	{ "ring", "TIME", set_duration, FIELD(ring_ns), false },
	{ "until", "CONDITION", set_until, 0, 0 },
	{ "mode", "MODE", set_mode, 0, 0 },
	{ "from", "TIME", set_moment, FIELD(from), 0 },
	{ "to", "TIME", set_moment, FIELD(to), 0 },
	{ "state-frames", "WHERE", set_state_frames, 0, 0 },
	{ "interval", "TIME", set_duration, FIELD(interval_ns), false },
	{ NULL, NULL, NULL, 0, 0 },
};
