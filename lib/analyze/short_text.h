/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texts that take less of a report: what one takes with its escapes, and a shorter one, cut in its
 * middle. Thousands of tasks or waits have the same texts, so each is looked at once. Knows
 * neither what the texts are of nor how much is too much.
 */
#ifndef SNAP_ANALYZE_SHORT_TEXT_H
#define SNAP_ANALYZE_SHORT_TEXT_H

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

#endif
