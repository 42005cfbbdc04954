/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The meaning of pairs of stack and object in a recording on disk. See internal.h.
 *
 * Most kinds of waits use a few of their fields, so these come in groups, and bits in front say which
 * groups there are; other fields are as snap_wait_init() sets them. Threads are in no group: owner
 * changes name the owner of an object.
 */
#include "store/recording/internal.h"
#include "store/wait_groups.h"

#include <ctype.h>

enum {
	MOST_TOTAL = 1 << 30, /* peers that are counted */
	LEAST_PARTY = 5,      /* bytes */
	LONGEST_WORD = 64,    /* of ours, or of the kernel's */
	/* in one number */
	TIMED_BIT = 1,
	OUTSIDE_BIT = 1,
};

static const char INVALID_NUMBER[] = "invalid number in a wait";
/* A number that is -1 where it is unknown: 0 in the file. */
static void code_number(struct snap_log_file *file, int64_t *number)
{
	uint64_t next = *number < 0 ? 0 : (uint64_t)SNAP_MIN(*number, SNAP_WAIT_MOST) + 1;

	snap_log_code(file, next, (uint64_t)SNAP_WAIT_MOST + 1, INVALID_NUMBER);
	if (file->reads)
		*number = (int64_t)next - 1;
}

static void code_i32(struct snap_log_file *file, int32_t *number, int32_t least)
{
	int64_t wide = snap_log_code_step(file, SNAP_MAX(*number, least), 0, INVALID_NUMBER);

	snap_log_check(file, wide >= least && wide <= INT32_MAX, INVALID_NUMBER);
	if (file->reads)
		*number = snap_log_fine(file) ? (int32_t)wide : 0;
}

static void code_explained_name(struct snap_log_file *file, const char **text)
{
	snap_log_code_text(file, text, SNAP_MAX_NAME);
}

/* A process: its number, name and state. */
static void code_party(struct snap_log_file *file, struct snap_wait_party *party)
{
	unsigned flags = party->outside ? OUTSIDE_BIT : 0;
	uint32_t state = (uint8_t)party->state;

	snap_log_code(file, party->pid, INT32_MAX, "invalid pid in a wait");
	code_explained_name(file, &party->name);
	code_explained_name(file, &party->function);
	snap_log_code(file, state, 'z', "invalid thread state");
	snap_log_check(file, !state || isalpha((int)state), "invalid thread state");
	snap_log_code(file, flags, OUTSIDE_BIT, "unknown flags of a process");
	if (!file->reads)
		return;
	party->outside = flags & OUTSIDE_BIT;
	party->state = (char)state;
}

static void code_parties(struct snap_log_file *file, struct snap_wait_party **parties,
			 size_t *count_of)
{
	size_t count = snap_log_code_count(file, *count_of, LEAST_PARTY);

	snap_log_check(file, count <= SNAP_WAIT_LIST, "too many processes in a wait");
	if (file->reads && snap_log_fine(file) && count) {
		*parties = snap_arena_new_array(&file->log->arena, count, struct snap_wait_party);
		*count_of = count;
		if (!*parties)
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++)
		code_party(file, &(*parties)[i]);
}

/* ---- groups ---- */

static void code_explained_address(struct snap_log_file *file, struct snap_wait *wait)
{
	snap_log_code_any(file, wait->address);
	code_explained_name(file, &wait->symbol);
	code_explained_name(file, &wait->module);
	snap_log_code_any(file, wait->offset);
	code_explained_name(file, &wait->place);
}

static bool has_file(const struct snap_wait *wait)
{
	return wait->fd >= 0 || wait->path || wait->id >= 0 || wait->wchan || wait->cgroup;
}

static void code_file(struct snap_log_file *file, struct snap_wait *wait)
{
	code_i32(file, &wait->fd, -1);
	code_explained_name(file, &wait->path);
	code_number(file, &wait->id);
	code_explained_name(file, &wait->wchan);
	code_explained_name(file, &wait->cgroup);
}

static bool has_owner(const struct snap_wait *wait)
{
	return wait->owner_lack || wait->owner_word.address || wait->owner_word.form;
}

static void code_owner(struct snap_log_file *file, struct snap_wait *wait)
{
	snap_log_code(file, wait->owner_lack, SNAP_OWNER_LACKS - 1, "unknown lack of an owner");
	snap_log_code_any(file, wait->owner_word.address);
	snap_log_code(file, wait->owner_word.form, SNAP_OWNER_FORMS - 1,
		      "unknown form of an owner");
}

static bool has_others(const struct snap_wait *wait)
{
	return wait->holder_count || wait->peer_count || wait->peer_total || wait->peers_unknown;
}

static void code_others(struct snap_log_file *file, struct snap_wait *wait)
{
	code_parties(file, &wait->holders, &wait->holder_count);
	code_parties(file, &wait->peers, &wait->peer_count);
	snap_log_code(file, wait->peer_total, MOST_TOTAL, INVALID_NUMBER);
	snap_log_code_flag(file, &wait->peers_unknown);
}

static void code_numbers(struct snap_log_file *file, struct snap_wait *wait)
{
	snap_log_code_any(file, wait->mutex);
	code_explained_name(file, &wait->mutex_symbol);
	snap_log_code_flag(file, &wait->mutex_free);
	code_number(file, &wait->readers);
	code_number(file, &wait->value);
	code_number(file, &wait->waiters);
	code_number(file, &wait->arrived);
	code_number(file, &wait->needed);
}

/* Descriptors, each with its kind where kinds are known. */
static void code_fds(struct snap_log_file *file, struct snap_wait *wait)
{
	size_t count = snap_log_code_count(file, wait->fds_count, 1);
	bool has_kinds = wait->fd_kinds;
	/* When written, they stay as they are. */
	uint32_t *kinds = (uint32_t *)(uintptr_t)wait->fd_kinds;

	snap_log_code_flag(file, &has_kinds);
	snap_log_check(file, count <= SNAP_MAX_WATCHED && (count || !has_kinds),
		       "too many descriptors");
	if (file->reads && snap_log_fine(file) && count) {
		wait->fds = snap_arena_new_array(&file->log->arena, count, int32_t);
		kinds = has_kinds ? snap_arena_new_array(&file->log->arena, count, uint32_t) : NULL;
		wait->fd_kinds = kinds;
		wait->fds_count = count;
		if (!wait->fds || (has_kinds && !kinds))
			snap_log_fail_memory(file);
	}
	for (size_t i = 0; i < count && snap_log_fine(file); i++) {
		code_i32(file, &wait->fds[i], -INT32_MAX);
		if (has_kinds)
			snap_log_code(file, kinds[i], SNAP_DESCRIPTOR_KINDS - 1,
				      "unknown kind of a descriptor");
	}
}

/* Kinds of which there are some, with how many. */
static void code_kinds(struct snap_log_file *file, struct snap_wait *wait)
{
	uint32_t there = 0;

	for (size_t i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		there |= wait->kinds_watched[i] ? 1u << i : 0;
	snap_log_code(file, there, (1u << SNAP_DESCRIPTOR_KINDS) - 1,
		      "unknown kind of a descriptor");
	for (size_t i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		if (there >> i & 1)
			snap_log_code(file, wait->kinds_watched[i], UINT32_MAX, INVALID_NUMBER);
}

static void code_watched(struct snap_log_file *file, struct snap_wait *wait)
{
	code_number(file, &wait->fd_count);
	code_fds(file, wait);
	snap_log_code_flag(file, &wait->fds_cut);
	code_kinds(file, wait);
	snap_log_code(file, wait->listening, UINT32_MAX, INVALID_NUMBER);
	snap_log_code(file, wait->connected, UINT32_MAX, INVALID_NUMBER);
	code_explained_name(file, &wait->listen_address);
}

static void code_explained_socket(struct snap_log_file *file, struct snap_wait *wait)
{
	code_explained_name(file, &wait->local);
	code_explained_name(file, &wait->remote);
	snap_log_code_text(file, &wait->socket_state, LONGEST_WORD);
	code_number(file, &wait->recv_queue);
	code_number(file, &wait->send_queue);
	code_number(file, &wait->backlog);
	code_number(file, &wait->backlog_max);
	code_number(file, &wait->retransmits);
	code_number(file, &wait->peer_recv_queue);
}

static void code_rest(struct snap_log_file *file, struct snap_wait *wait)
{
	snap_log_code_any(file, wait->signals);
	code_i32(file, &wait->child, -INT32_MAX);
	snap_log_code_any(file, wait->range_start);
	snap_log_code_any(file, wait->range_end);
}

static const struct {
	bool (*has)(const struct snap_wait *wait);
	void (*code)(struct snap_log_file *file, struct snap_wait *wait);
} groups[] = {
	{ snap_wait_has_address, code_explained_address },
	{ has_file, code_file },
	{ has_owner, code_owner },
	{ has_others, code_others },
	{ snap_wait_has_numbers, code_numbers },
	{ snap_wait_has_watched, code_watched },
	{ snap_wait_has_socket, code_explained_socket },
	{ snap_wait_has_rest, code_rest },
};

static void code_wait(struct snap_log_file *file, struct snap_wait *wait)
{
	uint32_t there = 0;
	unsigned flags = wait->timed ? TIMED_BIT : 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(groups); i++)
		if (groups[i].has(wait))
			there |= 1u << i;
	snap_log_code(file, wait->confidence, SNAP_WAIT_CONFIDENCES - 1, "unknown confidence");
	snap_log_code_text(file, &wait->variant, LONGEST_WORD);
	snap_log_code(file, wait->mode, SNAP_WAIT_WRITE, "unknown mode of a wait");
	snap_log_code_text(file, &wait->call, LONGEST_WORD);
	snap_log_code(file, flags, TIMED_BIT, "unknown flags of a wait");
	wait->timed = flags & TIMED_BIT;
	snap_log_code(file, there, (1u << SNAP_ARRAY_SIZE(groups)) - 1, "unknown parts of a wait");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(groups) && snap_log_fine(file); i++)
		if (there >> i & 1)
			groups[i].code(file, wait);
}

/* ---- pairs ---- */

static void check_pair(struct snap_log_file *file, const struct snap_log_explained *pair)
{
	const struct snap_log *log = file->log;

	if (!file->reads || !snap_log_fine(file))
		return;
	snap_log_check(file,
		       log->spaces[log->stacks[pair->stack].space].process ==
			       log->spaces[log->objects[pair->object].space].process,
		       "object of another process");
	snap_log_check(file, !snap_log_explained(log, pair->stack, pair->object),
		       "wait explained twice");
}

static void code_explained_pair(struct snap_log_file *file, void *element, size_t index)
{
	struct snap_log_explained *pair = element;
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_NONE, SNAP_WAIT_IS_UNKNOWN);
	struct snap_log *log = file->log;
	int64_t stack =
		snap_log_code_step(file, pair->stack, file->last.stack, "invalid stack reference");

	snap_log_check(file, stack >= 0 && (uint64_t)stack < log->stack_count,
		       "invalid stack reference");
	file->last.stack = stack;
	snap_log_code_index(file, pair->object, log->object_count,
			    "invalid reference to an object");
	snap_log_check(file, index < SNAP_LOG_MAX_EXPLAINED, "too many waits");
	if (file->reads)
		pair->stack = (uint32_t)stack;
	else if (pair->wait)
		wait = *pair->wait;
	check_pair(file, pair);
	/* Nothing is known: nothing more is stored. */
	snap_log_code(file, wait.kind, SNAP_WAIT_KINDS - 1, "unknown kind of a wait");
	if (wait.kind != SNAP_WAIT_NONE)
		code_wait(file, &wait);
	if (!file->reads || !snap_log_fine(file))
		return;
	if (wait.kind != SNAP_WAIT_NONE)
		pair->wait = snap_arena_memdup(&log->arena, &wait, sizeof(wait));
	if ((wait.kind != SNAP_WAIT_NONE && !pair->wait) || !snap_log_index_explained(log, index))
		snap_log_fail_memory(file);
}

void snap_log_code_explained(struct snap_log_file *file)
{
	file->last.stack = 0;
	snap_log_code_array(file, &file->log->explained, &file->log->explained_count,
			    &file->log->explained_capacity, &file->explained,
			    sizeof(*file->log->explained), code_explained_pair);
}
