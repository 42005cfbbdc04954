/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where HotSpot keeps its threads and their monitors: the table of fields that libjvm.so exports,
 * and the plan to copy them.
 */
#include "analyze/runtime/java/java.h"
#include "analyze/runtime/memory.h"
#include "analyze/runtime/symbol.h"
#include "base/text.h"

enum { STEPS = 7, POINTER = 8 };

static const struct snap_java_row monitor_rows[SNAP_JAVA_FIELDS] = {
	[SNAP_JAVA_LIST] = { "ThreadsSMRSupport", NULL, "_java_thread_list", NULL, true },
	[SNAP_JAVA_LENGTH] = { "ThreadsList", NULL, "_length", NULL, false },
	[SNAP_JAVA_THREADS] = { "ThreadsList", NULL, "_threads", NULL, false },
	[SNAP_JAVA_OS_THREAD] = { "JavaThread", "Thread", "_osthread", NULL, false },
	[SNAP_JAVA_PENDING] = { "JavaThread", "Thread", "_current_pending_monitor", NULL, false },
	[SNAP_JAVA_STACK_BASE] = { "JavaThread", "Thread", "_stack_base", NULL, false },
	[SNAP_JAVA_STACK_SIZE] = { "JavaThread", "Thread", "_stack_size", NULL, false },
	[SNAP_JAVA_TID] = { "OSThread", NULL, "_thread_id", NULL, false },
	[SNAP_JAVA_OWNER] = { "ObjectMonitor", NULL, "_owner", NULL, false },
};

bool snap_java_find(const struct snap_runtime_process *process, struct snap_java *ret)
{
	size_t count;
	struct snap_module *list = snap_modules_list(process->modules, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t pointer;

		if (list[i].kind != SNAP_MODULE_FILE ||
		    !snap_begins_with(snap_base_name(list[i].path), "libjvm.so") ||
		    !snap_runtime_has_code(&list[i]))
			continue;
		pointer = snap_runtime_exported(process, &list[i], "gHotSpotVMStructs");
		if (!pointer)
			continue;
		*ret = (struct snap_java){ .process = process,
					   .first = list[i].start,
					   .last = list[i].end,
					   .pointer = pointer };
		return true;
	}
	return false;
}

/* ---- the table ---- */

/* The text that the pointer leads to, if it lies in libjvm.so; it need not end. */
static bool read_name(const struct snap_java *java, uint64_t pointer,
		      char name[SNAP_JAVA_MOST_NAME])
{
	return pointer >= java->first && pointer < java->last &&
	       java->last - pointer >= SNAP_JAVA_MOST_NAME &&
	       snap_runtime_read(java->process, pointer, name, SNAP_JAVA_MOST_NAME);
}

static bool is_name(const char *wanted, const char name[SNAP_JAVA_MOST_NAME])
{
	return wanted && strncmp(wanted, name, SNAP_JAVA_MOST_NAME) == 0;
}

/* Whether libjvm.so has its data at an address: in its mappings, or in the memory behind them. */
static bool is_data_of_jvm(const struct snap_java *java, uint64_t address)
{
	const struct snap_map *map = snap_process_map(java->process->process, address);

	return map && address % POINTER == 0 &&
	       (map->inode ? address >= java->first && address < java->last
			   : map->start == java->last && !map->path);
}

/* What an entry says of a field; UINT64_MAX: nothing that could be. */
static uint64_t value_of_java_field(const struct snap_java *java, const uint8_t *entry,
				    bool wants_static)
{
	bool is_static = snap_runtime_field(entry, SNAP_JAVA_ENTRY_STATIC, 4);
	uint64_t offset = snap_runtime_field(entry, SNAP_JAVA_ENTRY_OFFSET, 8);
	uint64_t address = snap_runtime_field(entry, SNAP_JAVA_ENTRY_ADDRESS, 8);

	if (is_static != wants_static)
		return UINT64_MAX;
	if (is_static)
		return is_data_of_jvm(java, address) ? address : UINT64_MAX;
	return offset < SNAP_JAVA_MOST_OFFSET ? offset : UINT64_MAX;
}

/* Takes what an entry says; of two entries for one field the first counts. */
static void take_java_entry(const struct snap_java *java, const uint8_t *entry,
			    const struct snap_java_row *rows, size_t count, uint64_t *fields,
			    size_t *known)
{
	char type[SNAP_JAVA_MOST_NAME], name[SNAP_JAVA_MOST_NAME];

	if (!read_name(java, snap_runtime_field(entry, SNAP_JAVA_ENTRY_TYPE, 8), type) ||
	    !read_name(java, snap_runtime_field(entry, SNAP_JAVA_ENTRY_FIELD, 8), name))
		return;
	for (size_t i = 0; i < count; i++) {
		if (fields[i] != UINT64_MAX ||
		    !(is_name(rows[i].name, name) || is_name(rows[i].other_name, name)) ||
		    !(is_name(rows[i].type, type) || is_name(rows[i].other_type, type)))
			continue;
		fields[i] = value_of_java_field(java, entry, rows[i].is_static);
		*known += fields[i] != UINT64_MAX;
	}
}

bool snap_java_read_fields(struct snap_java *java, const struct snap_java_row *rows, size_t count,
			   uint64_t *fields)
{
	size_t known = 0;

	for (size_t i = 0; i < count; i++)
		fields[i] = UINT64_MAX;
	if (!is_data_of_jvm(java, java->pointer) ||
	    !snap_runtime_word(java->process, java->pointer, &java->table) ||
	    !is_data_of_jvm(java, java->table))
		return false;
	for (size_t i = 0; i < SNAP_JAVA_MOST_ENTRIES && known < count; i++) {
		uint8_t entry[SNAP_JAVA_ENTRY];

		if (!snap_runtime_read(java->process, java->table + i * SNAP_JAVA_ENTRY, entry,
				       sizeof(entry)) ||
		    snap_runtime_field(entry, SNAP_JAVA_ENTRY_TYPE, 8) == 0)
			break;
		take_java_entry(java, entry, rows, count, fields, &known);
		java->entry_count = i + 1;
	}
	return true;
}

bool snap_java_read_layout(struct snap_java *java)
{
	return snap_java_read_fields(java, monitor_rows, SNAP_JAVA_FIELDS, java->fields) &&
	       snap_all(SNAP_JAVA_FIELDS, i, java->fields[i] != UINT64_MAX);
}

/* ---- the plan ---- */

static uint8_t add_java_step(struct snap_memory_plan *plan, struct snap_plan_step step)
{
	plan->steps[plan->step_count++] = step;
	return (uint8_t)plan->step_count;
}

static uint8_t add_java_literal(struct snap_memory_plan *plan, uint64_t address, size_t len)
{
	return add_java_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							    .source = SNAP_PLAN_LITERAL,
							    .address = address,
							    .len = (uint32_t)len });
}

static uint8_t add_java_read(struct snap_memory_plan *plan, uint8_t source, uint64_t field,
			     uint64_t len)
{
	return add_java_step(plan, (struct snap_plan_step){ .op = SNAP_PLAN_READ,
							    .source = source,
							    .field = (uint16_t)field,
							    .len = (uint32_t)len });
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

bool snap_java_plan(const struct snap_java *java, struct snap_memory_plan *plan)
{
	const uint64_t *fields = java->fields;
	uint64_t thread_size =
		max_of(max_of(fields[SNAP_JAVA_OS_THREAD], fields[SNAP_JAVA_PENDING]),
		       max_of(fields[SNAP_JAVA_STACK_BASE], fields[SNAP_JAVA_STACK_SIZE]));
	uint8_t word, list, threads;
	struct snap_plan_step step;

	if (!snap_memory_plan_has_room(plan, STEPS))
		return false;
	add_java_literal(plan, java->pointer, POINTER);
	add_java_literal(plan, java->table, java->entry_count * SNAP_JAVA_ENTRY);
	word = add_java_literal(plan, fields[SNAP_JAVA_LIST], POINTER);
	list = add_java_read(plan, word, 0,
			     max_of(fields[SNAP_JAVA_LENGTH], fields[SNAP_JAVA_THREADS]) + POINTER);
	step = (struct snap_plan_step){ .op = SNAP_PLAN_EACH,
					.source = list,
					.field = (uint16_t)fields[SNAP_JAVA_THREADS],
					.count = (uint16_t)fields[SNAP_JAVA_LENGTH],
					.count_width = 4,
					.len = (uint32_t)thread_size + POINTER,
					.max = SNAP_JAVA_MOST_THREADS };
	threads = add_java_step(plan, step);
	add_java_read(plan, threads, fields[SNAP_JAVA_OS_THREAD], fields[SNAP_JAVA_TID] + POINTER);
	add_java_read(plan, threads, fields[SNAP_JAVA_PENDING], fields[SNAP_JAVA_OWNER] + POINTER);
	return true;
}
