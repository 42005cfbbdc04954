/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Notes of a core (core(5), linux/elfcore.h): threads with their registers, the signal, the process,
 * what is mapped. And the process that comes of them. Notes are hostile: what a length promises and
 * the bytes do not have is left out.
 */
#include "core/notes.h"
#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <elf.h>
#include <signal.h>
#include <string.h>

enum {
	MOST_FILE_NOTE = 64 << 20, /* the kernel writes 4 MiB at most, for usual limits */
	MOST_AUX = 1 << 12,
	FILE_HEADER = 16,
	FILE_LINE = 24,
	SIGINFO_ADDRESS = 16,
	SIGINFO_LEAST = 24,
	SHORT_ARGS = 80,
	SHORT_NAME = 16,
};

void snap_core_notes_deinit(struct snap_core_notes *notes)
{
	free(notes->ranges);
	free(notes->threads);
	free(notes->files);
	free(notes->file_names);
	free(notes->aux_bytes);
}

/* ---- one note ---- */

bool snap_core_note_is_wanted(uint32_t type, uint32_t size)
{
	switch (type) {
	case NT_PRSTATUS:
		return size >= SNAP_PRSTATUS_REGISTERS && size <= 4096;
	case NT_PRPSINFO:
		return size >= SNAP_PRPSINFO_SIZE && size <= 4096;
	case NT_SIGINFO:
		return size >= SIGINFO_LEAST && size <= 4096;
	case NT_AUXV:
		return size <= MOST_AUX;
	case NT_FILE:
		return size >= FILE_HEADER && size <= MOST_FILE_NOTE;
	default:
		return false;
	}
}

static bool take_thread(struct snap_core_notes *notes, const uint8_t *bytes, uint32_t size)
{
	uint32_t wanted = notes->layout->registers_size;
	struct snap_core_thread thread = { .tid = snap_u32_at(bytes + SNAP_PRSTATUS_TID) };
	int16_t signal;

	if (size - SNAP_PRSTATUS_REGISTERS < wanted || thread.tid <= 0)
		return true;
	if (notes->thread_count == SNAP_CORE_MOST_THREADS) {
		notes->threads_cut = true;
		return true;
	}
	memcpy(&signal, bytes + SNAP_PRSTATUS_SIGNAL, sizeof(signal));
	thread.signal = signal;
	memcpy(thread.registers, bytes + SNAP_PRSTATUS_REGISTERS, wanted);
	if (!snap_reserve_array_most(notes->threads, notes->thread_capacity,
				     notes->thread_count + 1, SNAP_CORE_MOST_THREADS))
		return false;
	notes->threads[notes->thread_count++] = thread;
	return true;
}

/* That of the thread that got it, which comes first; gdb writes one for each thread. */
static void take_signal(struct snap_core_notes *notes, const uint8_t *bytes)
{
	if (notes->signal.number)
		return;
	notes->signal.number = snap_u32_at(bytes);
	notes->signal.code = snap_u32_at(bytes + 8);
	notes->signal.address = snap_u64_at(bytes + SIGINFO_ADDRESS);
}

static bool take_aux(struct snap_core_notes *notes, const uint8_t *bytes, uint32_t size)
{
	struct snap_core_aux *aux = &notes->aux;

	if (notes->aux_bytes || size == 0)
		return true;
	notes->aux_bytes = malloc(size);
	if (!notes->aux_bytes)
		return false;
	memcpy(notes->aux_bytes, bytes, size);
	notes->aux_size = size;
	for (size_t at = 0; at + 16 <= size; at += 16) {
		uint64_t value = snap_u64_at(bytes + at + 8);

		switch (snap_u64_at(bytes + at)) {
		case AT_PHDR:
			aux->phdr = value;
			break;
		case AT_ENTRY:
			aux->entry = value;
			break;
		case AT_SYSINFO_EHDR:
			aux->vdso = value;
			break;
		case AT_RANDOM:
			aux->random = value;
			break;
		case AT_EXECFN:
			aux->name = value;
			break;
		case AT_PAGESZ:
			aux->page = value;
			break;
		default:
			break;
		}
	}
	return true;
}

/* A count, the size of a page, lines of three numbers, then as many names. */
static bool take_files(struct snap_core_notes *notes, const uint8_t *bytes, uint32_t size)
{
	uint64_t count = snap_u64_at(bytes), page = snap_u64_at(bytes + 8), at;
	const uint8_t *names;

	if (notes->file_names || count > (size - FILE_HEADER) / FILE_LINE)
		return true;
	notes->file_names = malloc(size);
	if (!notes->file_names)
		return false;
	memcpy(notes->file_names, bytes, size);
	names = notes->file_names;
	at = FILE_HEADER + count * FILE_LINE;
	if (count > SNAP_MAX_MAPS)
		count = SNAP_MAX_MAPS;
	if (!snap_reserve_array_most(notes->files, notes->file_capacity, count + 1,
				     SNAP_MAX_MAPS + 1))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *line = names + FILE_HEADER + i * FILE_LINE;
		const uint8_t *end = at < size ? memchr(names + at, 0, size - at) : NULL;
		struct snap_core_file file = { .start = snap_u64_at(line),
					       .end = snap_u64_at(line + 8) };

		if (!end)
			break;
		file.path = (const char *)names + at;
		at = (uint64_t)(end - names) + 1;
		if (file.start < file.end &&
		    !__builtin_mul_overflow(snap_u64_at(line + 16), page, &file.offset))
			notes->files[notes->file_count++] = file;
	}
	return true;
}

bool snap_core_note_take(struct snap_core_notes *notes, uint32_t type, const uint8_t *bytes,
			 uint32_t size)
{
	switch (type) {
	case NT_PRSTATUS:
		return take_thread(notes, bytes, size);
	case NT_PRPSINFO:
		memcpy(notes->process, bytes, sizeof(notes->process));
		notes->has_process = true;
		return true;
	case NT_SIGINFO:
		take_signal(notes, bytes);
		return true;
	case NT_AUXV:
		return take_aux(notes, bytes, size);
	case NT_FILE:
		return take_files(notes, bytes, size);
	default:
		return true;
	}
}

/* ---- the process ---- */

/* Signals whose default action is a core (signal(7)): others are those of a debugger's stop. */
static bool makes_a_core(int signal)
{
	switch (signal) {
	case SIGQUIT:
	case SIGILL:
	case SIGTRAP:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGSEGV:
	case SIGXCPU:
	case SIGXFSZ:
	case SIGSYS:
		return true;
	default:
		return false;
	}
}

/* Codes above 0 are the kernel's, of what an instruction did (sigaction(2)). */
static bool has_note_address(const struct snap_signal *signal)
{
	bool is_fault = signal->number == SIGSEGV || signal->number == SIGBUS ||
			signal->number == SIGILL || signal->number == SIGFPE ||
			signal->number == SIGTRAP;

	/* SI_KERNEL: of an address that no processor has (not canonical), which it does not tell. */
	return is_fault && signal->code > 0 && signal->code != SI_KERNEL;
}

static void settle_signal(struct snap_core_notes *notes, struct snap_process *process)
{
	const struct snap_core_thread *first = &notes->threads[0];
	struct snap_signal signal = notes->signal;

	if (first->signal && signal.number != first->signal)
		signal = (struct snap_signal){ .number = first->signal };
	if (!makes_a_core(signal.number) || !first->signal)
		return;
	signal.tid = first->tid;
	signal.has_address = has_note_address(&signal);
	if (!signal.has_address)
		signal.address = 0;
	process->signal = signal;
}

SNAP_ORDER(by_tid, const struct snap_core_thread *, a, b, snap_compare((*a)->tid, (*b)->tid),
	   snap_compare(*a, *b));

/* Sorted by tid, each once: the first of its kind counts. */
static bool settle_threads(const struct snap_core_notes *notes, struct snap_capture *capture,
			   struct snap_process *process)
{
	_cleanup_free_ const struct snap_core_thread **sorted =
		calloc(notes->thread_count, sizeof(*sorted));
	size_t size = notes->layout->registers_size;

	process->threads =
		snap_arena_new_array(&capture->arena, notes->thread_count, struct snap_thread);
	if (!sorted || !process->threads)
		return false;
	for (size_t i = 0; i < notes->thread_count; i++)
		sorted[i] = &notes->threads[i];
	qsort(sorted, notes->thread_count, sizeof(*sorted), by_tid);
	for (size_t i = 0; i < notes->thread_count; i++) {
		struct snap_thread *thread = &process->threads[process->thread_count];

		if (i && sorted[i]->tid == sorted[i - 1]->tid)
			continue;
		*thread = (struct snap_thread){
			.tid = sorted[i]->tid,
			.name = sorted[i]->tid == process->pid ? process->name : NULL,
			.cpu = -1,
			.result = SNAP_THREAD_COPIED,
			.registers = snap_arena_memdup(&capture->arena, sorted[i]->registers, size),
			.registers_size = size,
			.blocked_ns = -1,
		};
		if (!thread->registers)
			return false;
		process->thread_count++;
	}
	return true;
}

static char state_letter(uint8_t letter)
{
	return letter && strchr("RSDTtZ", letter) ? (char)letter : 0;
}

/* A text of a fixed size, which need not end in NUL; NULL: it is empty. */
static const char *take_note_text(struct snap_capture *capture, const uint8_t *bytes, size_t size)
{
	size_t length = strnlen((const char *)bytes, size);

	return length ? snap_arena_strndup(&capture->arena, (const char *)bytes, length) : NULL;
}

/* The kernel has put blanks between arguments, and one at the end; the rest is cut off. */
static void take_short_args(struct snap_capture *capture, const uint8_t *bytes,
			    struct snap_process *process)
{
	char *args = snap_arena_strndup(&capture->arena, (const char *)bytes,
					strnlen((const char *)bytes, SHORT_ARGS));
	size_t size = args ? strlen(args) : 0;

	while (size && args[size - 1] == ' ')
		size--;
	for (size_t i = 0; i < size; i++)
		if (args[i] == ' ')
			args[i] = '\0';
	process->args = size ? args : NULL;
	process->args_size = size;
}

static void settle_process(const struct snap_core_notes *notes, struct snap_capture *capture,
			   struct snap_process *process)
{
	const uint8_t *bytes = notes->process;
	int32_t pid = notes->has_process ? snap_u32_at(bytes + SNAP_PRPSINFO_PID) : 0;
	int32_t ppid = snap_u32_at(bytes + SNAP_PRPSINFO_PPID);
	int32_t pgrp = snap_u32_at(bytes + SNAP_PRPSINFO_PGRP);

	process->pid = pid > 0 ? pid : notes->threads[0].tid;
	process->uid = process->credentials.uid = (uid_t)-1;
	process->parent = SIZE_MAX;
	process->is_target = true;
	process->arch = notes->layout->arch;
	if (!notes->has_process)
		return;
	process->ppid = ppid > 0 ? ppid : 0;
	process->pgrp = pgrp > 0 ? pgrp : 0;
	process->uid = process->credentials.uid = snap_u32_at(bytes + SNAP_PRPSINFO_UID);
	process->credentials.known = process->credentials.is_confined = true;
	process->state = state_letter(bytes[SNAP_PRPSINFO_STATE]);
	process->name = take_note_text(capture, bytes + SNAP_PRPSINFO_NAME, SHORT_NAME);
	take_short_args(capture, bytes + SNAP_PRPSINFO_ARGS, process);
}

/* The mapping of what the kernel started: its headers, or its first instruction, lie in it. */
static void settle_program(const struct snap_core_notes *notes, struct snap_process *process)
{
	const struct snap_map *map = snap_process_map(process, notes->aux.phdr);

	if (!map || !map->inode)
		map = snap_process_map(process, notes->aux.entry);
	if (!map || !map->inode)
		return;
	process->exe = map->path + (notes->program_unnamed ? 1 : 0);
	process->exe_deleted = map->deleted;
}

struct stacksnap_error *snap_core_notes_settle(struct snap_core_notes *notes, int fd,
					       struct snap_core *core)
{
	struct snap_capture *capture = core->capture;
	struct snap_process *process = snap_arena_new(&capture->arena, struct snap_process);
	struct snap_core_memory memory;

	SNAP_TRY(snap_no_memory_unless(process));
	core->threads_cut = notes->threads_cut;
	capture->processes = process;
	capture->process_count = 1;
	capture->host.arch = notes->layout->name;
	settle_process(notes, capture, process);
	SNAP_TRY(snap_no_memory_unless(settle_threads(notes, capture, process)));
	settle_signal(notes, process);
	SNAP_TRY(snap_core_make_maps(notes, fd, core));
	settle_program(notes, process);
	memory = snap_core_memory_of(core, fd);
	snap_core_find_args(notes, &memory, capture);
	return NULL;
}
