/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Offsets of fields by the debug information of the program, if it has any. They are still checked
 * against all goroutines, because a file can contain anything.
 */
#include "analyze/dwarf/fields.h"
#include "analyze/runtime/go/internal.h"

/* What has not moved since Go 1.18, and is not part of a layout. */
static bool has_not_moved(const struct snap_field *stack, const struct snap_field *thread,
			  const struct snap_field *saved)
{
	return stack->offset == SNAP_GO_STACK_LOW && thread->offset == SNAP_GO_THREAD &&
	       saved->offset == SNAP_GO_SAVED_SP;
}

static bool is_within(const struct snap_field *field, unsigned bytes)
{
	return field->offset <= bytes - sizeof(uint64_t);
}

bool snap_go_described_layout(const struct snap_go *go, struct snap_go_layout *ret)
{
	struct snap_go_layout layout = { .first = 0 };
	const struct {
		const char *structure, *name;
		uint16_t *offset;
	} wanted[] = {
		{ "runtime.g", "atomicstatus", &layout.status },
		{ "runtime.g", "goid", &layout.id },
		{ "runtime.g", "waitsince", &layout.wait_since },
		{ "runtime.g", "waitreason", &layout.wait_reason },
		{ "runtime.g", "lockedm", &layout.locked_thread },
		{ "runtime.g", "gopc", &layout.creator },
		{ "runtime.g", "startpc", &layout.start },
		{ "runtime.g", "syscallsp", &layout.call_sp },
		{ "runtime.g", "labels", &layout.labels },
		{ "runtime.g", "parentGoid", &layout.parent }, /* 1.21 */
		{ "runtime.g", "bubble", &layout.bubble },     /* 1.25 */
		{ "runtime.m", "procid", &layout.thread_tid },
		{ "runtime.m", "gsignal", &layout.thread_signal_stack },
		{ "runtime.g", "stack", NULL },
		{ "runtime.g", "m", NULL },
		{ "runtime.g", "sched", NULL },
	};
	struct snap_field fields[SNAP_ARRAY_SIZE(wanted)];
	const size_t count = SNAP_ARRAY_SIZE(wanted);

	for (size_t i = 0; i < count; i++)
		fields[i] = (struct snap_field){ wanted[i].structure, wanted[i].name, 0 };
	if (!snap_dwarf_fields(go->runtime->module->file->image, "runtime", fields, count) ||
	    !has_not_moved(&fields[count - 3], &fields[count - 2], &fields[count - 1]))
		return false;
	for (size_t i = 0; i < count - 3; i++) {
		const bool is_optional =
			wanted[i].offset == &layout.parent || wanted[i].offset == &layout.bubble;
		const bool is_of_thread = fields[i].structure[sizeof("runtime.") - 1] == 'm';

		if (is_within(&fields[i],
			      is_of_thread ? SNAP_GO_THREAD_BYTES : SNAP_GO_GOROUTINE_BYTES))
			*wanted[i].offset = fields[i].offset;
		else if (!is_optional)
			return false;
	}
	layout.labels_are_slices = go->minor == 0 || go->minor >= 24;
	*ret = layout;
	return true;
}
