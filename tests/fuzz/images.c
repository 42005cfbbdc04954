/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recorded images that an input changes: see images.h. */
#include "images.h"

#include <glob.h>
#include <string.h>

enum { MOST_IMAGES = 64 };

enum change_kind {
	CHANGE_BYTE,
	CHANGE_HALF, /* 4 bytes */
	CHANGE_WORD,
	CHANGE_POINTER, /* to somewhere else in the image */
	CHANGE_EXTREME,
	CHANGE_COPY,   /* from somewhere else in the image */
	CHANGE_REMOVE, /* a piece */
	CHANGE_CUT,    /* its end */
	CHANGE_FILE,
	CHANGE_REGISTER,
	CHANGE_STACK,
	CHANGE_KINDS,
};

static struct fuzz_image images[MOST_IMAGES];
static size_t image_count;

/* ---- images ---- */

static void add_image(const char *path)
{
	struct fuzz_image *image = &images[image_count];
	struct snap_capture *capture = recorded_open(path);
	const char *name = strrchr(path, '/') + 1;
	char kind[32];

	fuzz_check(capture != NULL && image_count < MOST_IMAGES, path);
	recorded_init(&image->recorded, capture);
	snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(name, "-"), name);
	image->runtime = recorded_runtime(kind);
	fuzz_check(image->runtime != NULL, path);
	image_count++;
}

/* Before the first input, so that it is not that one's time. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	glob_t found;

	(void)argc;
	(void)argv;
	fuzz_check(glob(RECORDED "/*.image.xz", 0, NULL, &found) == 0, RECORDED);
	for (size_t i = 0; i < found.gl_pathc; i++)
		add_image(found.gl_pathv[i]);
	globfree(&found);
	return 0;
}

/* ---- changes ---- */

static void put(struct fuzz_change *change, const uint8_t *at, const void *bytes, size_t size)
{
	/* It is ours: the capture's, or the copy of a file. */
	change->at = (uint8_t *)(uintptr_t)at;
	change->size = size;
	memcpy(change->before, at, size);
	memcpy(change->at, bytes, size);
}

static void put_in(struct fuzz_change *change, const uint8_t *bytes, size_t size, uint64_t offset,
		   uint64_t word)
{
	if (bytes && size >= FUZZ_WORD)
		put(change, bytes + offset % (size - FUZZ_WORD + 1), &word, FUZZ_WORD);
}

static uint64_t place_in(const struct snap_memory_image *image, uint64_t number)
{
	const struct snap_memory_piece *piece = &image->pieces[number % image->piece_count];

	return piece->address + ((number >> 32) % piece->size & ~7ull);
}

static void change_bytes(const struct snap_memory_image *image, struct fuzz_change *change,
			 uint8_t kind, const struct snap_memory_piece *piece, uint64_t offset,
			 uint64_t value)
{
	static const uint64_t extremes[] = {
		0, 1, UINT64_MAX, 1ull << 63, 1ull << 32, 0x7fffffff, UINT64_MAX - 7,
	};
	size_t size = kind == CHANGE_BYTE ? 1 : kind == CHANGE_HALF ? 4 : FUZZ_WORD;

	if (piece->size < size)
		return;
	offset %= piece->size - size + 1;
	if (kind != CHANGE_BYTE)
		offset &= ~3ull;
	if (kind == CHANGE_POINTER)
		value = place_in(image, value);
	if (kind == CHANGE_EXTREME)
		value = extremes[value % SNAP_ARRAY_SIZE(extremes)];
	if (kind == CHANGE_COPY &&
	    !snap_memory_image_read(image, place_in(image, value), &value, sizeof(value)))
		return;
	put(change, piece->bytes + offset, &value, size);
}

static void change_one(struct fuzz_image *image, struct fuzz_change *change,
		       struct fuzz_bytes *bytes)
{
	const struct snap_process *process = image->recorded.process;
	struct snap_memory_image *memory = process->memory;
	uint8_t kind = fuzz_u8(bytes) % CHANGE_KINDS;
	uint64_t which = fuzz_u8(bytes), offset = fuzz_u64(bytes), value = fuzz_u64(bytes);
	const struct snap_thread *thread = &process->threads[which % process->thread_count];
	struct snap_memory_piece *piece;

	*change = (struct fuzz_change){ .at = NULL };
	if (memory->piece_count == 0)
		return;
	piece = &memory->pieces[(which | offset >> 48 << 8) % memory->piece_count];
	offset &= 0xffffffffffff;
	if (kind <= CHANGE_COPY)
		change_bytes(memory, change, kind, piece, offset, value);
	else if (kind == CHANGE_REMOVE)
		memmove(piece, piece + 1,
			(size_t)(memory->pieces + --memory->piece_count - piece) * sizeof(*piece));
	else if (kind == CHANGE_CUT)
		piece->size = 1 + offset % piece->size;
	else if (kind == CHANGE_FILE && process->embedded_count)
		put_in(change, image->recorded.files[which % process->embedded_count].bytes,
		       process->embedded[which % process->embedded_count].size, offset, value);
	else if (kind == CHANGE_REGISTER)
		put_in(change, thread->registers, thread->registers_size, offset, value);
	else if (kind == CHANGE_STACK)
		put_in(change, thread->stack, thread->stack_size, offset, value);
}

void fuzz_change(struct fuzz_bytes *bytes, struct fuzz_changed *ret)
{
	struct snap_memory_image *memory;
	uint8_t which = fuzz_u8(bytes);

	ret->image = &images[which % image_count];
	ret->how = fuzz_u8(bytes);
	ret->count = 0;
	/* Pieces are taken away in a copy of their list. */
	memory = ret->image->recorded.process->memory;
	ret->whole = *memory;
	memory->pieces = malloc((memory->piece_count + 1) * sizeof(*memory->pieces));
	fuzz_check(memory->pieces != NULL, "memory");
	memcpy(memory->pieces, ret->whole.pieces, memory->piece_count * sizeof(*memory->pieces));
	while ((size_t)(bytes->end - bytes->at) >= FUZZ_CHANGE_SIZE &&
	       ret->count < FUZZ_MOST_CHANGES)
		change_one(ret->image, &ret->changes[ret->count++], bytes);
}

void fuzz_change_back(struct fuzz_changed *changed)
{
	struct snap_memory_image *memory = changed->image->recorded.process->memory;

	while (changed->count > 0) {
		const struct fuzz_change *change = &changed->changes[--changed->count];

		if (change->at)
			memcpy(change->at, change->before, change->size);
	}
	free(memory->pieces);
	*memory = changed->whole;
}

/* ---- what must hold of a result ---- */

static void check_labels(const struct snap_label *labels, size_t count)
{
	for (size_t i = 0; i < count; i++)
		fuzz_check(labels[i].key && labels[i].value, "labels are texts");
}

static void check_stack(const struct snap_runtime_stack *stack)
{
	fuzz_check(stack->end == SNAP_UNWIND_COMPLETE || stack->reason, "an end has a reason");
	for (size_t i = 0; i < stack->count; i++) {
		const struct snap_runtime_frame *frame = stack->frames[i];

		fuzz_check(frame->entry_count > 0, "a frame has a function");
		for (size_t k = 0; k < frame->entry_count; k++) {
			fuzz_check(frame->entries[k].language, "a managed function's language");
			fuzz_check(frame->entries[k].inlined == (k + 1 < frame->entry_count),
				   "the last function of a frame, and no other, is not inlined");
		}
	}
}

static void check_thread(const struct snap_runtime_thread *thread)
{
	size_t next = 0;

	check_stack(&thread->stack);
	for (size_t i = 0; i < thread->run_count; i++) {
		fuzz_check(thread->runs[i].first == next, "runs follow each other");
		next += thread->runs[i].count;
	}
	fuzz_check(next == thread->stack.count, "runs are all frames");
}

static bool has_thread(const struct snap_process *process, pid_t tid)
{
	for (size_t i = 0; i < process->thread_count; i++)
		if (process->threads[i].tid == tid)
			return true;
	return false;
}

static void check_tasks(const struct snap_process *process,
			const struct snap_runtime_result *result)
{
	unsigned long long before = 0;

	for (size_t i = 0; i < result->task_count; i++) {
		const struct snap_runtime_task *task = &result->tasks[i];
		unsigned long long id;

		fuzz_check(task->id != NULL, "a task has an id");
		id = strtoull(task->id, NULL, 0);
		fuzz_check(i == 0 || id > before, "tasks are sorted, and each is there once");
		before = id;
		fuzz_check(task->tid == 0 || has_thread(process, task->tid),
			   "a task's thread is the process's");
		fuzz_check(task->state < SNAP_TASK_STATE_COUNT, "a task's state");
		check_labels(task->labels, task->label_count);
		check_stack(&task->stack);
	}
}

void fuzz_check_result(const struct snap_process *process, const struct snap_runtime_result *result)
{
	fuzz_check(!result->refused || result->thread_count + result->task_count == 0,
		   "who is refused shows nothing");
	for (size_t i = 0; i < result->thread_count; i++) {
		fuzz_check(i == 0 || result->threads[i].tid > result->threads[i - 1].tid,
			   "threads are sorted, and each is there once");
		fuzz_check(has_thread(process, result->threads[i].tid), "a thread of the process");
		check_thread(&result->threads[i]);
	}
	for (size_t i = 0; i < result->idle_thread_count; i++)
		fuzz_check(has_thread(process, result->idle_threads[i]), "an idle thread");
	check_labels(result->labels, result->label_count);
	check_tasks(process, result);
}
