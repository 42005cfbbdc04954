/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names for the frames of a log. Each address space is treated as a process of a snapshot that has
 * these distinct frames, and the same code names them. See log.h; knows nothing of time.
 */
#include "analyze/analysis.h"
#include "analyze/fair_share.h"
#include "analyze/log/log.h"
#include "base/buffer.h"
#include "base/escape.h"

#include <string.h>

/*
 * Long names may take this part of a recording's memory; those of a process that takes more than its
 * share are short. A program may have a hundred thousand functions with names of four kilobytes.
 */
enum { PART_OF_NAMES = 8, SHORT_NAME = 256 };

struct naming {
	struct snap_log *log;
	struct snap_options options; /* the caller's, with names as written in programs */
	struct snap_analysis analysis;
	struct snap_frame_record **of_frame; /* of each frame of the log; NULL: named before */
	struct snap_claim *claims;           /* of each space: bytes that short names would save */
};

static void naming_deinit(struct naming *naming)
{
	free(naming->of_frame);
	free(naming->claims);
	snap_analysis_deinit(&naming->analysis);
}

static struct stacksnap_error *naming_init(struct naming *naming,
					   const struct snap_file_finder *finder)
{
	/* Raw names are kept beside the others; see stacks.c. */
	naming->options.raw_names = false;
	naming->options.go_names = naming->options.runtimes & SNAP_RUNTIME_GO;
	naming->of_frame = calloc(naming->log->frame_count + 1, sizeof(*naming->of_frame));
	SNAP_TRY(snap_no_memory_unless(naming->of_frame));
	return snap_analysis_init(&naming->analysis, naming->log->capture, &naming->options,
				  finder);
}

/* ---- frames -> records ---- */

static bool add_record(struct naming *naming, size_t index)
{
	const struct snap_log_frame *frame = &naming->log->frames[index];
	struct snap_raw_process *raw = &naming->analysis.processes[frame->space];
	struct snap_frame_record *record =
		snap_arena_new(&naming->analysis.scratch, struct snap_frame_record);

	if (!record ||
	    !snap_reserve_array(raw->records, raw->record_capacity, raw->record_count + 1))
		return false;
	snap_frame_record_set_pc(record, (struct snap_pc){ frame->bits });
	raw->records[raw->record_count++] = record;
	naming->of_frame[index] = record;
	return true;
}

static struct stacksnap_error *make_records(struct naming *naming)
{
	const struct snap_log *log = naming->log;

	for (size_t i = 0; i < log->frame_count; i++)
		if (!log->frames[i].name && !add_record(naming, i))
			return snap_error_no_memory();
	for (size_t i = 0; i < log->capture->process_count; i++) {
		struct snap_raw_process *raw = &naming->analysis.processes[i];
		struct stacksnap_error *err = NULL;

		if (raw->record_count)
			err = snap_raw_process_map(&naming->analysis, raw);
		if (err)
			return err;
	}
	return NULL;
}

/* ---- records -> names ---- */

static bool shorten_name(struct snap_interner *strings, const char **text)
{
	size_t length = *text ? strnlen(*text, SHORT_NAME + 1) : 0;

	if (length <= SHORT_NAME)
		return true;
	*text = snap_intern(strings, *text, snap_text_cut(*text, length, SHORT_NAME));
	return *text;
}

/* Makes the texts of a frame short; its entries become `entries`. */
static bool shorten_frame(struct snap_interner *strings, struct snap_frame *frame,
			  struct snap_entry *entries)
{
	memcpy(entries, frame->entries, frame->entry_count * sizeof(*entries));
	frame->entries = entries;
	return snap_all(frame->entry_count, i,
			shorten_name(strings, &entries[i].function) &&
				shorten_name(strings, &entries[i].symbol) &&
				shorten_name(strings, &entries[i].file));
}

/* What short texts would save, of each space; those that it has from before count, too. */
static bool claim_names(struct naming *naming, struct snap_pointer_table *known, size_t index)
{
	const struct snap_log_frame *of = &naming->log->frames[index];
	const struct snap_frame *frame = naming->of_frame[index]
						 ? &naming->of_frame[index]->frame
						 : &naming->log->names[of->name - 1];

	for (size_t i = 0; i < 3 * frame->entry_count; i++) {
		const struct snap_entry *entry = &frame->entries[i / 3];
		const char *const texts[] = { entry->function, entry->symbol, entry->file };
		size_t length = texts[i % 3] ? strlen(texts[i % 3]) : 0;
		struct snap_pointer_entry *text;

		if (length <= SHORT_NAME)
			continue;
		text = snap_pointer_table_get(known, texts[i % 3]);
		if (!text)
			return false;
		if (!text->number++)
			naming->claims[of->space].bytes += length - SHORT_NAME;
	}
	return true;
}

static bool share_memory_out(struct naming *naming)
{
	_cleanup_(snap_pointer_table_deinit) struct snap_pointer_table known = { 0 };
	const struct snap_capture *capture = naming->log->capture;
	uint64_t limit = naming->options.max_memory / PART_OF_NAMES;

	naming->claims = calloc(capture->process_count + 1, sizeof(*naming->claims));
	for (size_t i = 0; naming->claims && i < capture->process_count; i++) {
		naming->claims[i].uid = capture->processes[i].uid;
		naming->claims[i].container = capture->processes[i].container;
	}
	return naming->claims &&
	       snap_all(naming->log->frame_count, i, claim_names(naming, &known, i)) &&
	       snap_fair_shares(naming->claims, capture->process_count,
				limit ? limit : UINT64_MAX) >= 0;
}

static bool add_name(struct naming *naming, size_t index)
{
	struct snap_log *log = naming->log;
	struct snap_frame named = naming->of_frame[index]->frame;
	const struct snap_claim *claim = &naming->claims[log->frames[index].space];
	_cleanup_free_ struct snap_entry *entries = NULL;

	if (claim->bytes > claim->share) {
		entries = malloc((named.entry_count + 1) * sizeof(*entries));
		if (!entries || !shorten_frame(&log->strings, &named, entries))
			return false;
	}
	if (!snap_reserve_array(log->names, log->name_capacity, log->name_count + 1) ||
	    !snap_frame_copy(&log->strings, &named, &log->names[log->name_count]))
		return false;
	log->frames[index].name = (uint32_t)++log->name_count;
	return true;
}

static bool is_warning_known(const struct snap_capture *capture, const struct snap_warning *warning)
{
	for (size_t i = 0; i < capture->warning_count; i++) {
		const struct snap_warning *known = &capture->warnings[i];

		if (known->pid == warning->pid && strcmp(known->code, warning->code) == 0 &&
		    strcmp(known->message, warning->message) == 0)
			return true;
	}
	return false;
}

static bool has_frame_name(const struct snap_frame *frame)
{
	return frame->entry_count &&
	       (frame->entries[0].symbol != NULL || frame->entries[0].function != NULL);
}

/* Where time was up, what has no name may yet be given one. */
static struct stacksnap_error *keep_results(struct naming *naming)
{
	bool late = snap_options_have_enough(&naming->options);
	const struct snap_snapshot *snapshot = naming->analysis.snapshot;
	struct snap_log *log = naming->log;

	SNAP_TRY(snap_no_memory_unless(share_memory_out(naming)));
	for (size_t i = 0; i < log->frame_count; i++) {
		const struct snap_frame_record *record = naming->of_frame[i];

		if (record && (!late || has_frame_name(&record->frame)) && !add_name(naming, i))
			return snap_error_no_memory();
	}
	/* A ring is named again and again; its warnings are given once. */
	for (size_t i = 0; i < snapshot->warning_count; i++) {
		const struct snap_warning *warning = &snapshot->warnings[i];

		if (!is_warning_known(log->capture, warning))
			snap_capture_warn(log->capture, warning->code, warning->pid, warning->tid,
					  "%s", warning->message);
	}
	return NULL;
}

struct stacksnap_error *snap_analyze_log_names(struct snap_log *log,
					       const struct snap_options *options,
					       const struct snap_file_finder *finder)
{
	_cleanup_(naming_deinit) struct naming naming = { .log = log, .options = *options };

	if (snap_all(log->frame_count, i, log->frames[i].name != 0))
		return NULL;
	SNAP_TRY(naming_init(&naming, finder));
	SNAP_TRY(make_records(&naming));
	SNAP_TRY(snap_frames_name(&naming.analysis));
	return keep_results(&naming);
}
