/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The tracing child's reading of memory: mappings, the first pages of modules, registers, stacks.
 * process_vm_readv in batches of many threads: one call a thread costs 10 % of the whole pause.
 */
#include "capture/tracer_child.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

enum {
	PAGE = 4096,
	VECTORS = 1024,        /* UIO_MAXIOV */
	BATCH_BYTES = 4 << 20, /* what one call copies between two looks at the clock */
	LARGEST_VDSO = 1 << 20,
	LONGEST_LINE = SNAP_MAX_PATH + 256,
	NEAR_MAPS = 3, /* the stack of the next thread lies so near */
	MOST_REFERENCE_PCS = 1 << 16,
	SAMPLES = 32, /* stacks that are measured before the stop */
	SAMPLE_TEXT = 256,
	USUAL_STACK = 8192,
	LARGE_STACK = 1 << 16, /* the most that is made ready for each */
	SPARE_BYTES = 1 << 16,
};

struct snap_want {
	uint64_t address;
	uint64_t size;
};

struct snap_batch {
	struct iovec remote[VECTORS];
	uint32_t tracees[VECTORS];
	size_t count, bytes;
};

static const char *keep_path(struct snap_region *region, const struct snap_map *before,
			     const char *path, size_t length)
{
	if (length == 0)
		return NULL;
	if (length > SNAP_MAX_PATH)
		length = SNAP_MAX_PATH;
	/* The mappings of a file follow each other. */
	if (before && before->path && strlen(before->path) == length &&
	    memcmp(before->path, path, length) == 0)
		return before->path;
	return snap_region_text(region, path, length);
}

int snap_tracer_read_maps(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_region *records = &tracer->shared->records;
	_cleanup_fd_ int fd = snap_procfs_task_open_file(tracer->task_fds[process], tid, "maps");
	struct snap_lines lines;
	struct snap_map *maps;
	size_t count = 0, length;
	char *line;
	int more;

	if (fd < 0)
		return fd;
	snap_lines_init(&lines, fd, tracer->buffer, SNAP_TRACER_BUFFER);
	while ((more = snap_lines_next(&lines, &line, &length)) > 0 && count < SNAP_MAX_MAPS) {
		struct snap_map *map = &tracer->maps[count];
		const struct snap_map *before = count ? map - 1 : NULL;
		const char *path;
		size_t path_length;

		if (!snap_parse_map(line, length, map, &path, &path_length))
			continue;
		/* What must hold for maps, whatever changed while they were read. */
		if (map->start >= map->end || (before && map->start < before->end))
			continue;
		map->path = keep_path(records, before, path, path_length);
		count++;
	}
	if (more < 0)
		return more;
	if (count == 0)
		return -ESRCH;
	maps = snap_region_new_array(records, count, struct snap_map);
	if (!maps)
		return -ENOMEM;
	memcpy(maps, tracer->maps, count * sizeof(*maps));
	traced->maps = maps;
	traced->map_count = count;
	return 0;
}

static bool is_vdso(const struct snap_map *map)
{
	return map->path && strcmp(map->path, "[vdso]") == 0;
}

static bool same_file(const struct snap_map *a, const struct snap_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* The first mapping of an ELF file that has code: its head holds the build id. */
static bool is_head(const struct snap_map *maps, size_t count, size_t index)
{
	const struct snap_map *map = &maps[index];

	if (map->inode == 0 || map->offset != 0 || !map->read)
		return false;
	for (size_t i = index; i < count && same_file(map, &maps[i]); i++) {
		if (maps[i].execute)
			return true;
	}
	return false;
}

static size_t piece_size(const struct snap_map *maps, size_t count, size_t index)
{
	size_t size = maps[index].end - maps[index].start;

	if (is_vdso(&maps[index]))
		return size < LARGEST_VDSO ? size : LARGEST_VDSO;
	if (!is_head(maps, count, index))
		return 0;
	return size < PAGE ? size : PAGE;
}

/* Reads as many whole pieces as can be read from the front; how many. */
static size_t read_pieces(pid_t tid, uint8_t *bytes, struct snap_piece *pieces, size_t count)
{
	struct iovec remote[64], local;
	size_t done = 0, total = 0;
	ssize_t got;

	if (count > SNAP_ARRAY_SIZE(remote))
		count = SNAP_ARRAY_SIZE(remote);
	for (size_t i = 0; i < count; i++) {
		remote[i] = (struct iovec){ (void *)(uintptr_t)pieces[i].address, pieces[i].size };
		pieces[i].data = bytes + total;
		total += pieces[i].size;
	}
	local = (struct iovec){ bytes, total };
	got = process_vm_readv(tid, &local, 1, remote, count, 0);
	for (total = 0; done < count; done++) {
		total += pieces[done].size;
		if (got < (ssize_t)total)
			break;
	}
	return done;
}

void snap_tracer_read_pieces(struct snap_tracer *tracer, uint32_t process, pid_t tid)
{
	struct snap_traced *traced = &tracer->stop->processes[process];
	struct snap_region *records = &tracer->shared->records;
	size_t wanted = 0, bytes = 0, read = 0;
	struct snap_piece *pieces;
	uint8_t *data;

	for (size_t i = 0; i < traced->map_count; i++) {
		size_t size = piece_size(traced->maps, traced->map_count, i);

		wanted += size != 0;
		bytes += size;
	}
	pieces = snap_region_new_array(records, wanted, struct snap_piece);
	data = snap_region_alloc(records, bytes);
	if (!wanted || !pieces || !data)
		return;
	wanted = 0;
	for (size_t i = 0; i < traced->map_count; i++) {
		size_t size = piece_size(traced->maps, traced->map_count, i);

		if (size)
			pieces[wanted++] = (struct snap_piece){ .address = traced->maps[i].start,
								.size = size };
	}
	for (size_t i = 0; i < wanted;) {
		size_t whole = read_pieces(tid, data, pieces + i, wanted - i);

		for (size_t k = 0; k < whole; k++) {
			pieces[read] = pieces[i + k];
			data += pieces[read++].size;
		}
		/* The one after them cannot be read. */
		i += whole + (whole == 0);
	}
	traced->pieces = pieces;
	traced->piece_count = read;
}

/* Threads that were made one after the other have their stacks near each other. */
static const struct snap_map *find_map(struct snap_tracer *tracer,
				       const struct snap_traced *process, uint64_t address)
{
	size_t from = tracer->last_map > NEAR_MAPS ? tracer->last_map - NEAR_MAPS : 0;
	size_t low = 0, high = process->map_count;

	for (size_t i = from; i < high && i <= tracer->last_map + NEAR_MAPS; i++) {
		const struct snap_map *map = &process->maps[i];

		if (map->start <= address && address < map->end) {
			tracer->last_map = i;
			return map;
		}
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (process->maps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == process->map_count || process->maps[low].start > address)
		return NULL;
	tracer->last_map = low;
	return &process->maps[low];
}

/* The stack pointer of a thread that waits in the kernel, 0: it runs, or it cannot be read. */
static uint64_t sample_stack_pointer(struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	ssize_t length = snap_procfs_task_read(tracer->task_fds[tracee->process], tracee->tid,
					       "syscall", tracer->buffer, SAMPLE_TEXT);
	unsigned field = 0;
	uint64_t value = 0;

	/* "NUMBER 0xARGUMENT … 0xSP 0xPC": the last but one; for calls that are none, fewer. */
	for (ssize_t i = length; i > 0 && field < 2; i--)
		field += tracer->buffer[i - 1] == ' ' ? 1 : 0, length = i;
	if (field < 2 || tracer->buffer[length] != '0' || tracer->buffer[length + 1] != 'x')
		return 0;
	for (const char *at = tracer->buffer + length + 2; *at != ' '; at++)
		value = value << 4 | (unsigned)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return value;
}

/*
 * Memory that is ready and not needed is memory all the same, and what is not ready is put there
 * in the pause, page by page: so a few stacks are measured beforehand.
 */
uint64_t snap_tracer_expect(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack, sum = 0, expected;
	uint32_t step = tracer->count / SAMPLES + 1, samples = 0;

	for (uint32_t i = step / 2; step > 1 && i < tracer->count; i += step) {
		const struct snap_tracee *tracee = &tracer->tracees[i];
		uint64_t sp = sample_stack_pointer(tracer, tracee);
		const struct snap_map *map =
			sp ? find_map(tracer, snap_tracer_process(tracer, tracee), sp) : NULL;

		if (!map)
			continue;
		samples++;
		sum += map->end - sp < most ? map->end - sp : most;
	}
	expected = samples ? sum / samples + SNAP_STACK_MARGIN : USUAL_STACK;
	expected = expected < LARGE_STACK ? expected : LARGE_STACK;
	return expected * tracer->count + SPARE_BYTES;
}

void snap_tracer_reserve_copies(struct snap_tracer *tracer, uint64_t stack_bytes)
{
	snap_region_prefault(&tracer->shared->records,
			     tracer->count * (size_t)(sizeof(struct user_regs_struct) + 16));
	snap_region_prefault(&tracer->shared->stacks, stack_bytes);
}

static uint64_t stack_pointer(const struct user_regs_struct *registers)
{
#if defined(__x86_64__)
	return registers->rsp;
#elif defined(__aarch64__)
	return registers->sp;
#else
#error "say where the stack pointer is, and add the architecture to enum snap_arch"
#endif
}

static enum snap_arch own_arch(void)
{
#if defined(__x86_64__)
	return SNAP_ARCH_X86_64;
#else
	return SNAP_ARCH_AARCH64;
#endif
}

/* A 32-bit thread has a shorter set: that is how it is known (68 bytes on i386). */
static void read_registers(struct snap_tracer *tracer, struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	struct snap_region *records = &tracer->shared->records;
	struct user_regs_struct *registers = snap_region_alloc(records, sizeof(*registers));
	struct iovec vector = { registers, sizeof(*registers) };

	if (!registers)
		return;
	if (ptrace(PTRACE_GETREGSET, tracee->tid, NT_PRSTATUS, &vector)) {
		/* SIGKILL ends even a stopped thread. */
		if (errno == ESRCH)
			snap_tracer_gone(tracer, tracee);
		return;
	}
	if (vector.iov_len != sizeof(*registers)) {
		process->unsupported = true;
		thread->result = SNAP_THREAD_UNTRACED;
		return;
	}
	process->arch = own_arch();
	thread->registers = registers;
	thread->registers_size = sizeof(*registers);
	thread->stack_unreadable = true; /* until its bytes are there */
	thread->result = SNAP_THREAD_COPIED;
}

/* Where the stack of a stopped thread is, and how much of it there is. */
static struct snap_want plan_one(struct snap_tracer *tracer, const struct snap_tracee *tracee)
{
	struct snap_traced *process = snap_tracer_process(tracer, tracee);
	struct snap_thread *thread = snap_tracer_thread(tracer, tracee);
	uint64_t sp = stack_pointer(thread->registers), start;
	const struct snap_map *map = find_map(tracer, process, sp);

	/* A stack that grew, a thread or a program that is new: once a process, and it is rare. */
	if (!map && !tracer->maps_read_again[tracee->process]) {
		tracer->maps_read_again[tracee->process] = true;
		snap_tracer_read_maps(tracer, tracee->process, tracee->tid);
		map = find_map(tracer, process, sp);
	}
	if (!map || !map->read)
		return (struct snap_want){ 0 };
	start = sp - map->start < SNAP_STACK_MARGIN ? map->start : sp - SNAP_STACK_MARGIN;
	start &= ~15ull;
	return (struct snap_want){ .address = start, .size = map->end - start };
}

static uint64_t total_of(const struct snap_tracer *tracer, uint64_t most)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < tracer->count; i++)
		total += tracer->wants[i].size < most ? tracer->wants[i].size : most;
	return total;
}

/* The longest stack with which all fit: the inner frames of each are worth more than one whole. */
static uint64_t plan(struct snap_tracer *tracer)
{
	uint64_t most = tracer->options->max_stack & ~15ull;
	size_t room = (size_t)(tracer->shared->stacks.end - tracer->shared->stacks.next);

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_tracee *tracee = &tracer->tracees[i];

		tracer->wants[i] = (struct snap_want){ 0 };
		if (snap_tracer_thread(tracer, tracee)->registers_size)
			tracer->wants[i] = plan_one(tracer, tracee);
	}
	while (total_of(tracer, most) > room) {
		most = (most / 2) & ~15ull;
		tracer->stop->limited = true;
	}
	return most;
}

static void got(struct snap_tracer *tracer, uint32_t index, const uint8_t *bytes, size_t size,
		size_t asked)
{
	struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[index]);

	thread->stack_address = tracer->wants[index].address;
	thread->stack = bytes;
	thread->stack_size = size;
	thread->stack_limited = size == asked && asked < tracer->wants[index].size;
	thread->stack_unreadable = size < asked;
}

/* A batch ends at its first fault: what lies behind it is read one by one. */
static void flush(struct snap_tracer *tracer, struct snap_batch *batch)
{
	uint8_t *bytes = snap_region_alloc(&tracer->shared->stacks, batch->bytes);
	struct iovec local = { bytes, batch->bytes };
	size_t at = 0;
	ssize_t copied;
	pid_t tid;

	if (!batch->count || !bytes)
		return;
	tid = tracer->tracees[batch->tracees[0]].tid;
	copied = process_vm_readv(tid, &local, 1, batch->remote, batch->count, 0);
	for (size_t i = 0; i < batch->count; at += batch->remote[i++].iov_len) {
		struct iovec *remote = &batch->remote[i];
		ssize_t size = (ssize_t)remote->iov_len;

		if (copied < (ssize_t)(at + remote->iov_len)) {
			local = (struct iovec){ bytes + at, remote->iov_len };
			size = process_vm_readv(tid, &local, 1, remote, 1, 0);
		}
		got(tracer, batch->tracees[i], bytes + at, size < 0 ? 0 : (size_t)size,
		    remote->iov_len);
	}
	batch->count = batch->bytes = 0;
}

static void copy_stacks(struct snap_tracer *tracer)
{
	struct snap_batch *batch = tracer->batch;
	uint64_t most = plan(tracer);
	uint32_t process = UINT32_MAX;

	for (uint32_t i = 0; i < tracer->count; i++) {
		const struct snap_want *want = &tracer->wants[i];
		uint64_t size = want->size < most ? want->size : most;

		if (!size)
			continue;
		if (tracer->tracees[i].process != process || batch->count == VECTORS ||
		    batch->bytes + size > BATCH_BYTES) {
			flush(tracer, batch);
			if (snap_tracer_now() > tracer->copy_until_ns)
				return;
		}
		process = tracer->tracees[i].process;
		batch->remote[batch->count] =
			(struct iovec){ (void *)(uintptr_t)want->address, size };
		batch->tracees[batch->count++] = i;
		batch->bytes += size;
	}
	flush(tracer, batch);
}

/* --engine=ptrace: another unwinder works on the thread itself, as slowly as it likes. */
static void call_hook(struct snap_tracer *tracer)
{
	uint64_t *pcs = tracer->reference_pcs;

	for (uint32_t i = 0; i < tracer->count; i++) {
		struct snap_thread *thread = snap_tracer_thread(tracer, &tracer->tracees[i]);
		uint64_t *kept;
		size_t count;

		if (thread->result != SNAP_THREAD_COPIED ||
		    snap_tracer_now() > tracer->copy_until_ns)
			continue;
		count = tracer->hook->unwind(tracer->hook->context, tracer->tracees[i].tid, pcs,
					     MOST_REFERENCE_PCS);
		kept = snap_region_new_array(&tracer->shared->records, count, uint64_t);
		if (!kept)
			continue;
		memcpy(kept, pcs, count * sizeof(*pcs));
		thread->reference_pcs = kept;
		thread->reference_pc_count = count;
	}
}

bool snap_tracer_lay_out_copies(struct snap_tracer *tracer)
{
	struct snap_region *scratch = &tracer->scratch;

	tracer->maps = snap_region_new_array(scratch, SNAP_MAX_MAPS, struct snap_map);
	tracer->wants = snap_region_new_array(scratch, SNAP_MAX_THREADS, struct snap_want);
	tracer->batch = snap_region_alloc(scratch, sizeof(*tracer->batch));
	tracer->maps_read_again = snap_region_alloc(scratch, SNAP_MAX_PROCESSES);
	tracer->reference_pcs = snap_region_new_array(scratch, MOST_REFERENCE_PCS, uint64_t);
	return tracer->maps && tracer->wants && tracer->batch && tracer->maps_read_again &&
	       tracer->reference_pcs;
}

void snap_tracer_copy(struct snap_tracer *tracer)
{
	for (uint32_t i = 0; i < tracer->count; i++) {
		if (tracer->tracees[i].phase == SNAP_TRACEE_STOPPED)
			read_registers(tracer, &tracer->tracees[i]);
	}
	copy_stacks(tracer);
	if (tracer->hook)
		call_hook(tracer);
}
