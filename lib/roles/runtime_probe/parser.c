/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parser's side of a probe: see probe.h. It runs in the sandbox from its first instruction
 * here. It receives a process, lets each runtime search for itself in it, and answers with their
 * plan. Without memory or its maker it ends.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/table.h"
#include "roles/process_message.h"
#include "roles/runtime_probe/messages.h"

#include <string.h>
#include <sys/mman.h>

enum {
	BLOCK = 4096, /* small reads are extended to a block */
	MOST_KEPT = 1 << 14,
	FAILED = 3, /* exit status */
};

/* Half of what a process has, as its plan must not be lost for names. */
static const int64_t NAMES_NS = 1000000000;

/* Memory that was requested: whole blocks. */
struct block {
	uint64_t address;
	uint32_t size; /* bytes that could be read */
	uint8_t *bytes;
};

struct parser {
	const struct snap_runtime_probe_birth *birth;
	int channel;
	struct snap_capture capture; /* its processes by number; only the current one is set */
	struct snap_remote_finder remote;
	struct snap_file_finder finder;
	uint32_t sequence;
	/* of the current process */
	bool is_of_thread, wants_names;
	uint32_t kept; /* pieces of memory */
	int64_t begin_ns;
	struct snap_arena arena;
	struct snap_interner strings;
	struct snap_hash_table table; /* of blocks, by their address */
	struct block *blocks;
	size_t block_count, block_capacity;
	struct snap_process_bytes bytes;
};

/* ---- memory ---- */

/* Reads memory into `to`; returns the number of bytes. */
static uint32_t ask_for_memory(struct parser *parser, uint64_t address, uint32_t size, uint8_t *to)
{
	struct snap_peek_request request = { address, size, ++parser->sequence };
	struct snap_peek_answer answer;
	_cleanup_fd_ int fd = -1;
	size_t got;
	void *bytes;

	if (snap_error_ignore(snap_wire_send(parser->channel, &request, sizeof(request), -1)) ||
	    snap_error_ignore(
		    snap_wire_receive(parser->channel, &answer, sizeof(answer), &got, &fd)) ||
	    got != sizeof(answer) || answer.sequence != parser->sequence || answer.size > size)
		_exit(FAILED);
	if (fd < 0 || answer.size == 0)
		return 0;
	bytes = mmap(NULL, answer.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		_exit(FAILED);
	memcpy(to, bytes, answer.size);
	munmap(bytes, answer.size);
	return answer.size;
}

static const struct block *find_block(struct parser *parser, uint64_t address)
{
	struct snap_probe probe = snap_hash_table_probe(&parser->table, snap_hash_mix(address));
	struct block *block;

	while (snap_probe_next(&probe))
		if (parser->blocks[probe.number].address == address)
			return &parser->blocks[probe.number];
	if (!snap_reserve_array(parser->blocks, parser->block_capacity, parser->block_count + 1) ||
	    !snap_hash_table_add(&parser->table, snap_hash_mix(address), parser->block_count))
		_exit(FAILED);
	block = &parser->blocks[parser->block_count++];
	*block = (struct block){ .address = address,
				 .bytes = snap_arena_alloc(&parser->arena, BLOCK) };
	if (!block->bytes)
		_exit(FAILED);
	block->size = ask_for_memory(parser, address, BLOCK, block->bytes);
	return block;
}

/* Reads in whole blocks, which are kept. */
static bool read_small(struct parser *parser, uint64_t address, uint8_t *to, size_t size)
{
	while (size) {
		uint64_t begin = address & ~(uint64_t)(BLOCK - 1), skipped = address - begin;
		const struct block *block = find_block(parser, begin);
		size_t part = BLOCK - skipped < size ? BLOCK - skipped : size;

		if (skipped + part > block->size)
			return false;
		memcpy(to, block->bytes + skipped, part);
		to += part;
		address += part;
		size -= part;
	}
	return true;
}

static bool read_scout_memory(void *context, uint64_t address, void *out, size_t size)
{
	struct parser *parser = context;
	uint8_t *to = out;

	if (address + size < address)
		return false;
	if (size <= BLOCK)
		return read_small(parser, address, to, size);
	while (size) {
		uint32_t part = size < SNAP_PEEK_MOST ? (uint32_t)size : SNAP_PEEK_MOST;

		if (ask_for_memory(parser, address, part, to) != part)
			return false;
		to += part;
		address += part;
		size -= part;
	}
	return true;
}

/* ---- a process ---- */

static void send_thread_name(void *context, uint32_t tid, const char *name)
{
	const struct parser *parser = context;
	struct snap_runtime_probe_name said = { .tid = tid };

	memcpy(said.name, name, snap_text_cut(name, strlen(name), sizeof(said.name) - 1));
	if (snap_error_ignore(snap_wire_send(parser->channel, &said, sizeof(said), -1)))
		_exit(FAILED);
}

static void send_kept(void *context, uint64_t address, uint64_t size)
{
	struct parser *parser = context;
	struct snap_peek_request kept = { .address = address, .size = (uint32_t)size };

	if (size && size <= UINT32_MAX && parser->kept++ < MOST_KEPT &&
	    snap_error_ignore(snap_wire_send(parser->channel, &kept, sizeof(kept), -1)))
		_exit(FAILED);
}

static void look_for_runtimes(struct parser *parser, struct snap_process *process,
			      struct snap_runtime_probe_answer *answer)
{
	const struct snap_runtime_memory memory = { .read = read_scout_memory, .context = parser };
	struct snap_runtime_process looked = {
		.process = process,
		.memory = &memory,
		.options = parser->birth->options,
		.strings = &parser->strings,
		.arena = &parser->arena,
		.is_of_thread = parser->is_of_thread,
		.take_name = parser->wants_names ? send_thread_name : NULL,
		.take_context = parser,
		.keep_memory = send_kept,
		.names_until_ns = parser->begin_ns + NAMES_NS,
	};

	if (snap_error_ignore(
		    snap_module_set_create(&parser->finder, &parser->arena, &looked.set)) ||
	    snap_error_ignore(snap_modules_create(looked.set, process, &looked.modules)))
		_exit(FAILED);
	for (const struct snap_runtime *const *at = parser->birth->runtimes; *at; at++) {
		struct snap_memory_plan before = answer->plan;
		bool found = false;

		if (!(looked.options->runtimes & (*at)->kind))
			continue;
		if (snap_error_ignore((*at)->probe(&looked, &answer->plan, &found)))
			_exit(FAILED);
		if (found)
			answer->found = 1;
		else
			answer->plan = before;
	}
	snap_module_set_destroy(looked.set);
}

static void serve_scout_question(struct parser *parser,
				 const struct snap_runtime_probe_question *question)
{
	uint32_t number = question->process;
	struct snap_runtime_probe_answer answer = { .process = number };
	struct snap_process *process = &parser->capture.processes[number];

	snap_arena_init(&parser->arena);
	snap_interner_init(&parser->strings, &parser->arena);
	if (!snap_process_receive(parser->channel, &parser->arena, process, &parser->bytes))
		_exit(FAILED);
	parser->is_of_thread = question->is_of_thread;
	parser->wants_names = question->wants_names;
	parser->kept = 0;
	parser->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	look_for_runtimes(parser, process, &answer);
	*process = (struct snap_process){ 0 };
	munmap(parser->bytes.bytes, parser->bytes.size);
	snap_hash_table_clear(&parser->table);
	parser->block_count = 0;
	snap_interner_deinit(&parser->strings);
	snap_arena_deinit(&parser->arena);
	if (snap_error_ignore(snap_wire_send(parser->channel, &answer, sizeof(answer), -1)))
		_exit(FAILED);
}

/* Nothing is released: the process ends with it. */
void snap_runtime_probe_serve(void *context, int channel)
{
	struct parser parser = { .birth = context, .channel = channel };
	struct snap_runtime_probe_question question;
	size_t size;

	/* Address space only: entries that are not used take no memory. */
	parser.capture.processes = calloc(SNAP_MAX_PROCESSES, sizeof(*parser.capture.processes));
	parser.capture.process_count = SNAP_MAX_PROCESSES;
	if (!parser.capture.processes)
		_exit(FAILED);
	parser.remote =
		(struct snap_remote_finder){ .channel = channel, .capture = &parser.capture };
	parser.finder = snap_remote_finder(&parser.remote);
	while (!snap_error_ignore(
		       snap_wire_receive(channel, &question, sizeof(question), &size, NULL)) &&
	       size == sizeof(question) && question.process < SNAP_MAX_PROCESSES)
		serve_scout_question(&parser, &question);
}
