/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What was merged as a JSON document: see merged.h. It holds all that merging it again takes: the
 * hosts of a group as numbers, bodies as they are.
 */
#include "render/merged/merged.h"

#include "render/json/document.h"

#include <errno.h>
#include <string.h>

struct document {
	const struct snap_merged *merged;
	struct snap_json_writer *json;
	struct snap_buffer set;
};

static void document_deinit(struct document *document)
{
	snap_json_writer_destroy(document->json);
	snap_buffer_deinit(&document->set);
}

/* "0-3,7" */
static void put_set(struct document *document, const char *key, const struct snap_host_set *set)
{
	struct snap_buffer *out = &document->set;

	snap_buffer_clear(out);
	for (size_t i = 0; i < set->count; i++) {
		const struct snap_host_range *range = &set->ranges[i];

		snap_buffer_printf(out, "%s%u", i ? "," : "", range->first);
		if (range->last > range->first)
			snap_buffer_printf(out, "-%u", range->last);
	}
	snap_json_clean(document->json, key, snap_buffer_text(out));
}

static void put_hosts(struct document *document)
{
	const struct snap_merged *merged = document->merged;
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, "hosts", '[');
	for (size_t i = 0; i < merged->host_count; i++) {
		const struct snap_merged_host *host = &merged->hosts[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_text_if(json, "name", host->name);
		snap_json_text_if(json, "boot_id", host->boot_id);
		snap_json_list(json, "times", host->time_count, k,
			       snap_json_time(json, NULL, host->times[k]));
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_modules(struct document *document)
{
	const struct snap_merged *merged = document->merged;
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, "modules", '[');
	for (size_t i = 0; i < merged->module_count; i++) {
		const struct snap_merged_module *module = &merged->modules[i];

		snap_json_begin_line(json, NULL, '{');
		snap_json_text(json, "module", module->path);
		snap_json_text(json, "build_id", module->build_id);
		snap_json_number(json, "host_count", (int64_t)module->host_count);
		put_set(document, "hosts", &module->hosts);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

/* Names of the hosts that make a group odd. */
static void put_odd(struct document *document, const struct snap_merged_group *group)
{
	enum { MOST_NAMED = 8 };
	const struct snap_merged *merged = document->merged;
	struct snap_json_writer *json = document->json;
	uint32_t numbers[MOST_NAMED];
	size_t count;

	if (group->odd == SNAP_ODD_NOT)
		return;
	snap_json_text(json, "odd", group->odd == SNAP_ODD_RARE ? "rare" : "missing");
	count = snap_merged_pick_hosts(&group->hosts, merged->host_count,
				       group->odd == SNAP_ODD_RARE, numbers, MOST_NAMED);
	snap_json_begin(json, "odd_hosts", '[');
	for (size_t i = 0; i < count; i++) {
		const struct snap_merged_host *host = &merged->hosts[numbers[i]];

		snap_json_text(json, NULL, host->name ? host->name : host->boot_id);
	}
	snap_json_end(json, ']');
}

static void put_merged_labels(struct snap_json_writer *json, const struct snap_merged_group *group)
{
	const char *at = group->labels, *end = at + group->labels_size;

	if (at == end)
		return;
	snap_json_begin(json, "labels", '{');
	while (at < end) {
		const char *line = memchr(at, '\n', (size_t)(end - at));

		snap_json_bytes(json, NULL, at, (size_t)(line - at));
		at = line + 1;
	}
	snap_json_end(json, '}');
}

static void put_examples(struct document *document, const struct snap_merged_group *group)
{
	struct snap_json_writer *json = document->json;

	snap_json_begin(json, "examples", '[');
	for (size_t i = 0; i < group->example_count; i++) {
		const struct snap_merged_example *example = &group->examples[i];

		snap_json_begin(json, NULL, '{');
		snap_json_text_if(json, "host", document->merged->hosts[example->host].name);
		snap_json_number(json, "host_number", example->host);
		snap_json_time(json, "time", example->time_ns);
		snap_json_number_if(json, "pid", example->pid);
		snap_json_text_if(json, "process", example->process);
		snap_json_number_if(json, "tid", example->tid);
		snap_json_text_if(json, "thread", example->thread);
		snap_json_text_if(json, "task", example->task);
		snap_json_end(json, '}');
	}
	snap_json_end(json, ']');
}

static void put_merged_group(struct document *document, const struct snap_merged_group *group)
{
	struct snap_json_writer *json = document->json;

	snap_json_begin_line(json, NULL, '{');
	snap_json_text(json, "id", group->id);
	put_odd(document, group);
	snap_json_number(json, "host_count", (int64_t)group->host_count);
	snap_json_number(json, "process_count", (int64_t)group->process_count);
	snap_json_number(json, "thread_count", (int64_t)group->thread_count);
	snap_json_number_if(json, "task_count", (int64_t)group->task_count);
	put_set(document, "hosts", &group->hosts);
	if (group->body_size > group->entries_size)
		snap_json_bytes(json, NULL, group->body + group->entries_size,
				group->body_size - group->entries_size);
	put_merged_labels(json, group);
	put_examples(document, group);
	snap_json_line(json);
	snap_json_bytes(json, "entries", group->body, group->entries_size);
	snap_json_end(json, '}');
}

static void put_merged_document(struct document *document)
{
	const struct snap_merged *merged = document->merged;
	struct snap_json_writer *json = document->json;

	snap_json_schema_put(json, "stacksnap.merged");
	snap_json_number(json, "host_count", (int64_t)merged->host_count);
	snap_json_number(json, "document_count", (int64_t)merged->document_count);
	snap_json_number(json, "group_count", (int64_t)merged->group_count);
	snap_json_number(json, "odd_count", (int64_t)merged->odd_count);
	if (merged->deadlock_count)
		put_set(document, "deadlock_hosts", &merged->deadlocks);
	put_hosts(document);
	put_modules(document);
	snap_json_line(json);
	snap_json_list(json, "groups", merged->group_count, i,
		       put_merged_group(document, &merged->groups[i]));
	snap_json_end(json, '}');
	snap_json_end_document(json);
	snap_json_flush(json);
}

struct stacksnap_error *snap_render_merged_json(const struct snap_merged *merged, FILE *out,
						bool one_line)
{
	_cleanup_(document_deinit) struct document document = {
		.merged = merged,
		.json = snap_json_writer_create(out,
						one_line ? SNAP_JSON_ONE_LINE : SNAP_JSON_SPACED),
	};

	SNAP_TRY(snap_no_memory_unless(document.json));
	put_merged_document(&document);
	SNAP_TRY(snap_no_memory_unless(!document.json->failed && !document.set.failed));
	return ferror(out) ? snap_error_os(errno, "cannot write the report") : NULL;
}
