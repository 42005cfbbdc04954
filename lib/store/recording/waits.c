/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waits of a recording on disk: wait bytes, objects, sockets and owner changes. See internal.h. All
 * parts of an object are of one address space.
 */
#include "store/recording/internal.h"

#include <string.h>

enum {
	LEAST_PIECE = 3, /* bytes */
	LEAST_DESCRIPTOR = 4,
	/* in one number: the flags of a call */
	KNOWN_BIT = 1,
	FUTEX_BIT = 2,
	OWN_STACK_BIT = 4, /* its word lies on the stack of the waiting thread */
	CALL_BITS = 7,
};

static const char NO_WORDS[] = "invalid reference to words";
static const char NO_OBJECT[] = "invalid reference to an object";

/* ---- wait bytes ---- */

/* The bytes lie in the file. */
static void code_recorded_wait_piece(struct snap_log_file *file, struct snap_memory_piece *piece,
				     uint64_t *end)
{
	uint64_t step = piece->address - *end;
	uint8_t *bytes;

	snap_log_code_any(file, step);
	snap_log_code(file, piece->size, SNAP_LOG_MAX_OBJECT_WORDS, "too many words");
	bytes = snap_log_code_payload(file, piece->size);
	if (file->reads) {
		snap_log_check(file,
			       piece->size &&
				       !__builtin_add_overflow(*end, step, &piece->address) &&
				       piece->size <= UINT64_MAX - piece->address,
			       "invalid address of words");
		piece->bytes = bytes;
	} else if (bytes) {
		memcpy(bytes, piece->bytes, piece->size);
	}
	*end = piece->address + piece->size;
}

static void code_words(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_wait_bytes *words = element;
	uint64_t end = 0, bytes = 0;
	size_t count;

	snap_log_check(file, index < SNAP_LOG_MAX_WORDS, "too many words");
	snap_log_code_space(file, &words->space);
	count = snap_log_code_count(file, words->piece_count, LEAST_PIECE);
	snap_log_check(file, count && count <= SNAP_LOG_MAX_OBJECT_WORDS, "too many words");
	if (file->reads && snap_log_fine(file)) {
		words->pieces =
			snap_arena_new_array(&file->log->arena, count, struct snap_memory_piece);
		words->piece_count = (uint32_t)count;
		if (!words->pieces)
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++) {
		uint64_t before = end;

		code_recorded_wait_piece(file, &words->pieces[i], &end);
		bytes += words->pieces[i].size;
		snap_log_check(file,
			       bytes <= SNAP_LOG_MAX_OBJECT_WORDS &&
				       (!i || words->pieces[i].address > before),
			       "invalid address of words");
	}
	if (file->reads && snap_log_fine(file))
		words->hash = snap_log_hash_wait_bytes(words);
}

/* Wait bytes of the same space; 0: none are known. */
static void code_words_of(struct snap_log_file *file, uint32_t *words, uint32_t space)
{
	const struct snap_log *log = file->log;

	snap_log_code(file, *words, log->words_count, NO_WORDS);
	if (file->reads)
		snap_log_check(file, !*words || log->words[*words - 1].space == space, NO_WORDS);
}

/* ---- objects ---- */

static void code_descriptor(struct snap_log_file *file, struct snap_descriptor *descriptor)
{
	int64_t number =
		snap_log_code_step(file, descriptor->number, 0, "invalid number of a descriptor");

	snap_log_check(file, number >= INT32_MIN && number <= INT32_MAX,
		       "invalid number of a descriptor");
	snap_log_code(file, descriptor->kind, SNAP_DESCRIPTOR_KINDS - 1,
		      "unknown kind of a descriptor");
	snap_log_code_any(file, descriptor->inode);
	snap_log_code_text(file, &descriptor->link, SNAP_MAX_LINK - 1);
	if (!file->reads)
		return;
	descriptor->number = (int32_t)number;
	descriptor->remaining_ns = -1;
}

static void code_descriptors(struct snap_log_file *file, struct snap_log_object *object)
{
	size_t count = snap_log_code_count(file, object->descriptor_count, LEAST_DESCRIPTOR);

	snap_log_check(file, count <= SNAP_LOG_MAX_OBJECT_DESCRIPTORS, "too many descriptors");
	if (file->reads && snap_log_fine(file) && count) {
		object->descriptors =
			snap_arena_new_array(&file->log->arena, count, struct snap_descriptor);
		object->descriptor_count = (uint32_t)count;
		if (!object->descriptors)
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++)
		code_descriptor(file, &object->descriptors[i]);
}

static void read_held(struct snap_log_file *file, size_t index)
{
	struct snap_log_index *log_index = file->log->index;

	if (snap_reserve_array(log_index->held, log_index->held_capacity, index + 1))
		log_index->held[index] = (struct snap_log_last_owner){ .words = 0 };
	else
		snap_log_fail_memory(file);
}

static void code_object(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_object *object = element;
	struct snap_thread_call *call = &object->call;
	unsigned flags = (call->known ? KNOWN_BIT : 0) | (object->is_futex ? FUTEX_BIT : 0) |
			 (call->sp ? OWN_STACK_BIT : 0);

	snap_log_check(file, index < SNAP_LOG_MAX_OBJECTS, "too many objects");
	snap_log_code_space(file, &object->space);
	snap_log_code(file, flags, CALL_BITS, "unknown flags of an object");
	snap_log_check(file, !(flags & OWN_STACK_BIT) || flags & FUTEX_BIT,
		       "invalid flags of an object");
	call->number = snap_log_code_step(file, call->number, 0, NULL);
	for (size_t i = 0; i < SNAP_CALL_ARGUMENTS; i++)
		snap_log_code_any(file, call->arguments[i]);
	code_words_of(file, &object->words, object->space);
	code_descriptors(file, object);
	if (!file->reads || !snap_log_fine(file))
		return;
	call->known = flags & KNOWN_BIT;
	object->is_futex = flags & FUTEX_BIT;
	call->sp = flags & OWN_STACK_BIT ? call->arguments[0] : 0;
	read_held(file, index);
}

/* ---- sockets ---- */

static void code_recorded_wait_address(struct snap_log_file *file,
				       struct snap_socket_address *address)
{
	uint8_t *bytes = snap_log_code_payload(file, sizeof(address->bytes));

	if (bytes && file->reads)
		memcpy(address->bytes, bytes, sizeof(address->bytes));
	else if (bytes)
		memcpy(bytes, address->bytes, sizeof(address->bytes));
	snap_log_code(file, address->port, UINT16_MAX, "invalid port");
}

static bool has_addresses(const struct snap_socket *socket)
{
	static const struct snap_socket_address none;

	return memcmp(&socket->local, &none, sizeof(none)) != 0 ||
	       memcmp(&socket->remote, &none, sizeof(none)) != 0;
}

static void code_recorded_wait_facts(struct snap_log_file *file, struct snap_socket *socket)
{
	bool addresses = has_addresses(socket);

	snap_log_code(file, socket->family, SNAP_SOCKET_FAMILIES - 1, "unknown family of a socket");
	snap_log_code(file, socket->state, UINT8_MAX, "invalid state of a socket");
	snap_log_code(file, socket->type, UINT8_MAX, "invalid type of a socket");
	snap_log_code_flag(file, &addresses);
	if (addresses) {
		code_recorded_wait_address(file, &socket->local);
		code_recorded_wait_address(file, &socket->remote);
	}
	snap_log_code_any(file, socket->receive_queue);
	snap_log_code_any(file, socket->send_queue);
	snap_log_code_flag(file, &socket->queues_known);
	snap_log_code(file, socket->retransmits, UINT32_MAX, "invalid number of retransmits");
	snap_log_code_any(file, socket->peer);
	snap_log_code_text(file, &socket->name, SNAP_MAX_SOCKET_NAME);
}

static bool is_socket_changed(const struct snap_log_file *file, size_t index)
{
	return file->log->index->socket_stamps[index] > file->socket_stamp;
}

/* Replaces the known facts of a socket, or goes behind the others. */
static void keep_socket(struct snap_log_file *file, size_t index, const struct snap_socket *socket)
{
	struct snap_log *log = file->log;
	struct snap_log_index *log_index = log->index;
	const struct snap_socket *known = snap_log_find_socket(log, socket);

	snap_log_check(file,
		       index < log->socket_count ? known == &log->sockets[index]
						 : !known && index < SNAP_LOG_MAX_SOCKETS,
		       "invalid reference to a socket");
	if (!snap_log_fine(file))
		return;
	if (!snap_reserve_array(log->sockets, log->socket_capacity, index + 1) ||
	    !snap_reserve_array(log_index->socket_stamps, log_index->socket_stamp_capacity,
				index + 1) ||
	    (!known &&
	     !snap_hash_table_add(&log_index->sockets, snap_log_hash_socket(socket), index))) {
		snap_log_fail_memory(file);
		return;
	}
	log->sockets[index] = *socket;
	log_index->socket_stamps[index] = ++log_index->socket_stamp;
	log->socket_count += !known;
}

static void code_recorded_wait_socket(struct snap_log_file *file, size_t index)
{
	struct snap_socket socket = { .inode = 0 };

	if (!file->reads)
		socket = file->log->sockets[index];
	snap_log_code(file, index, file->log->socket_count, "invalid reference to a socket");
	snap_log_code_any(file, socket.namespace);
	snap_log_code_any(file, socket.inode);
	code_recorded_wait_facts(file, &socket);
	if (file->reads && snap_log_fine(file))
		keep_socket(file, index, &socket);
}

void snap_log_code_waits(struct snap_log_file *file)
{
	snap_log_code_new(file, words, words, code_words);
	snap_log_code_new(file, objects, object, code_object);
	snap_log_code_changed(file, file->log->socket_count, is_socket_changed,
			      code_recorded_wait_socket);
	file->socket_stamp = file->log->index->socket_stamp;
}

/* ---- changes ---- */

void snap_log_code_object_of(struct snap_log_file *file, struct snap_log_change *change)
{
	const struct snap_log *log = file->log;

	snap_log_code(file, change->object, log->object_count, NO_OBJECT);
	if (!file->reads)
		return;
	snap_log_check(file,
		       !change->object ||
			       log->spaces[log->objects[change->object - 1].space].process ==
				       log->threads[change->thread].process,
		       "object of another process");
}

/* ---- owner changes ---- */

/* Of an object that is no futex. */
static bool are_pids(const struct snap_log_wait_bytes *words)
{
	const struct snap_memory_piece *first = words->pieces;

	return words->piece_count == 1 && first->address == 0 &&
	       first->size % sizeof(uint32_t) == 0 &&
	       first->size <= SNAP_LOG_MAX_HOLDERS * sizeof(uint32_t);
}

/* False: there is none to be read. */
static bool code_hold(struct snap_log_file *file, struct snap_log_owner_change *hold)
{
	struct snap_log *log = file->log;
	struct snap_log_object *object;

	file->last.object = snap_log_code_step(file, hold->object, file->last.object, NO_OBJECT);
	snap_log_check(file,
		       file->last.object >= 0 && (uint64_t)file->last.object < log->object_count,
		       NO_OBJECT);
	if (!snap_log_fine(file))
		return false;
	object = &log->objects[file->last.object];
	code_words_of(file, &hold->words, object->space);
	if (!file->reads || !snap_log_fine(file))
		return false;
	snap_log_check(file,
		       object->is_futex || !hold->words || are_pids(&log->words[hold->words - 1]),
		       "hold without an owner");
	hold->object = (uint32_t)file->last.object;
	log->index->held[hold->object].words = hold->words;
	/* Those of its first owner change. */
	if (!object->words && object->is_futex)
		object->words = hold->words;
	return true;
}

static bool was_held_before(const struct snap_log_file *file, size_t index)
{
	return file->log->owners_before[index];
}

static void code_held_before(struct snap_log_file *file, size_t index)
{
	struct snap_log *log = file->log;
	struct snap_log_owner_change hold = { .object = (uint32_t)index };

	snap_log_check(file, !file->has_ticks, "unexpected initial state");
	if (!file->reads)
		hold.words = log->owners_before[index];
	else if (!snap_log_make_owners_before(log))
		snap_log_fail_memory(file);
	if (code_hold(file, &hold))
		log->owners_before[hold.object] = hold.words;
}

void snap_log_code_owners_before(struct snap_log_file *file)
{
	file->last.object = 0;
	snap_log_code_changed(file, file->has_ticks ? 0 : file->log->owners_before_count,
			      was_held_before, code_held_before);
}

static void code_hold_of_tick(struct snap_log_file *file, uint64_t begin)
{
	struct snap_log *log = file->log;
	struct snap_log_owner_change hold = { .words = 0 };
	struct snap_log_last_owner *held;

	if (!file->reads)
		hold = log->owners[file->owners - log->first_owner];
	file->owners++;
	if (!code_hold(file, &hold))
		return;
	held = &log->index->held[hold.object];
	snap_log_check(file, held->last <= begin, "two holds of an object in one tick");
	if (!snap_log_fine(file))
		return;
	if (!snap_reserve_array(log->owners, log->owner_capacity, log->owner_count + 1)) {
		snap_log_fail_memory(file);
		return;
	}
	log->owners[log->owner_count++] = hold;
	held->last = file->owners;
}

void snap_log_code_owner_changes(struct snap_log_file *file, struct snap_log_tick *tick)
{
	uint64_t begin = file->owners;
	size_t count = snap_log_code_count(file, (size_t)(tick->owner_end - file->owners), 2);

	file->last.object = 0;
	while (count-- && snap_log_fine(file))
		code_hold_of_tick(file, begin);
	if (file->reads)
		tick->owner_end = file->owners;
}
