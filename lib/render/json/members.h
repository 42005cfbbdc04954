/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Members of a JSON object, written to a stream one after the other.
 *
 * Commas are looked after; the braces are the caller's. Absent is what has no value: NULL, "",
 * false, a count of 0. Texts are escaped as everything from a target is (base/escape.h). Knows
 * nothing of snapshots.
 */
#ifndef SNAP_RENDER_JSON_MEMBERS_H
#define SNAP_RENDER_JSON_MEMBERS_H

#include "render/json/writer.h"

struct snap_members {
	struct snap_json_out *out;
	bool begun; /* one was written: the next one takes a comma */
};

/* The key alone; its value is then the caller's. Keys are our own words. */
void snap_members_key(struct snap_members *members, const char *key);
void snap_members_text(struct snap_members *members, const char *key, const char *text);
void snap_members_number(struct snap_members *members, const char *key, int64_t number);
/* The same, absent when it is 0. */
void snap_members_count(struct snap_members *members, const char *key, int64_t number);
void snap_members_flag(struct snap_members *members, const char *key, bool flag);
/* "0x…" */
void snap_members_hex(struct snap_members *members, const char *key, uint64_t number);
/* RFC 3339 with nine decimals, in UTC; absent when it is 0. */
void snap_members_time(struct snap_members *members, const char *key, int64_t ns);
/* An array of texts, which may be empty ones. */
void snap_members_texts(struct snap_members *members, const char *key, const char *const *texts,
			size_t count);

#endif
