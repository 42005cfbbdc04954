/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a descriptor to a merger, document by document: see input.h. */
#include "merge/input.h"

#include "merge/stream.h"

#include <string.h>

struct walk {
	struct snap_merge_input *input;
	const char *name;
	struct snap_merge_stream stream;
	struct snap_merge_reader *reader;
	struct snap_merge_document document;
	struct snap_buffer line;
	size_t count;   /* of documents, broken ones among them */
	bool is_broken; /* the latest was, and what follows may be a part of it */
};

static void input_walk_deinit(struct walk *walk)
{
	snap_merge_stream_deinit(&walk->stream);
	snap_merge_reader_destroy(walk->reader);
	snap_merge_document_deinit(&walk->document);
	snap_buffer_deinit(&walk->line);
}

static void report_skipped_input(struct walk *walk, const char *what, const char *why)
{
	struct snap_merge_input *input = walk->input;

	if (!input->tell)
		return;
	snap_buffer_clear(&walk->line);
	snap_buffer_printf(&walk->line, "%s: document %zu %s: %s", walk->name, walk->count, what,
			   why);
	input->tell(input->context, snap_buffer_text(&walk->line));
}

/* A host that has nothing to say is missing in the result, too. */
static void report_empty_input(struct walk *walk)
{
	struct snap_merge_input *input = walk->input;

	input->skipped++;
	if (!input->tell)
		return;
	snap_buffer_clear(&walk->line);
	snap_buffer_printf(&walk->line, "%s: it is empty", walk->name);
	input->tell(input->context, snap_buffer_text(&walk->line));
}

/* Where the next document may begin: at a line with a brace. */
static const char *next_line(const char *at, const char *end)
{
	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));

		if (!line || line + 1 >= end)
			return end;
		if (line[1] == '{')
			return line + 1;
		at = line + 1;
	}
	return end;
}

/* Destroys the error, unless the run ends with it. */
static struct stacksnap_error *skip_document(struct walk *walk, struct stacksnap_error *err)
{
	if (snap_error_code(err) != SNAP_ERROR_FORMAT)
		return err;
	walk->input->skipped++;
	report_skipped_input(walk, "is skipped", snap_error_message(err));
	snap_error_destroy(err);
	return NULL;
}

static struct stacksnap_error *take_document(struct walk *walk)
{
	enum snap_merge_verdict verdict = SNAP_MERGE_TAKEN;
	struct stacksnap_error *err =
		snap_merger_take(walk->input->merger, &walk->document, &verdict);

	if (err)
		return skip_document(walk, err);
	switch (verdict) {
	case SNAP_MERGE_TAKEN:
		walk->input->taken++;
		break;
	case SNAP_MERGE_TWICE:
		walk->input->twice++;
		report_skipped_input(walk, "counts once",
				     "a document of this host and time is there already");
		break;
	case SNAP_MERGE_SHARED:
		walk->input->skipped++;
		report_skipped_input(walk, "is skipped",
				     "it holds a document that is there already, and cannot be "
				     "taken apart: merge what it was made of");
		break;
	}
	return NULL;
}

/* A document that was read, or refused; destroys the error unless the run ends with it. */
static struct stacksnap_error *settle_document(struct walk *walk, struct stacksnap_error *err)
{
	/* What follows a broken one may be a part of it: only whole documents are worth a word. */
	bool silent = walk->is_broken && err && snap_error_code(err) == SNAP_ERROR_FORMAT;

	walk->is_broken = err && (walk->document.broken || walk->is_broken);
	if (silent) {
		snap_error_destroy(err);
		return NULL;
	}
	return err ? skip_document(walk, err) : take_document(walk);
}

/* All documents of a piece that ends at `end`. */
static struct stacksnap_error *take_piece(struct walk *walk, const char *at, const char *end)
{
	while ((at += strspn(at, " \t\r\n")) < end) {
		struct stacksnap_error *err = NULL;
		const char *behind = at;

		if (!walk->is_broken)
			walk->count++;
		err = snap_merge_read(walk->reader, at, &walk->document, &behind);
		at = err && walk->document.broken ? next_line(behind, end) : behind;
		SNAP_TRY(settle_document(walk, err));
	}
	return NULL;
}

struct stacksnap_error *snap_merge_input(struct snap_merge_input *input, int fd, const char *name)
{
	_cleanup_(input_walk_deinit) struct walk walk = {
		.input = input,
		.name = name,
		.stream = { .fd = fd, .options = input->options },
		.reader = snap_merge_reader_create(),
	};
	struct stacksnap_error *err;
	size_t size = 0;
	char *piece;

	SNAP_TRY(snap_no_memory_unless(walk.reader));
	for (;;) {
		err = snap_merge_stream_next(&walk.stream, &piece, &size);
		if (err) {
			walk.count++;
			err = skip_document(&walk, err);
		} else if (!piece) {
			if (walk.count == 0)
				report_empty_input(&walk);
			return NULL;
		} else {
			walk.is_broken = false;
			err = take_piece(&walk, piece, piece + size);
		}
		if (!err && snap_options_cancelled(input->options))
			err = snap_error_cancelled();
		if (err)
			return err;
	}
}
