/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tables of an HTML page: texts, functions and stacks, each once. See parts.h.
 *
 * A stack is a row of what called its innermost function and that function, so stacks share what
 * they have in common at their roots. Texts are raw until they are written.
 */
#include "render/html/parts.h"

#include "base/text.h"
#include "render/view/elide.h"

#include <inttypes.h>

enum frame_flag {
	FRAME_INLINED = 1 << 0,
	FRAME_SYSTEM = 1 << 1,
	FRAME_KERNEL = 1 << 2,
	FRAME_GUESSED = 1 << 3, /* all but SNAP_TRUST_CFI */
	FRAME_GAP = 1 << 4,     /* in place of frames that were left out */
};

/* Rows are compared as bytes: they have no holes. */
struct frame_row {
	uint32_t name, module, file, line, language, flags;
};

struct stack_row {
	uint32_t caller, frame;
};

static size_t number_html_item(struct snap_html *html, struct snap_pool *pool, const void *bytes,
			       size_t size)
{
	size_t number = snap_pool_add(pool, bytes, size);

	if (number < UINT32_MAX)
		return number;
	html->failed = true;
	return 0;
}

size_t snap_html_text(struct snap_html *html, const char *text)
{
	return text ? number_html_item(html, &html->texts, text, strlen(text)) : 0;
}

/* The same of a text that was made for this, which is freed; NULL: there was no memory. */
static size_t number_made_text(struct snap_html *html, char *text)
{
	size_t number = snap_html_text(html, text);

	html->failed |= !text;
	free(text);
	return number;
}

size_t snap_html_function(struct snap_html *html, const char *name)
{
	struct snap_pointer_entry *entry = name ? snap_pointer_table_get(&html->names, name) : NULL;

	html->failed |= name && !entry;
	if (!entry)
		return 0;
	if (!entry->number)
		entry->number =
			number_made_text(html, snap_short_name(html->options, true, name)) + 1;
	return entry->number - 1;
}

size_t snap_html_wait(struct snap_html *html, const struct snap_wait *wait)
{
	bool all = html->options->explain == SNAP_EXPLAIN_ALL;

	if (html->options->explain == SNAP_EXPLAIN_NO || !snap_wait_is_shown(wait, all))
		return 0;
	return number_made_text(html, snap_wait_line(wait, all));
}

/* ---- stacks ---- */

/* "libc.so.6+0x5000", "0x7f0000001234": of code without a name. */
static size_t number_place(struct snap_html *html, const struct snap_frame *frame)
{
	struct snap_buffer *text = &html->scratch;

	snap_buffer_clear(text);
	if (frame->module && frame->has_offset)
		snap_buffer_printf(text, "%s+0x%" PRIx64, snap_base_name(frame->module),
				   frame->offset);
	else
		snap_buffer_printf(text, "0x%" PRIx64, frame->address);
	html->failed |= text->failed;
	return number_html_item(html, &html->texts, text->data, text->size);
}

static size_t add_row(struct snap_html *html, size_t caller, const struct frame_row *frame)
{
	struct stack_row row = {
		.caller = (uint32_t)caller,
		.frame = (uint32_t)number_html_item(html, &html->frames, frame, sizeof(*frame)),
	};

	return number_html_item(html, &html->stacks, &row, sizeof(row));
}

static size_t add_html_entry(struct snap_html *html, size_t caller, const struct snap_frame *frame,
			     const struct snap_entry *entry)
{
	const char *name = entry->function ? entry->function : entry->symbol;
	struct frame_row row = {
		.name = (uint32_t)(name ? snap_html_function(html, name)
					: number_place(html, frame)),
		.module = (uint32_t)snap_html_text(html, frame->module),
		.file = (uint32_t)snap_html_text(html, entry->file ? snap_source_path(entry->file)
								   : NULL),
		.line = entry->line,
		.language = (uint32_t)snap_html_text(html, entry->language),
		.flags = (entry->inlined ? FRAME_INLINED : 0) | (entry->system ? FRAME_SYSTEM : 0) |
			 (entry->kernel ? FRAME_KERNEL : 0) |
			 (frame->trust != SNAP_TRUST_CFI ? FRAME_GUESSED : 0),
	};

	return add_row(html, caller, &row);
}

static size_t add_html_gap(struct snap_html *html, size_t caller, uint64_t count)
{
	struct frame_row row = { .flags = FRAME_GAP };
	struct snap_buffer *text = &html->scratch;

	snap_buffer_clear(text);
	snap_buffer_printf(text, "… %" PRIu64 " frames left out …", count);
	html->failed |= text->failed;
	row.name = (uint32_t)number_html_item(html, &html->texts, text->data, text->size);
	return add_row(html, caller, &row);
}

size_t snap_html_stack(struct snap_html *html, const struct snap_frame *const *frames, size_t count,
		       size_t gap_frame, uint64_t gap_count)
{
	size_t stack = 0;

	for (size_t i = count; i-- > 0 && !html->failed;) {
		if (gap_count && gap_frame == i)
			stack = add_html_gap(html, stack, gap_count);
		for (size_t k = frames[i]->entry_count; k-- > 0;)
			stack = add_html_entry(html, stack, frames[i], &frames[i]->entries[k]);
	}
	return stack;
}

/* ---- written ---- */

void snap_html_put_text(struct snap_html *html, const char *key, size_t number)
{
	snap_json_number_if(html->json, key, (int64_t)number);
}

void snap_html_put_labels(struct snap_html *html, const char *key, const struct snap_label *labels,
			  size_t count)
{
	if (count == 0)
		return;
	snap_json_begin(html->json, key, '[');
	for (size_t i = 0; i < count; i++) {
		snap_json_number(html->json, NULL, (int64_t)snap_html_text(html, labels[i].key));
		snap_json_number(html->json, NULL, (int64_t)snap_html_text(html, labels[i].value));
	}
	snap_json_end(html->json, ']');
}

/* Rows of numbers, one behind the other. */
static void put_html_rows(struct snap_html *html, const char *key, const struct snap_pool *pool)
{
	snap_json_begin_line(html->json, key, '[');
	for (size_t i = 0; i < pool->count; i++) {
		uint32_t number;

		for (size_t at = 0; at < pool->entries[i].size; at += sizeof(number)) {
			memcpy(&number, pool->entries[i].bytes + at, sizeof(number));
			snap_json_number(html->json, NULL, number);
		}
	}
	snap_json_end(html->json, ']');
}

void snap_html_put_tables(struct snap_html *html)
{
	put_html_rows(html, "frames", &html->frames);
	put_html_rows(html, "stacks", &html->stacks);
	snap_json_line(html->json);
	snap_json_list(html->json, "texts", html->texts.count, i,
		       snap_json_text(html->json, NULL, html->texts.entries[i].bytes));
}
