/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From tokens to a document: see document.h. Each open object has a frame, which knows its kind and
 * keeps the values of its fields until it ends. Only then its meaning is decided, so the order of
 * keys does not matter. Knows the shapes of shapes.h; stacks are in stack.c.
 */
#include "merge/reader.h"

#include "model/snapshot.h"
#include "store/json/pick.h"

#include <limits.h>
#include <string.h>

void snap_merge_refuse(struct snap_merge_reader *reader, const char *key, const char *expected)
{
	if (!reader->error)
		reader->error = snap_error_format(
			SNAP_ERROR_FORMAT, "invalid value of \"%s\": expected %s", key, expected);
}

void snap_merge_no_memory(struct snap_merge_reader *reader)
{
	if (!reader->error)
		reader->error = snap_error_no_memory();
}

struct snap_json_span snap_merge_value(const struct snap_merge_reader *reader, unsigned field)
{
	static const struct snap_json_span none;
	const struct snap_merge_frame *frame = &reader->frames[reader->depth];

	return frame->given >> field & 1 ? reader->values[frame->values + field].text : none;
}

int64_t snap_merge_number(const struct snap_merge_reader *reader, unsigned field, int64_t absent)
{
	const struct snap_merge_frame *frame = &reader->frames[reader->depth];

	return frame->given >> field & 1 ? reader->values[frame->values + field].number : absent;
}

pid_t snap_merge_pid(struct snap_merge_reader *reader, unsigned field, const char *key)
{
	int64_t number = snap_merge_number(reader, field, 0);

	if (number > INT_MAX)
		snap_merge_refuse(reader, key, "the number of a process or thread");
	return number > INT_MAX ? 0 : (pid_t)number;
}

void snap_merge_check_text(struct snap_merge_reader *reader, const char *key,
			   const struct snap_json_span *span)
{
	size_t length;

	if (span->plain && span->length <= SNAP_MAX_NAME)
		return;
	if (span->bytes && !snap_merge_canon_raw(&reader->canon, span, SNAP_MAX_NAME, &length))
		snap_merge_refuse(reader, key, "a string of a reasonable length");
}

int64_t snap_merge_time(struct snap_merge_reader *reader, const struct snap_json_span *span)
{
	int64_t ns = 0;

	if (!span->bytes || !snap_json_parse_time(span->bytes, span->length, &ns) || ns < 0)
		snap_merge_refuse(reader, "time", "a time such as 2026-11-20T07:52:18.106000000Z");
	return ns;
}

/* ---- objects that end ---- */

static void end_root(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_json_span time = snap_merge_value(reader, ROOT_TIME);
	int64_t version = snap_merge_number(reader, ROOT_VERSION, 0);

	if (version > 1 && !reader->error)
		reader->error = snap_error_format(
			SNAP_ERROR_FORMAT,
			"schema version %lld is too new: this program reads version 1",
			(long long)version);
	if (version < 1)
		snap_merge_refuse(reader, "schema_version", "a number from 1");
	if (!reader->has_groups)
		snap_merge_refuse(reader, document->merged ? "groups" : "processes", "an array");
	if (document->host_count == 0)
		snap_merge_refuse(reader, document->merged ? "hosts" : "host",
				  "the name or boot id of the host");
	if (document->merged)
		document->deadlock_hosts = snap_merge_value(reader, ROOT_DEADLOCK_HOSTS);
	if (document->merged || reader->error)
		return;
	document->times[0] = snap_merge_time(reader, &time);
}

static void end_host(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_merge_host host = {
		.name = snap_merge_value(reader, HOST_NAME),
		.boot_id = snap_merge_value(reader, HOST_BOOT_ID),
		.time_at = reader->time_at,
		.time_count = document->time_count - reader->time_at,
	};

	if (!host.name.length && !host.boot_id.length) {
		snap_merge_refuse(reader, "host", "a name or a boot id");
		return;
	}
	snap_merge_check_text(reader, "name", &host.name);
	snap_merge_check_text(reader, "boot_id", &host.boot_id);
	if (!snap_reserve_array(document->hosts, document->host_capacity,
				document->host_count + 1) ||
	    !snap_reserve_array(document->times, document->time_capacity,
				document->time_count + 1)) {
		snap_merge_no_memory(reader);
		return;
	}
	if (!document->merged)
		host.time_count = document->time_count = 1;
	else if (host.time_count == 0)
		snap_merge_refuse(reader, "times", "an array of times");
	document->hosts[document->host_count++] = host;
	reader->time_at = document->time_count;
}

static void end_process(struct snap_merge_reader *reader)
{
	const struct snap_merge_frame *frame = &reader->frames[reader->depth];
	struct snap_merge_process *process = &reader->document->processes[frame->owner];

	process->pid = snap_merge_pid(reader, PROCESS_PID, "pid");
	process->name = snap_merge_value(reader, PROCESS_NAME);
	snap_merge_check_text(reader, "name", &process->name);
	if (process->pid == 0)
		snap_merge_refuse(reader, "pid", "the number of a process");
}

/* One that a time limit ends, or that is merely possible, does not count. */
static void end_deadlock(struct snap_merge_reader *reader)
{
	if (snap_merge_number(reader, DEADLOCK_CERTAIN, 0) &&
	    !snap_merge_number(reader, DEADLOCK_TIMED, 0))
		reader->document->has_deadlock = true;
}

static void end_module(struct snap_merge_reader *reader)
{
	struct snap_merge_document *document = reader->document;
	struct snap_merge_place place = {
		.module = snap_merge_value(reader, MODULE_PATH),
		.build_id = snap_merge_value(reader, MODULE_BUILD_ID),
		.hosts = snap_merge_value(reader, MODULE_HOSTS),
	};

	snap_merge_check_text(reader, "module", &place.module);
	snap_merge_check_text(reader, "build_id", &place.build_id);
	if (!place.module.bytes || !place.build_id.bytes || !place.hosts.bytes)
		snap_merge_refuse(reader, "modules", "an array of modules with their builds");
	else if (!snap_reserve_array(document->places, document->place_capacity,
				     document->place_count + 1))
		snap_merge_no_memory(reader);
	else
		document->places[document->place_count++] = place;
}

/* What is done at the end of a container; NULL: nothing. */
static void (*const ends[SNAP_MERGE_KINDS])(struct snap_merge_reader *reader) = {
	[SNAP_MERGE_ROOT] = end_root,
	[SNAP_MERGE_HOST] = end_host,
	[SNAP_MERGE_PROCESS] = end_process,
	[SNAP_MERGE_DEADLOCK] = end_deadlock,
	[SNAP_MERGE_MODULE] = end_module,
	[SNAP_MERGE_STACK] = snap_merge_end_stack,
	[SNAP_MERGE_GROUP] = snap_merge_end_stack,
	[SNAP_MERGE_LABELS] = snap_merge_end_labels,
	[SNAP_MERGE_GAP] = snap_merge_end_gap,
	[SNAP_MERGE_THREAD] = snap_merge_end_thread,
	[SNAP_MERGE_EXAMPLE] = snap_merge_end_example,
	[SNAP_MERGE_ENTRY] = snap_merge_end_entry,
	[SNAP_MERGE_ENTRIES] = snap_merge_end_entries,
};

static const struct snap_merge_row *find_merge_row(struct snap_merge_frame *frame,
						   const struct snap_json_span *key)
{
	const struct snap_merge_shape *shape = &snap_merge_shapes[frame->kind];
	unsigned at = frame->next_row;

	/* Keys mostly come in our order. */
	for (unsigned i = 0; i < shape->row_count; i++, at++) {
		const struct snap_merge_row *row;

		if (at >= shape->row_count)
			at = 0;
		row = &shape->rows[at];
		if (snap_json_span_is(key, row->key, row->length)) {
			frame->next_row = (unsigned char)(at + 1);
			return row;
		}
	}
	return NULL;
}

/* ---- frames ---- */

/* What a container that begins is, by where it stands; SKIP: nothing that is read. */
static enum snap_merge_kind kind_of_document(struct snap_merge_reader *reader, bool object)
{
	struct snap_merge_frame *parent = &reader->frames[reader->depth];
	const struct snap_merge_shape *shape = &snap_merge_shapes[parent->kind];
	const struct snap_merge_row *row;

	if (shape->array) {
		if (!object || shape->element == SNAP_MERGE_SKIP)
			snap_merge_refuse(reader, "elements", "an array as it is documented");
		return shape->element;
	}
	if (parent->kind == SNAP_MERGE_LABELS) {
		snap_merge_refuse(reader, "labels", "strings");
		return SNAP_MERGE_SKIP;
	}
	row = find_merge_row(parent, &reader->scan.key);
	if (!row)
		return SNAP_MERGE_SKIP;
	if (row->type != SNAP_MERGE_INSIDE || snap_merge_shapes[row->number].array == object)
		snap_merge_refuse(reader, row->key, "another type of value");
	return row->number;
}

/* Of the root only what a document of its schema has is read. */
static bool is_of_schema(const struct snap_merge_reader *reader, enum snap_merge_kind kind)
{
	bool is_merged =
		kind == SNAP_MERGE_HOSTS || kind == SNAP_MERGE_MODULES || kind == SNAP_MERGE_GROUPS;

	return is_merged == reader->document->merged;
}

static void begin_document_process(struct snap_merge_reader *reader, struct snap_merge_frame *frame)
{
	struct snap_merge_document *document = reader->document;

	if (document->process_count >= UINT32_MAX - 1 ||
	    !snap_reserve_array(document->processes, document->process_capacity,
				document->process_count + 1)) {
		snap_merge_no_memory(reader);
		return;
	}
	frame->owner = (uint32_t)document->process_count;
	document->processes[document->process_count++] = (struct snap_merge_process){ 0 };
}

static void begin_container(struct snap_merge_reader *reader, bool object)
{
	const struct snap_merge_frame *parent = &reader->frames[reader->depth];
	enum snap_merge_kind kind =
		reader->depth ? kind_of_document(reader, object) : SNAP_MERGE_ROOT;
	struct snap_merge_frame frame = { .kind = (unsigned char)kind, .owner = parent->owner };

	if (parent->kind == SNAP_MERGE_ROOT && reader->depth && !is_of_schema(reader, kind))
		frame.kind = kind = SNAP_MERGE_SKIP;
	frame.values = reader->depth ? parent->values + SNAP_MERGE_MOST_FIELDS : 0;
	reader->depth++;
	if (!snap_reserve_array(reader->values, reader->value_capacity,
				frame.values + SNAP_MERGE_MOST_FIELDS)) {
		snap_merge_no_memory(reader);
		return;
	}
	if (kind == SNAP_MERGE_PROCESS)
		begin_document_process(reader, &frame);
	else if (kind == SNAP_MERGE_STACK || kind == SNAP_MERGE_GROUP)
		snap_merge_begin_stack(reader, frame.owner);
	else if (kind == SNAP_MERGE_LABELS)
		reader->label_count = 0;
	else if (kind == SNAP_MERGE_ENTRIES)
		snap_merge_begin_entries(reader);
	else if (kind == SNAP_MERGE_GROUPS ||
		 (kind == SNAP_MERGE_PROCESSES && parent->kind == SNAP_MERGE_ROOT))
		reader->has_groups = true;
	reader->frames[reader->depth] = frame;
}

static void end_container(struct snap_merge_reader *reader)
{
	void (*end)(struct snap_merge_reader * reader) = ends[reader->frames[reader->depth].kind];

	if (end)
		end(reader);
	reader->depth--;
}

/* ---- values ---- */

static bool is_hex_span(const struct snap_json_span *span)
{
	if (span->length < 3 || span->length > 18 || memcmp(span->bytes, "0x", 2) != 0)
		return false;
	for (size_t i = 2; i < span->length; i++)
		if (!memchr("0123456789abcdef", span->bytes[i], 16))
			return false;
	return true;
}

/* Whether the value that came is what a row says. */
static bool is_of_type(const struct snap_merge_reader *reader, enum snap_merge_type type,
		       enum snap_json_token token)
{
	switch (type) {
	case SNAP_MERGE_TEXT:
		return token == SNAP_JSON_STRING;
	case SNAP_MERGE_HEX:
		return token == SNAP_JSON_STRING && is_hex_span(&reader->scan.text);
	case SNAP_MERGE_NUMBER:
		return token == SNAP_JSON_INTEGER && reader->scan.integer >= 0;
	case SNAP_MERGE_FLAG:
		return token == SNAP_JSON_TRUE || token == SNAP_JSON_FALSE;
	case SNAP_MERGE_INSIDE:
		return false;
	}
	return false;
}

static const char *const type_names[] = {
	[SNAP_MERGE_TEXT] = "a string",
	[SNAP_MERGE_HEX] = "a string such as 0x1234",
	[SNAP_MERGE_NUMBER] = "a number from 0",
	[SNAP_MERGE_FLAG] = "true or false",
	[SNAP_MERGE_INSIDE] = "an object or an array",
};

static void take_time(struct snap_merge_reader *reader, enum snap_json_token token)
{
	static const struct snap_json_span none;
	struct snap_merge_document *document = reader->document;
	int64_t time =
		snap_merge_time(reader, token == SNAP_JSON_STRING ? &reader->scan.text : &none);

	if (!snap_reserve_array(document->times, document->time_capacity, document->time_count + 1))
		snap_merge_no_memory(reader);
	else
		document->times[document->time_count++] = time;
}

static void take_value(struct snap_merge_reader *reader, enum snap_json_token token)
{
	struct snap_merge_frame *frame = &reader->frames[reader->depth];
	const struct snap_merge_row *row;
	struct snap_merge_value *value;

	if (frame->kind == SNAP_MERGE_SKIP)
		return;
	if (frame->kind == SNAP_MERGE_TIMES) {
		take_time(reader, token);
		return;
	}
	if (frame->kind == SNAP_MERGE_LABELS) {
		snap_merge_take_label(reader, token);
		return;
	}
	if (snap_merge_shapes[frame->kind].array) {
		snap_merge_refuse(reader, "elements", "an array of objects");
		return;
	}
	row = find_merge_row(frame, &reader->scan.key);
	if (!row)
		return;
	if (!is_of_type(reader, row->type, token)) {
		snap_merge_refuse(reader, row->key, type_names[row->type]);
		return;
	}
	value = &reader->values[frame->values + row->number];
	frame->given |= 1u << row->number;
	value->text = reader->scan.text;
	value->number = token == SNAP_JSON_INTEGER ? reader->scan.integer : token == SNAP_JSON_TRUE;
}

/* What is in a container that is not read. False: the document is broken. */
static bool skip_value(struct snap_merge_reader *reader)
{
	size_t depth = reader->scan.depth;
	enum snap_json_token token;

	do
		token = snap_json_scan_next(&reader->scan);
	while (token != SNAP_JSON_BROKEN && token != SNAP_JSON_DONE && reader->scan.depth >= depth);
	return token != SNAP_JSON_BROKEN;
}

/* ---- the document ---- */

enum schema { OTHER, SNAPSHOT, MERGED, BROKEN };

/* By the key "schema", which is the first one if the document is ours. */
static enum schema look_for_schema(struct snap_json_scan *scan, const char *bytes)
{
	enum snap_json_token token;

	snap_json_scan_begin(scan, bytes);
	while ((token = snap_json_scan_next(scan)) != SNAP_JSON_BROKEN && token != SNAP_JSON_DONE) {
		if (token != SNAP_JSON_STRING || scan->depth != 1 || !scan->in_object[1] ||
		    !snap_json_span_is(&scan->key, "schema", 6))
			continue;
		if (snap_json_span_is(&scan->text, "stacksnap.snapshot", 18))
			return SNAPSHOT;
		return snap_json_span_is(&scan->text, "stacksnap.merged", 16) ? MERGED : OTHER;
	}
	return token == SNAP_JSON_BROKEN ? BROKEN : OTHER;
}

/* False: the document is broken. */
static bool read_tokens(struct snap_merge_reader *reader, const char *bytes)
{
	snap_json_scan_begin(&reader->scan, bytes);
	for (;;) {
		enum snap_json_token token = snap_json_scan_next(&reader->scan);

		if (token == SNAP_JSON_BROKEN)
			return false;
		if (token == SNAP_JSON_DONE)
			return true;
		/* After an error only the end of the document is looked for. */
		if (reader->error)
			continue;
		if (token == SNAP_JSON_OBJECT || token == SNAP_JSON_ARRAY) {
			begin_container(reader, token == SNAP_JSON_OBJECT);
			if (reader->error || reader->frames[reader->depth].kind != SNAP_MERGE_SKIP)
				continue;
			if (!skip_value(reader))
				return false;
			reader->depth--;
		} else if (token == SNAP_JSON_OBJECT_END || token == SNAP_JSON_ARRAY_END) {
			end_container(reader);
		} else {
			take_value(reader, token);
		}
	}
}

struct stacksnap_error *snap_merge_read(struct snap_merge_reader *reader, const char *bytes,
					struct snap_merge_document *document, const char **end_ret)
{
	enum schema schema;
	bool whole;

	snap_merge_document_clear(document);
	reader->document = document;
	reader->depth = 0;
	reader->frames[0] = (struct snap_merge_frame){ .owner = UINT32_MAX };
	reader->has_groups = false;
	reader->time_at = 0;
	reader->error = NULL;
	schema = look_for_schema(&reader->scan, bytes);
	document->merged = schema == MERGED;
	if (schema == OTHER)
		reader->error = snap_error_format(
			SNAP_ERROR_FORMAT, "a JSON document, but not a snapshot of stacksnap");
	whole = read_tokens(reader, bytes);
	*end_ret = reader->scan.at;
	document->broken = !whole;
	if (whole && !reader->error)
		snap_merge_check_document(reader);
	if (whole || (reader->error && snap_error_code(reader->error) == SNAP_ERROR_NO_MEMORY))
		return snap_take_ptr(reader->error);
	snap_error_destroy(snap_take_ptr(reader->error));
	return snap_error_format(SNAP_ERROR_FORMAT, "it is broken: %s", reader->scan.why);
}
