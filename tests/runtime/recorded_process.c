/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recorded image as the process that it was made of, for probes and plans: see recorded.h. */
#include "recorded.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "model/arch/registers.h"

#include <string.h>
#include <sys/mman.h>

static bool fill_from_file(const struct recorded *recorded, const struct snap_map *map,
			   uint64_t offset, uint8_t *out, size_t size)
{
	const struct snap_process *process = recorded->process;

	for (size_t i = 0; i < process->embedded_count; i++) {
		const struct snap_embedded *file = &process->embedded[i];

		if (!recorded_same_file(&process->maps[file->map], map))
			continue;
		if (offset < file->size)
			memcpy(out, recorded->files[i].bytes + offset,
			       size < file->size - offset ? size : file->size - offset);
		return true;
	}
	return false;
}

/* As far as something is mapped, from the address on. */
static size_t fill(const struct recorded *recorded, uint64_t address, uint8_t *out, size_t size)
{
	const struct snap_process *process = recorded->process;
	const struct snap_map *map = snap_process_map(process, address);
	size_t done = 0;

	memset(out, 0, size);
	for (; map && done < size && map < process->maps + process->map_count &&
	       map->start <= address && map->read;
	     map++) {
		uint64_t part = map->end - address;

		if (part > size - done)
			part = size - done;
		if (map->inode &&
		    !fill_from_file(recorded, map, map->offset + (address - map->start), out + done,
				    part))
			break;
		done += part;
		address += part;
	}
	return done;
}

static size_t read_some(const struct recorded *recorded, uint64_t address, uint8_t *out,
			size_t size)
{
	const struct snap_memory_image *memory = recorded->process->memory;
	size_t done = fill(recorded, address, out, size);
	uint64_t at = address, start, bytes;

	while (snap_memory_image_next(memory, at, &start, &bytes) && start < address + done) {
		if (bytes > address + done - start)
			bytes = address + done - start;
		if (!snap_memory_image_read(memory, start, out + (start - address), bytes))
			return 0;
		at = start + bytes;
	}
	return done;
}

static bool read_process(void *context, uint64_t address, void *out, size_t size)
{
	return address + size >= address && read_some(context, address, out, size) == size;
}

static size_t read_ranges(void *context, uint8_t *bytes, const struct iovec *ranges, size_t count)
{
	size_t done = 0;

	for (size_t i = 0; i < count; i++) {
		size_t got = read_some(context, (uintptr_t)ranges[i].iov_base, bytes + done,
				       ranges[i].iov_len);

		done += got;
		if (got < ranges[i].iov_len)
			break;
	}
	return done;
}

struct snap_runtime_memory recorded_process(struct recorded *recorded)
{
	return (struct snap_runtime_memory){ .read = read_process, .context = recorded };
}

/* ---- the plan ---- */

static struct snap_region map_region(size_t size)
{
	uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return (struct snap_region){ memory, memory + size };
}

void recorded_room_init(struct recorded_room *room)
{
	room->room = map_region(room->budget.bytes + room->budget.bytes / 4);
	room->work = map_region(snap_plan_work_bytes(&room->budget));
}

void recorded_room_deinit(struct recorded_room *room)
{
	munmap(room->room.next, (size_t)(room->room.end - room->room.next));
	munmap(room->work.next, (size_t)(room->work.end - room->work.next));
}

static struct snap_plan_thread *list_threads(const struct snap_process *process)
{
	struct snap_plan_thread *list = calloc(process->thread_count + 1, sizeof(*list));
	struct snap_x86_64_registers registers;

	for (size_t i = 0; list && i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];

		list[i].tid = (uint64_t)thread->tid;
		if (thread->registers_size < sizeof(registers))
			continue;
		memcpy(&registers, thread->registers, sizeof(registers));
		list[i] = (struct snap_plan_thread){ .tid = (uint64_t)thread->tid,
						     .rip = registers.rip,
						     .rsp = registers.rsp,
						     .rbp = registers.rbp,
						     .fs_base = registers.fs_base,
						     .rbx = registers.rbx,
						     .r12 = registers.r12,
						     .r13 = registers.r13,
						     .r14 = registers.r14,
						     .r15 = registers.r15 };
	}
	return list;
}

void recorded_execute(struct recorded *recorded, const struct snap_memory_plan *plan,
		      const struct recorded_room *room, struct snap_memory_image *ret)
{
	const struct snap_process *process = recorded->process;
	struct snap_plan_thread *threads = list_threads(process);
	struct snap_plan_task task = {
		.plan = plan,
		.threads = threads,
		.thread_count = threads ? process->thread_count : 0,
		.maps = process->maps,
		.map_count = process->map_count,
		.source = { read_ranges, recorded },
		.budget = room->budget,
		.work = room->work,
	};
	struct snap_region left = room->room;

	task.budget.until_ns += snap_clock_ns(CLOCK_MONOTONIC);
	snap_plan_execute(&task, &left, ret);
	snap_plan_finish(ret, room->room.next, left.next);
	free(threads);
}
