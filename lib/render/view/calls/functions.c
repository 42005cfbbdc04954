/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See functions.h. */
#include "render/view/calls/functions.h"

#include "base/bsearch.h"
#include "base/buffer.h"

#include <stdlib.h>

void snap_call_functions_deinit(struct snap_call_functions *functions)
{
	free(functions->functions);
	free(functions->numbers);
	snap_hash_table_deinit(&functions->table);
	snap_pointer_table_deinit(&functions->frames);
}

const char *snap_call_name(const struct snap_options *options, const struct snap_entry *entry)
{
	if (options->raw_names && entry->symbol)
		return entry->symbol;
	return entry->function ? entry->function : entry->symbol;
}

static struct snap_call_function function_of(const struct snap_options *options,
					     const struct snap_frame *frame,
					     const struct snap_entry *entry)
{
	struct snap_call_function function = {
		.name = snap_call_name(options, entry),
		.place = frame->module ? frame->module : entry->file,
		.kernel = entry->kernel,
	};

	if (!function.name) {
		function.has_offset = frame->has_offset;
		function.number = frame->has_offset ? frame->offset : frame->address;
	}
	return function;
}

static uint64_t hash(const struct snap_call_function *function)
{
	uint64_t sum = snap_hash_number(function->number, function->kind);

	return snap_hash_text(function->name, snap_hash_text(function->place, sum));
}

static int compare_called_texts(const char *a, const char *b)
{
	if (!a || !b)
		return snap_compare(!a, !b);
	return a == b ? 0 : strcmp(a, b);
}

int snap_call_function_compare(const struct snap_call_function *a,
			       const struct snap_call_function *b)
{
	return compare_called_texts(a->name, b->name) ?:
	       compare_called_texts(a->place, b->place) ?: snap_compare(a->kind, b->kind) ?:
	       snap_compare(a->number, b->number) ?:
	       snap_compare(a->has_offset, b->has_offset) ?: snap_compare(a->kernel, b->kernel);
}

static bool find_call_function(struct snap_call_functions *functions,
			       const struct snap_call_function *wanted, uint32_t *ret)
{
	uint64_t key = hash(wanted);
	struct snap_probe probe = snap_hash_table_probe(&functions->table, key);
	size_t count = functions->count;

	while (snap_probe_next(&probe)) {
		*ret = probe.number;
		if (snap_call_function_compare(&functions->functions[probe.number], wanted) == 0)
			return true;
	}
	if (!snap_reserve_array(functions->functions, functions->capacity, count + 1) ||
	    !snap_hash_table_add(&functions->table, key, count))
		return false;
	functions->functions[functions->count++] = *wanted;
	*ret = (uint32_t)count;
	return true;
}

const uint32_t *snap_call_functions_of(struct snap_call_functions *functions,
				       const struct snap_frame *frame)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&functions->frames, frame);
	size_t begin = functions->number_count;

	if (!found)
		return NULL;
	if (found->number)
		return &functions->numbers[found->number - 1];
	if (!snap_reserve_array(functions->numbers, functions->number_capacity,
				begin + frame->entry_count + 1))
		return NULL;
	for (size_t i = 0; i < frame->entry_count; i++) {
		struct snap_call_function function =
			function_of(functions->options, frame, &frame->entries[i]);

		if (!find_call_function(functions, &function, &functions->numbers[begin + i]))
			return NULL;
	}
	functions->number_count = begin + frame->entry_count;
	found->number = begin + 1;
	return &functions->numbers[begin];
}

bool snap_call_functions_of_kind(struct snap_call_functions *functions, enum snap_call_kind kind,
				 uint64_t number, uint32_t *ret)
{
	struct snap_call_function function = { .kind = kind, .number = number };

	return find_call_function(functions, &function, ret);
}
