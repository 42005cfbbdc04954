/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Members of a JSON object: see members.h. */
#include "render/json/members.h"

#include "render/view/when.h"

void snap_members_key(struct snap_members *members, const char *key)
{
	snap_json_out_raw(members->out, members->begun ? ", \"" : "\"");
	snap_json_out_raw(members->out, key);
	snap_json_out_raw(members->out, "\": ");
	members->begun = true;
}

void snap_members_text(struct snap_members *members, const char *key, const char *text)
{
	if (!text || !*text)
		return;
	snap_members_key(members, key);
	snap_json_out_text(members->out, text);
}

void snap_members_number(struct snap_members *members, const char *key, int64_t number)
{
	snap_members_key(members, key);
	snap_json_out_number(members->out, number);
}

void snap_members_count(struct snap_members *members, const char *key, int64_t number)
{
	if (number)
		snap_members_number(members, key, number);
}

void snap_members_flag(struct snap_members *members, const char *key, bool flag)
{
	if (!flag)
		return;
	snap_members_key(members, key);
	snap_json_out_raw(members->out, "true");
}

void snap_members_hex(struct snap_members *members, const char *key, uint64_t number)
{
	snap_members_key(members, key);
	snap_json_out_hex(members->out, number);
}

void snap_members_time(struct snap_members *members, const char *key, int64_t ns)
{
	char text[SNAP_WHEN_SIZE];

	if (ns == 0)
		return;
	snap_when(ns, 'T', 9, text);
	snap_members_key(members, key);
	snap_json_out_clean(members->out, text);
}

void snap_members_texts(struct snap_members *members, const char *key, const char *const *texts,
			size_t count)
{
	snap_members_key(members, key);
	for (size_t i = 0; i < count; i++) {
		snap_json_out_raw(members->out, i ? ", " : "[");
		snap_json_out_text(members->out, texts[i]);
	}
	snap_json_out_raw(members->out, count ? "]" : "[]");
}
