/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of an HTML page: its tables, and its lines about processes, waits and time. For the
 * files of this folder only.
 *
 * What a page knows is one JSON object, compact, whose keys are between these files and the page's
 * own script: no interface, and free to change. Texts, functions and stacks are numbers of rows in
 * tables that are written last.
 */
#pragma once

#include "base/buffer.h"
#include "model/options.h"
#include "model/recording.h"
#include "render/json/writer.h"
#include "render/view/pool.h"

/* The style and the script, and their SHA-256 in base64: made of their files by embed.py. */
extern const char snap_html_style[], snap_html_style_hash[];
extern const char snap_html_script[], snap_html_script_hash[];

struct snap_html {
	FILE *out;
	const struct snap_options *options;
	struct snap_json_writer *json;
	struct snap_pool texts;          /* 0: "" */
	struct snap_pointer_table names; /* of functions: the number of the shorter one + 1 */
	struct snap_pool frames;         /* functions, as they are shown */
	struct snap_pool stacks;         /* a function and the row of what called it; 0: nothing */
	struct snap_buffer scratch;
	bool failed; /* no memory */
};

/* The number of a text of the target's; NULL: 0. */
size_t snap_html_text(struct snap_html *html, const char *text);
/*
 * The same of a function's name, which is made shorter unless the options ask for all of it. It lives as
 * long as the page is written: equal pointers are equal names.
 */
size_t snap_html_function(struct snap_html *html, const char *name);
/* What a thread waits for, in words; 0: nothing that is shown. */
size_t snap_html_wait(struct snap_html *html, const struct snap_wait *wait);

/* A stack, innermost frame first; after frame `gap_frame` `gap_count` were left out. */
size_t snap_html_stack(struct snap_html *html, const struct snap_frame *const *frames, size_t count,
		       size_t gap_frame, uint64_t gap_count);

/* These add keys to an object that has been begun. A number of a text; nothing for 0. */
void snap_html_put_text(struct snap_html *html, const char *key, size_t number);
void snap_html_put_labels(struct snap_html *html, const char *key, const struct snap_label *labels,
			  size_t count);
/* Stack, end and labels of a group. */
void snap_html_put_group(struct snap_html *html, const struct snap_stack *stack);

/* "kind", and "states" and "ends": words for their numbers. */
void snap_html_put_kind(struct snap_html *html, const char *kind);
void snap_html_begin_facts(struct snap_html *html);
/* One row of the facts at the top: our own word, and a text. */
void snap_html_put_fact(struct snap_html *html, const char *word, const char *text);
void snap_html_put_host(struct snap_html *html, const struct snap_host *host, int64_t time_ns);
void snap_html_put_missing(struct snap_html *html, const struct snap_missing *missing,
			   const struct snap_warning *warnings, size_t warning_count);
void snap_html_put_waits(struct snap_html *html, const struct snap_waits *waits);

/* What is known of a process, without its stacks, into an object that has been begun. */
void snap_html_put_process(struct snap_html *html, const struct snap_node *node, int64_t now_ns);
/* "processes" of a snapshot, with their groups. */
void snap_html_put_tree(struct snap_html *html, const struct snap_snapshot *snapshot);
/* Ticks, threads along them, what they stood in, time by wait. NO_MEMORY. */
struct stacksnap_error *snap_html_put_timeline(struct snap_html *html,
					       const struct snap_recording *recording) _must_check_;

/* The tables, which are complete by now. */
void snap_html_put_tables(struct snap_html *html);

/*
 * The page: its head, `put_text` as the text form, `put_data` into the object of what the script
 * shows; then the script. OS: it cannot be written.
 */
struct snap_html_page {
	const char *title; /* raw */
	struct stacksnap_error *(*put_text)(const void *what, const struct snap_options *options,
					    FILE *out);
	struct stacksnap_error *(*put_data)(const void *what, struct snap_html *html);
	const void *what;
};

struct stacksnap_error *snap_html_put_page(const struct snap_html_page *page,
					   const struct snap_options *options,
					   FILE *out) _must_check_;
