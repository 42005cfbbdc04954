/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Numbers at their extremes, one field after the other: what a target says costs no more than its own
 * field. A test lists the fields of its structures; their sizes are asserted beside the list, so a
 * new field cannot be forgotten.
 */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>
#include <string.h>

struct extreme_field {
	void *field;
	size_t size;
};

#define EXTREME(of)               \
	{                         \
		&(of), sizeof(of) \
	}

/* Calls `check` for each field with each number in it; then it is as it was. */
static inline void for_extremes(const struct extreme_field *fields, size_t count,
				void (*check)(const void *subject), const void *subject)
{
	static const uint64_t extremes[] = {
		0,
		1,
		UINT64_MAX,
		INT32_MAX,
		(uint64_t)INT32_MIN,
		UINT32_MAX,
		1ull << 32,
		INT64_MAX / 4,
		INT64_MAX / 4 + 1,
		INT64_MAX / 2,
		INT64_MAX - 1,
		INT64_MAX,
		(uint64_t)INT64_MIN,
		(uint64_t)INT64_MIN + 1,
	};

	for (size_t i = 0; i < count; i++) {
		uint64_t kept = 0;

		memcpy(&kept, fields[i].field, fields[i].size);
		for (size_t k = 0; k < SNAP_ARRAY_SIZE(extremes); k++) {
			memcpy(fields[i].field, &extremes[k], fields[i].size);
			check(subject);
		}
		memcpy(fields[i].field, &kept, fields[i].size);
	}
}

#define FOR_EXTREMES(check, subject, ...)                                                          \
	do {                                                                                       \
		const struct extreme_field extreme_fields[] = { __VA_ARGS__ };                     \
                                                                                                   \
		for_extremes(extreme_fields, SNAP_ARRAY_SIZE(extreme_fields), (check), (subject)); \
	} while (0)
