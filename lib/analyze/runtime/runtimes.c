/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The runtimes of a process, see runtimes.h. */
#include "analyze/runtime/runtimes.h"

#include "analyze/analysis.h"
#include "analyze/runtime/by_thread.h"
#include "analyze/runtime/memory.h"
#include "base/bsearch.h"

#include <stdlib.h>
#include <string.h>

const struct snap_runtime *const snap_runtimes[] = {
	&snap_runtime_cpython, &snap_runtime_go,  &snap_runtime_java,
	&snap_runtime_php,     &snap_runtime_jit, NULL,
};

/* Bytes of a stack that were copied. */
struct stretch {
	uint64_t address;
	const uint8_t *bytes;
	size_t size;
};

struct copied_memory {
	const struct snap_process *process;
	struct snap_modules *modules;
	struct stretch
		*stacks; /* sorted by address; of threads of one process they do not overlap */
	size_t stack_count;
};

SNAP_FREES(copied_memory_deinit, struct copied_memory, stacks);

SNAP_ORDER(compare_stretches, struct stretch, a, b, snap_compare(a->address, b->address));

static bool list_stacks(struct copied_memory *memory)
{
	const struct snap_process *process = memory->process;

	memory->stacks = malloc((2 * process->thread_count + 1) * sizeof(*memory->stacks));
	if (!memory->stacks)
		return false;
	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];

		if (thread->stack_size)
			memory->stacks[memory->stack_count++] =
				(struct stretch){ thread->stack_address, thread->stack,
						  thread->stack_size };
		if (thread->stack2_size)
			memory->stacks[memory->stack_count++] =
				(struct stretch){ thread->stack2_address, thread->stack2,
						  thread->stack2_size };
	}
	qsort(memory->stacks, memory->stack_count, sizeof(*memory->stacks), compare_stretches);
	return true;
}

static bool read_stretch(const struct stretch *stretch, uint64_t address, void *out, size_t size)
{
	uint64_t offset = address - stretch->address;

	if (address < stretch->address || offset > stretch->size || size > stretch->size - offset)
		return false;
	memcpy(out, stretch->bytes + offset, size);
	return true;
}

/* The last stack that begins at the address or below, or the one before: stacks may overlap. */
static bool read_stacks(const struct copied_memory *memory, uint64_t address, void *out,
			size_t size)
{
	size_t low = 0, high = memory->stack_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memory->stacks[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return (low > 0 && read_stretch(&memory->stacks[low - 1], address, out, size)) ||
	       (low > 1 && read_stretch(&memory->stacks[low - 2], address, out, size));
}

static bool read_copied(void *context, uint64_t address, void *out, size_t size)
{
	const struct copied_memory *memory = context;

	return snap_memory_image_read(memory->process->memory, address, out, size) ||
	       read_stacks(memory, address, out, size) ||
	       snap_process_read(memory->process, address, out, size) ||
	       snap_modules_read(memory->modules, address, out, size);
}

static bool find_copied(void *context, uint64_t address, uint64_t *start_ret, uint64_t *size_ret)
{
	const struct copied_memory *memory = context;

	return snap_memory_image_next(memory->process->memory, address, start_ret, size_ret);
}

/* With --no-stop the memory is what came with each thread. */
static bool is_taken_by_thread(const struct snap_process *process)
{
	for (size_t i = 0; i < process->thread_count; i++)
		if (process->threads[i].result == SNAP_THREAD_COPIED)
			return !snap_taken_at_once(process->threads[i].taken);
	return false;
}

/* What ended the first step of the plan that was not done to its end. */
static enum snap_plan_cut cut_of_image(const struct snap_memory_image *image)
{
	for (uint32_t i = 0; image && i < image->step_count && i < SNAP_PLAN_MOST_STEPS; i++)
		if (image->steps[i].cut)
			return image->steps[i].cut;
	return SNAP_PLAN_WHOLE;
}

const char *snap_runtime_why(const struct snap_runtime_process *process, const char *otherwise)
{
	switch (cut_of_image(process->process->memory)) {
	case SNAP_PLAN_CUT_TIME:
		return "its memory was not copied in time";
	case SNAP_PLAN_CUT_MEMORY:
		return "its memory is more than was to be copied";
	case SNAP_PLAN_CUT_RECORDS:
		return "its memory has more records than are followed";
	case SNAP_PLAN_WHOLE:
		break;
	}
	return otherwise;
}

static void warn_of_refusal(struct snap_analysis *analysis, const struct snap_process *process,
			    const struct snap_runtime_result *result)
{
	if (result->refused)
		snap_snapshot_warn(analysis->snapshot, "runtime_unsupported", process->pid, 0,
				   "process %d: %s", process->pid, result->refused);
}

struct stacksnap_error *snap_runtimes_read(struct snap_analysis *analysis,
					   struct snap_raw_process *raw)
{
	_cleanup_(copied_memory_deinit) struct copied_memory copied = { raw->process, raw->modules,
									NULL, 0 };
	struct snap_runtime_memory memory = { read_copied, find_copied, &copied };
	struct snap_runtime_process process = {
		.process = raw->process,
		.set = analysis->set,
		.modules = raw->modules,
		.memory = &memory,
		.options = analysis->options,
		.strings = &analysis->strings,
		.arena = snap_analysis_arena(analysis),
	};
	const bool by_thread = is_taken_by_thread(raw->process);
	const struct snap_file_finder *finder = analysis->finder;
	struct stacksnap_error *err = NULL;
	size_t count = 0;

	while (analysis->runtimes && analysis->runtimes[count])
		count++;
	if (count == 0 || !raw->process->memory || !raw->modules)
		return NULL;
	raw->runtimes =
		snap_arena_new_array(&analysis->scratch, count, struct snap_runtime_result *);
	SNAP_TRY(snap_no_memory_unless(raw->runtimes && list_stacks(&copied)));
	snap_file_finder_note_runtimes(finder, raw->process);
	for (size_t i = 0; i < count && !err; i++) {
		struct snap_runtime_result *result = NULL;

		/* A capture may have the memory of others, too. */
		if (analysis->options->runtimes & analysis->runtimes[i]->kind)
			err = by_thread ? snap_runtime_read_by_thread(analysis->runtimes[i],
								      &process, &result)
					: analysis->runtimes[i]->read(&process, &result);
		if (err || !result)
			continue;
		/* It cannot be known which of several runtimes the missing part belongs to. */
		if (cut_of_image(raw->process->memory))
			result->cut = cut_of_image(raw->process->memory);
		result->lacks = analysis->runtimes[i]->lacks;
		warn_of_refusal(analysis, raw->process, result);
		raw->runtimes[raw->runtime_count++] = result;
	}
	snap_file_finder_note_runtimes(finder, NULL);
	return err;
}

struct stacksnap_error *snap_runtime_read_process(const struct snap_runtime *runtime,
						  const struct snap_runtime_process *of,
						  struct snap_runtime_result **ret)
{
	_cleanup_(copied_memory_deinit) struct copied_memory copied = { of->process, of->modules,
									NULL, 0 };
	struct snap_runtime_memory memory = { read_copied, find_copied, &copied };
	struct snap_runtime_process process = *of;

	*ret = NULL;
	process.memory = &memory;
	return list_stacks(&copied) ? runtime->read(&process, ret) : snap_error_no_memory();
}
