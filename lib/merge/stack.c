/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks of a snapshot, and groups of a merged document, while they are read: see reader.h. */
#include "merge/reader.h"

#include "base/bsearch.h"
#include "model/snapshot.h"

#include <string.h>

enum { LONGEST_ID = 64 };

static const int64_t MOST_COUNTED = (int64_t)1 << 53;

static struct snap_merge_stack *current_stack(struct snap_merge_reader *reader)
{
	return &reader->document->stacks[reader->document->stack_count - 1];
}

void snap_merge_begin_stack(struct snap_merge_reader *reader, uint32_t owner)
{
	struct snap_merge_document *document = reader->document;

	if (document->stack_count >= UINT32_MAX - 1 ||
	    !snap_reserve_array(document->stacks, document->stack_capacity,
				document->stack_count + 1)) {
		snap_merge_no_memory(reader);
		return;
	}
	document->stacks[document->stack_count++] = (struct snap_merge_stack){
		.process = owner,
		.example_at = document->example_count,
		.labels_at = document->labels.size,
		.place_at = document->place_count,
	};
	reader->has_entries = reader->has_gap = false;
	reader->threads = reader->tasks = 0;
}

/* ---- threads ---- */

static bool is_span_before(const struct snap_json_span *a, const struct snap_json_span *b)
{
	size_t length = a->length < b->length ? a->length : b->length;
	int order = length ? memcmp(a->bytes, b->bytes, length) : 0;

	return order ? order < 0 : a->length < b->length;
}

/* The smallest one is the example. */
static void offer_example(struct snap_merge_reader *reader,
			  const struct snap_merge_example *offered)
{
	struct snap_merge_document *document = reader->document;
	struct snap_merge_stack *stack = current_stack(reader);
	struct snap_merge_example *best;

	if (stack->example_count == 0) {
		if (!snap_reserve_array(document->examples, document->example_capacity,
					document->example_count + 1)) {
			snap_merge_no_memory(reader);
			return;
		}
		document->examples[document->example_count++] = *offered;
		stack->example_count = 1;
		return;
	}
	best = &document->examples[stack->example_at];
	if (offered->pid != best->pid   ? offered->pid < best->pid
	    : offered->tid != best->tid ? offered->tid < best->tid
					: offered->task.bytes && best->task.bytes &&
						  is_span_before(&offered->task, &best->task))
		*best = *offered;
}

/* The process of a thread that says so, if the one before said another. */
static void note_owner(struct snap_merge_reader *reader, pid_t pid)
{
	struct snap_merge_document *document = reader->document;
	uint32_t stack = (uint32_t)document->stack_count - 1;
	const struct snap_merge_owner *last =
		document->owner_count ? &document->owners[document->owner_count - 1] : NULL;

	if (last && last->stack == stack && last->pid == pid)
		return;
	if (!snap_reserve_array(document->owners, document->owner_capacity,
				document->owner_count + 1))
		snap_merge_no_memory(reader);
	else
		document->owners[document->owner_count++] = (struct snap_merge_owner){ stack, pid };
}

void snap_merge_end_thread(struct snap_merge_reader *reader)
{
	struct snap_merge_example example = {
		.pid = snap_merge_pid(reader, THREAD_PID, "pid"),
		.tid = snap_merge_pid(reader, THREAD_TID, "tid"),
		.task = snap_merge_value(reader, THREAD_ID),
		.thread = snap_merge_value(reader, THREAD_NAME),
	};

	snap_merge_check_text(reader, "id", &example.task);
	snap_merge_check_text(reader, "name", &example.thread);
	if (example.task.bytes)
		reader->tasks++;
	else
		reader->threads++;
	if (current_stack(reader)->process == UINT32_MAX) {
		if (example.pid == 0)
			snap_merge_refuse(reader, "pid", "that of a process");
		note_owner(reader, example.pid);
	} else {
		example.pid = 0;
	}
	offer_example(reader, &example);
}

void snap_merge_end_example(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_json_span time = snap_merge_value(reader, EXAMPLE_TIME);
	int64_t host = snap_merge_number(reader, EXAMPLE_HOST, -1);
	struct snap_merge_example example = {
		.host = (uint32_t)host,
		.time_ns = snap_merge_time(reader, &time),
		.pid = snap_merge_pid(reader, EXAMPLE_PID, "pid"),
		.tid = snap_merge_pid(reader, EXAMPLE_TID, "tid"),
		.process = snap_merge_value(reader, EXAMPLE_PROCESS),
		.thread = snap_merge_value(reader, EXAMPLE_THREAD),
		.task = snap_merge_value(reader, EXAMPLE_TASK),
	};

	snap_merge_check_text(reader, "process", &example.process);
	snap_merge_check_text(reader, "thread", &example.thread);
	snap_merge_check_text(reader, "task", &example.task);
	if (host < 0 || host >= UINT32_MAX)
		snap_merge_refuse(reader, "host_number", "the number of a host");
	if (current_stack(reader)->example_count >= SNAP_MERGED_EXAMPLES)
		snap_merge_refuse(reader, "examples", "a smaller array");
	if (!snap_reserve_array(document->examples, document->example_capacity,
				document->example_count + 1)) {
		snap_merge_no_memory(reader);
		return;
	}
	document->examples[document->example_count++] = example;
	current_stack(reader)->example_count++;
}

/* ---- labels and the gap ---- */

void snap_merge_take_label(struct snap_merge_reader *reader, enum snap_json_token token)
{
	if (token != SNAP_JSON_STRING)
		snap_merge_refuse(reader, "labels", "strings");
	else if (!snap_reserve_array(reader->labels, reader->label_capacity,
				     reader->label_count + 1))
		snap_merge_no_memory(reader);
	else
		reader->labels[reader->label_count++] =
			(struct snap_merge_label){ reader->scan.key, reader->scan.text };
}

/* Lines as they are written: `key` is a part of `value`, the whole line. */
SNAP_ORDER(compare_lines, struct snap_merge_label, a, b,
	   is_span_before(&b->value, &a->value) - is_span_before(&a->value, &b->value));

/* The lines of labels, sorted; of several with one key the first. */
static void add_lines(struct snap_merge_reader *reader, struct snap_buffer *out)
{
	struct snap_merge_label *lines = reader->labels;

	if (reader->label_count > 1)
		qsort(lines, reader->label_count, sizeof(*lines), compare_lines);
	for (size_t i = 0; i < reader->label_count; i++) {
		const struct snap_json_span *key = &lines[i].key;

		if (i && key->length == lines[i - 1].key.length &&
		    memcmp(key->bytes, lines[i - 1].key.bytes, key->length) == 0)
			continue;
		snap_buffer_add(out, lines[i].value.bytes, lines[i].value.length);
	}
}

/* A label as a line in `lines`, where it is kept as an offset, as the buffer may move. */
static bool put_line(struct snap_merge_reader *reader, struct snap_merge_label *label)
{
	struct snap_buffer *lines = &reader->lines;
	size_t begin = lines->size, key_size;
	bool fine = snap_merge_canon_string(&reader->canon, &label->key, SNAP_MAX_NAME, lines);

	key_size = lines->size - begin;
	snap_buffer_add(lines, ": ", 2);
	fine = fine && snap_merge_canon_string(&reader->canon, &label->value, SNAP_MAX_NAME, lines);
	snap_buffer_add_byte(lines, '\n');
	label->key.length = key_size;
	label->value.length = lines->size - begin;
	return fine;
}

void snap_merge_end_labels(struct snap_merge_reader *reader)
{
	struct snap_merge_stack *stack = current_stack(reader);
	struct snap_buffer *out = &reader->document->labels;
	const char *at;
	bool fine = true;

	snap_buffer_clear(&reader->lines);
	for (size_t i = 0; i < reader->label_count && fine; i++)
		fine = put_line(reader, &reader->labels[i]);
	if (!fine || reader->lines.failed) {
		snap_merge_refuse(reader, "labels", "strings of a reasonable length");
		return;
	}
	at = reader->lines.data;
	for (size_t i = 0; i < reader->label_count; i++) {
		reader->labels[i].key.bytes = reader->labels[i].value.bytes = at;
		at += reader->labels[i].value.length;
	}
	add_lines(reader, out);
	stack->labels_size = out->size - stack->labels_at;
}

void snap_merge_end_gap(struct snap_merge_reader *reader)
{
	reader->has_gap = true;
	reader->gap_after = snap_merge_number(reader, GAP_AFTER, 0);
	reader->gap_count = snap_merge_number(reader, GAP_COUNT, 0);
}

/* ---- the stack ---- */

static bool put_stack_text(struct snap_merge_reader *reader, const char *key, unsigned field,
			   size_t most, size_t begin)
{
	struct snap_json_span span = snap_merge_value(reader, field);

	return snap_merge_canon_text(&reader->canon, key, &span, most, &reader->document->text,
				     begin);
}

/* What is said of the stack as a whole, behind its entries. */
static void put_stack_head(struct snap_merge_reader *reader, struct snap_merge_stack *stack)
{
	struct snap_buffer *out = &reader->document->text;
	size_t begin = out->size;
	bool fine =
		put_stack_text(reader, "kind", STACK_KIND, LONGEST_ID, begin) &&
		put_stack_text(reader, "runtime", STACK_RUNTIME, LONGEST_ID, begin) &&
		put_stack_text(reader, "description", STACK_DESCRIPTION, SNAP_MAX_NAME, begin) &&
		put_stack_text(reader, "unwind", STACK_UNWIND, LONGEST_ID, begin) &&
		put_stack_text(reader, "unwind_detail", STACK_UNWIND_DETAIL, SNAP_MAX_ARGS, begin);

	if (!fine)
		snap_merge_refuse(reader, "description", "a string of a reasonable length");
	if (reader->has_gap)
		snap_buffer_printf(out, "%s\"gap\": {\"after\": %lld, \"count\": %lld}",
				   out->size > begin ? ", " : "", (long long)reader->gap_after,
				   (long long)reader->gap_count);
	stack->body_size = out->size - stack->body_at;
}

static bool parse_id(const struct snap_json_span *span, uint64_t *ret)
{
	uint64_t id = 0;

	if (span->length != 16)
		return false;
	for (size_t i = 0; i < span->length; i++) {
		const char *digits = "0123456789abcdef",
			   *digit = memchr(digits, span->bytes[i], 16);

		if (!digit)
			return false;
		id = id << 4 | (uint64_t)(digit - digits);
	}
	*ret = id;
	return true;
}

/* Of a snapshot each group has as many threads or tasks as it says. */
static void check_counts(struct snap_merge_reader *reader, struct snap_merge_stack *stack)
{
	int64_t count = snap_merge_number(reader, STACK_COUNT, 0);

	stack->threads = reader->threads;
	stack->tasks = reader->tasks;
	if (count == 0 || (uint64_t)count != stack->threads + stack->tasks)
		snap_merge_refuse(reader, "threads", "an array of as many threads as its count");
}

static void take_counts(struct snap_merge_reader *reader, struct snap_merge_stack *stack)
{
	int64_t processes = snap_merge_number(reader, STACK_PROCESSES, 0),
		threads = snap_merge_number(reader, STACK_THREADS, 0),
		tasks = snap_merge_number(reader, STACK_TASKS, 0);

	stack->processes = (uint64_t)processes;
	stack->threads = (uint64_t)threads;
	stack->tasks = (uint64_t)tasks;
	stack->hosts = snap_merge_value(reader, STACK_HOSTS);
	if (!processes || !(threads || tasks) || processes > MOST_COUNTED ||
	    threads > MOST_COUNTED || tasks > MOST_COUNTED)
		snap_merge_refuse(reader, "groups", "counts of a reasonable size");
	if (!stack->hosts.bytes)
		snap_merge_refuse(reader, "hosts", "numbers of hosts such as 0-3,7");
}

void snap_merge_end_stack(struct snap_merge_reader *reader)
{
	struct snap_merge_stack *stack = current_stack(reader);
	struct snap_json_span id = snap_merge_value(reader, STACK_ID);

	if (!parse_id(&id, &stack->id))
		snap_merge_refuse(reader, "id", "a string of 16 hexadecimal digits");
	if (!reader->has_entries)
		snap_merge_refuse(reader, "entries", "an array");
	if (reader->error)
		return;
	if (reader->frames[reader->depth].kind == SNAP_MERGE_GROUP)
		take_counts(reader, stack);
	else
		check_counts(reader, stack);
	put_stack_head(reader, stack);
	if (reader->document->text.failed || reader->document->labels.failed)
		snap_merge_no_memory(reader);
}

/* ---- the document ---- */

static bool is_in_order(const struct snap_merge_document *document,
			const struct snap_merge_host *host)
{
	const int64_t *times = document->times + host->time_at;

	for (size_t i = 1; i < host->time_count; i++)
		if (times[i - 1] >= times[i])
			return false;
	return true;
}

static void check_merged(struct snap_merge_reader *reader)
{
	const struct snap_merge_document *document = reader->document;
	struct snap_host_set set = { 0 };

	for (size_t i = 0; i < document->host_count; i++)
		if (!is_in_order(document, &document->hosts[i]))
			snap_merge_refuse(reader, "times", "an array in order");
	if (document->deadlock_hosts.bytes &&
	    !snap_merge_parse_set(&document->deadlock_hosts, document->host_count, &set))
		snap_merge_refuse(reader, "deadlock_hosts", "numbers of hosts such as 0-3,7");
	for (size_t i = 0; i < document->stack_count && !reader->error; i++)
		if (!snap_merge_parse_set(&document->stacks[i].hosts, document->host_count, &set))
			snap_merge_refuse(reader, "hosts", "numbers of hosts such as 0-3,7");
	for (size_t i = 0; i < document->place_count && !reader->error; i++)
		if (!snap_merge_parse_set(&document->places[i].hosts, document->host_count, &set))
			snap_merge_refuse(reader, "hosts", "numbers of hosts such as 0-3,7");
	for (size_t i = 0; i < document->example_count && !reader->error; i++)
		if (document->examples[i].host >= document->host_count)
			snap_merge_refuse(reader, "host_number", "the number of a host");
	free(set.ranges);
}

/* The processes by their pids, for threads that say whose they are. */
static void find_processes(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_hash_table table = { 0 };
	bool fine = snap_hash_table_reserve(&table, document->process_count);

	for (size_t i = 0; fine && i < document->process_count; i++)
		fine = snap_hash_table_add(&table,
					   snap_hash_mix((uint64_t)document->processes[i].pid), i);
	for (size_t i = 0; fine && i < document->stack_count; i++) {
		const struct snap_merge_stack *stack = &document->stacks[i];
		struct snap_merge_example *example = &document->examples[stack->example_at];
		struct snap_probe probe =
			snap_hash_table_probe(&table, snap_hash_mix((uint64_t)example->pid));

		while (stack->process == UINT32_MAX && snap_probe_next(&probe))
			if (document->processes[probe.number].pid == example->pid) {
				example->process = document->processes[probe.number].name;
				break;
			}
	}
	if (!fine)
		snap_merge_no_memory(reader);
	snap_hash_table_deinit(&table);
}

/* Examples of a snapshot have the pid that stands on their process. */
static void complete_examples(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;

	if (document->owner_count)
		find_processes(reader);
	for (size_t i = 0; i < document->stack_count; i++) {
		const struct snap_merge_stack *stack = &document->stacks[i];
		struct snap_merge_example *example = &document->examples[stack->example_at];

		example->time_ns = document->times[0];
		if (stack->process == UINT32_MAX)
			continue;
		example->pid = document->processes[stack->process].pid;
		example->process = document->processes[stack->process].name;
	}
}

void snap_merge_check_document(struct snap_merge_reader *reader)
{
	if (reader->document->merged)
		check_merged(reader);
	else
		complete_examples(reader);
}
