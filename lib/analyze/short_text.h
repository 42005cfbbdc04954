/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Measures texts with their escapes, and makes shorter ones, cut in the middle, for reports that
 * are too large. Thousands of tasks or waits have the same texts, so each text is measured once.
 * Knows neither the purpose of a text nor the limit of a report.
 */
#pragma once

#include "base/arena.h"

enum { SNAP_KNOWN_TEXTS = 1024, SNAP_LONGEST_SHORT_TEXT = 256 };

/* What is known of texts; zeroed but for the first two. */
struct snap_short_texts {
	struct snap_interner *strings; /* of those that are cut; NULL: none are */
	size_t most; /* bytes as written that a text may take; SNAP_LONGEST_SHORT_TEXT at most */
	bool failed; /* no memory */
	struct snap_known_text {
		const char *text, *shortened;
		uint64_t bytes;
	} known[SNAP_KNOWN_TEXTS];
};

/* What a text takes in JSON, with its escapes; NULL takes nothing. */
uint64_t snap_report_text_bytes(const char *text);

/* The same of a text that is interned, or at least stays where it is. */
uint64_t snap_short_texts_bytes(struct snap_short_texts *texts, const char *text);

/* Its beginning and its end, which tells numbered ones apart. True: it was longer than `most`. */
bool snap_short_texts_cut(struct snap_short_texts *texts, const char **text);
