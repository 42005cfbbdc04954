/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A reader of profile.proto for the tests: small, strict, with room for small profiles only. What
 * is wrong with a profile comes back as a text.
 */
#pragma once

#include "base/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { READ_MAX = 2048, READ_LABELS = 16, READ_LINES = 8, READ_STACK = 512 };

struct read_label {
	uint64_t key, text, number, unit;
};

struct read_sample {
	uint64_t locations[READ_STACK], values[4];
	size_t location_count, value_count, label_count;
	struct read_label labels[READ_LABELS];
};

/* fields[n] is field n; of the last one, if it came twice. */
struct read_row {
	uint64_t fields[16];
	struct {
		uint64_t fields[4];
	} lines[READ_LINES];
	size_t line_count;
};

struct read_profile {
	char *strings[READ_MAX];
	struct read_row types[4], period_type, mappings[READ_MAX], locations[READ_MAX],
		functions[READ_MAX], facts;
	struct read_sample samples[READ_MAX];
	size_t string_count, type_count, mapping_count, location_count, function_count,
		sample_count;
};

struct read_cursor {
	const unsigned char *at, *end;
	bool bad;
};

static inline void read_free(struct read_profile **profile)
{
	for (size_t i = 0; *profile && i < (*profile)->string_count; i++)
		free((*profile)->strings[i]);
	free(*profile);
}

static inline uint64_t read_varint(struct read_cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0; cursor->at < cursor->end && shift < 64; shift += 7) {
		value |= (uint64_t)(*cursor->at & 0x7f) << shift;
		if (!(*cursor->at++ & 0x80))
			return value;
	}
	cursor->bad = true;
	return 0;
}

/* The next field: its number, and either a value or the bytes of it. 0 at the end. */
static inline unsigned read_field(struct read_cursor *cursor, uint64_t *value_ret,
				  struct read_cursor *inside_ret)
{
	uint64_t tag, size;

	*value_ret = 0;
	*inside_ret = (struct read_cursor){ 0 };
	if (cursor->bad || cursor->at == cursor->end)
		return 0;
	tag = read_varint(cursor);
	if ((tag & 7) == 0) {
		*value_ret = read_varint(cursor);
	} else if ((tag & 7) == 2) {
		size = read_varint(cursor);
		if (size > (size_t)(cursor->end - cursor->at)) {
			cursor->bad = true;
			return 0;
		}
		*inside_ret = (struct read_cursor){ cursor->at, cursor->at + size, false };
		cursor->at += size;
	} else {
		cursor->bad = true;
	}
	if (tag >> 3 == 0 || tag >> 3 >= 16)
		cursor->bad = true;
	return cursor->bad ? 0 : (unsigned)(tag >> 3);
}

static inline bool read_row(struct read_cursor cursor, struct read_row *row)
{
	struct read_cursor inside, line;
	uint64_t value;
	unsigned field, k;

	while ((field = read_field(&cursor, &value, &inside))) {
		row->fields[field] = value;
		if (!inside.at)
			continue;
		if (row->line_count == READ_LINES)
			return false;
		while ((k = read_field(&inside, &value, &line)))
			if (k < 4)
				row->lines[row->line_count].fields[k] = value;
		row->line_count++;
		if (inside.bad)
			return false;
	}
	return !cursor.bad;
}

static inline size_t read_packed(struct read_cursor cursor, uint64_t *values, size_t room)
{
	size_t count = 0;

	while (!cursor.bad && cursor.at < cursor.end && count < room)
		values[count++] = read_varint(&cursor);
	return cursor.bad || cursor.at < cursor.end ? SIZE_MAX : count;
}

static inline bool read_sample(struct read_cursor cursor, struct read_sample *sample)
{
	struct read_cursor inside;
	struct read_row label;
	uint64_t value;
	unsigned field;

	while ((field = read_field(&cursor, &value, &inside))) {
		if (field == 1) {
			sample->location_count = read_packed(inside, sample->locations, READ_STACK);
		} else if (field == 2) {
			sample->value_count = read_packed(inside, sample->values, 4);
		} else if (field == 3 && sample->label_count < READ_LABELS) {
			label = (struct read_row){ 0 };
			if (!read_row(inside, &label))
				return false;
			sample->labels[sample->label_count++] =
				(struct read_label){ label.fields[1], label.fields[2],
						     label.fields[3], label.fields[4] };
		} else {
			return false;
		}
	}
	return !cursor.bad && sample->location_count != SIZE_MAX && sample->value_count != SIZE_MAX;
}

static inline bool read_one(struct read_profile *profile, unsigned field, uint64_t value,
			    struct read_cursor inside)
{
	size_t size = (size_t)(inside.end - inside.at);

	if (profile->string_count == READ_MAX || profile->sample_count == READ_MAX ||
	    profile->location_count == READ_MAX || profile->function_count == READ_MAX ||
	    profile->mapping_count == READ_MAX)
		return false;
	switch (field) {
	case 1:
		return profile->type_count < 4 &&
		       read_row(inside, &profile->types[profile->type_count++]);
	case 2:
		return read_sample(inside, &profile->samples[profile->sample_count++]);
	case 3:
		return read_row(inside, &profile->mappings[profile->mapping_count++]);
	case 4:
		return read_row(inside, &profile->locations[profile->location_count++]);
	case 5:
		return read_row(inside, &profile->functions[profile->function_count++]);
	case 6:
		profile->strings[profile->string_count++] =
			strndup(size ? (const char *)inside.at : "", size);
		return strlen(profile->strings[profile->string_count - 1]) == size;
	case 11:
		return read_row(inside, &profile->period_type);
	case 13:
		return read_packed(inside, &profile->facts.fields[13], 1) == 1;
	default:
		profile->facts.fields[field] = value;
		return !inside.at;
	}
}

/* ---- what must hold ---- */

static inline const struct read_row *read_by_id(const struct read_row *rows, size_t count,
						uint64_t id)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].fields[1] == id)
			return &rows[i];
	return NULL;
}

/* From 1 on without a hole, which is more than pprof wants, but not than all readers do. */
static inline const char *check_ids(const struct read_row *rows, size_t count, const char *wrong)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].fields[1] != i + 1)
			return wrong;
	return NULL;
}

/* Escaped: clean but for the backslashes of escaping. */
static inline bool is_escaped(const char *text)
{
	char *copy = strdup(text);
	bool clean;

	for (char *at = copy; *at; at++)
		*at = *at == '\\' ? '/' : *at;
	clean = snap_escape_is_clean(copy, strlen(copy), 0);
	free(copy);
	return clean;
}

static inline const char *check_strings(const struct read_profile *profile)
{
	if (profile->string_count == 0 || profile->strings[0][0])
		return "the first string is not empty";
	for (size_t i = 0; i < profile->string_count; i++) {
		if (!is_escaped(profile->strings[i]))
			return "a string is not escaped";
		for (size_t k = 0; k < i; k++)
			if (strcmp(profile->strings[i], profile->strings[k]) == 0)
				return "a string stands twice";
	}
	for (size_t i = 0; i < profile->function_count; i++)
		for (int k = 2; k <= 4; k++)
			if (profile->functions[i].fields[k] >= profile->string_count)
				return "a function without a string";
	for (size_t i = 0; i < profile->mapping_count; i++)
		for (int k = 5; k <= 6; k++)
			if (profile->mappings[i].fields[k] >= profile->string_count)
				return "a mapping without a string";
	return NULL;
}

/* What the flags of a mapping must be by the locations in it. */
static inline const char *check_flags(const struct read_profile *profile,
				      const struct read_row *mapping)
{
	uint64_t has[4] = { 0 };

	for (size_t i = 0; i < profile->location_count; i++) {
		const struct read_row *location = &profile->locations[i];

		if (location->fields[2] != mapping->fields[1])
			continue;
		if (mapping->fields[3] && (location->fields[3] < mapping->fields[2] ||
					   location->fields[3] >= mapping->fields[3]))
			return "a location outside of its mapping";
		has[0] |= location->line_count > 0;
		has[3] |= location->line_count > 1;
		for (size_t k = 0; k < location->line_count; k++) {
			const struct read_row *function =
				read_by_id(profile->functions, profile->function_count,
					   location->lines[k].fields[1]);

			if (!function || !function->fields[2])
				return "a line without a function";
			has[1] |= function->fields[4] != 0;
			has[2] |= location->lines[k].fields[2] != 0;
		}
	}
	for (int k = 0; k < 4; k++)
		if (has[k] != mapping->fields[7 + k])
			return "a flag of a mapping is wrong";
	return NULL;
}

static inline const char *check_labels(const struct read_profile *profile,
				       const struct read_sample *sample, int8_t *kinds)
{
	for (size_t i = 0; i < sample->label_count; i++) {
		const struct read_label *label = &sample->labels[i];
		int8_t kind = label->text ? 1 : 2;

		if (!label->key || label->key >= profile->string_count ||
		    label->text >= profile->string_count)
			return "a label without a string";
		if (!label->text == !label->number)
			return "a label with two values or none";
		if (kinds[label->key] && kinds[label->key] != kind)
			return "a key of texts and numbers";
		kinds[label->key] = kind;
		if (strncmp(profile->strings[label->key], "pprof::", 7) == 0)
			return "a reserved key";
		for (size_t k = 0; k < i; k++)
			if (sample->labels[k].key == label->key)
				return "two values for a key";
	}
	return NULL;
}

static inline const char *check_samples(const struct read_profile *profile)
{
	int8_t kinds[READ_MAX] = { 0 };

	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct read_sample *sample = &profile->samples[i];
		const char *wrong = check_labels(profile, sample, kinds);

		if (wrong)
			return wrong;
		if (sample->value_count != profile->type_count)
			return "a sample has not one value a type";
		if (sample->location_count == 0)
			return "a sample without a location";
		for (size_t k = 0; k < sample->location_count; k++)
			if (!read_by_id(profile->locations, profile->location_count,
					sample->locations[k]))
				return "a sample at no location";
	}
	return NULL;
}

static inline const char *check_profile(const struct read_profile *profile)
{
	const char *wrong = check_strings(profile);

	if (!wrong)
		wrong = check_ids(profile->mappings, profile->mapping_count, "ids of mappings");
	if (!wrong)
		wrong = check_ids(profile->locations, profile->location_count, "ids of locations");
	if (!wrong)
		wrong = check_ids(profile->functions, profile->function_count, "ids of functions");
	if (!wrong)
		wrong = check_samples(profile);
	for (size_t i = 0; !wrong && i < profile->location_count; i++)
		if (profile->locations[i].fields[2] &&
		    !read_by_id(profile->mappings, profile->mapping_count,
				profile->locations[i].fields[2]))
			wrong = "a location in no mapping";
	for (size_t i = 0; !wrong && i < profile->mapping_count; i++)
		wrong = check_flags(profile, &profile->mappings[i]);
	return wrong;
}

/* What is wrong with a profile, NULL: nothing. The profile is the caller's in any case. */
static inline const char *read_and_check(const char *bytes, size_t size, struct read_profile **ret)
{
	struct read_cursor cursor = { (const unsigned char *)bytes,
				      (const unsigned char *)bytes + size, false };
	struct read_cursor inside;
	uint64_t value;
	unsigned field;

	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return "no memory";
	while ((field = read_field(&cursor, &value, &inside)))
		if (!read_one(*ret, field, value, inside))
			return "a field that cannot be read";
	return cursor.bad ? "the encoding is broken" : check_profile(*ret);
}
