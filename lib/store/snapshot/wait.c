/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A wait as bytes: see waits.h. Most kinds use a few of its fields, so these come in groups, and
 * bits in front say which groups there are; other fields are as snap_wait_init() sets them.
 */
#include "store/snapshot/waits.h"
#include "store/wait_groups.h"

#include <limits.h>

enum {
	MOST_TOTAL = 1 << 30, /* peers that are counted */
	LEAST_PARTY = 26,
	LONGEST_WORD = 64, /* of ours, or of the kernel's */
	LONGEST_ID = 16,   /* of a stack */
};

/* A number that is -1 where it is unknown. */
static void code_number(struct snap_pointer_codec *to, int64_t *number)
{
	snap_code_range(&to->codec, number, -1, SNAP_WAIT_MOST);
}

static void code_party(struct snap_pointer_codec *to, struct snap_wait_party *party)
{
	struct snap_codec *codec = &to->codec;

	snap_code_least(codec, &party->pid, 0);
	snap_code_least(codec, &party->tid, 0);
	snap_code_text_pointer(to, &party->name, SNAP_MAX_NAME);
	snap_code_letter(codec, &party->state);
	snap_code_text_pointer(to, &party->function, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &party->stack, LONGEST_ID);
	snap_code_bool(codec, &party->outside);
	snap_code_wait_pointer(to, &party->wait);
}

static void code_parties(struct snap_pointer_codec *to, struct snap_wait_party **parties,
			 size_t *count)
{
	snap_code_list(&to->codec, *parties, *count, SNAP_WAIT_LIST, LEAST_PARTY, i,
		       code_party(to, &(*parties)[i]));
}

/* ---- groups ---- */

static void code_wait_address(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_u64(&to->codec, &wait->address);
	snap_code_text_pointer(to, &wait->symbol, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &wait->module, SNAP_MAX_NAME);
	snap_code_u64(&to->codec, &wait->offset);
	snap_code_text_pointer(to, &wait->place, SNAP_MAX_NAME);
}

static bool has_file(const struct snap_wait *wait)
{
	return wait->fd >= 0 || wait->path || wait->id >= 0 || wait->wchan || wait->cgroup ||
	       wait->message_type || wait->semaphore >= 0;
}

static void code_file(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_least(&to->codec, &wait->fd, -1);
	snap_code_text_pointer(to, &wait->path, SNAP_MAX_NAME);
	code_number(to, &wait->id);
	snap_code_range(&to->codec, &wait->message_type, -INT64_MAX, INT64_MAX);
	snap_code_least(&to->codec, &wait->semaphore, -1);
	snap_code_text_pointer(to, &wait->wchan, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &wait->cgroup, SNAP_MAX_NAME);
}

static bool has_owner(const struct snap_wait *wait)
{
	return wait->has_owner || wait->owner.pid || wait->owner.tid || wait->owner_lack;
}

static void code_owner(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_bool(&to->codec, &wait->has_owner);
	code_party(to, &wait->owner);
	snap_code_enumerator(&to->codec, &wait->owner_lack, SNAP_OWNER_LACKS);
}

static bool has_others(const struct snap_wait *wait)
{
	return wait->holder_count || wait->peer_count || wait->peer_total || wait->hint_count ||
	       wait->peers_unknown;
}

static void code_others(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	code_parties(to, &wait->holders, &wait->holder_count);
	code_parties(to, &wait->peers, &wait->peer_count);
	snap_code_at_most(to, &wait->peer_total, MOST_TOTAL);
	code_parties(to, &wait->hints, &wait->hint_count);
	snap_code_bool(&to->codec, &wait->peers_unknown);
}

static void code_numbers(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_u64(&to->codec, &wait->mutex);
	snap_code_text_pointer(to, &wait->mutex_symbol, SNAP_MAX_NAME);
	snap_code_bool(&to->codec, &wait->mutex_free);
	code_number(to, &wait->readers);
	code_number(to, &wait->value);
	code_number(to, &wait->waiters);
	code_number(to, &wait->arrived);
	code_number(to, &wait->needed);
}

static void code_fds(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	struct snap_codec *codec = &to->codec;
	size_t kinds = wait->fd_kinds ? wait->fds_count : 0;
	/* The descriptions also read; when they count or write, they change nothing. */
	uint32_t *fd_kinds = (uint32_t *)(uintptr_t)wait->fd_kinds;

	snap_code_list(codec, wait->fds, wait->fds_count, SNAP_MAX_WATCHED, sizeof(int32_t), i,
		       snap_code_i32(codec, &wait->fds[i]));
	snap_code_list(codec, fd_kinds, kinds, SNAP_MAX_WATCHED, sizeof(uint32_t), i,
		       snap_code_enum(codec, &fd_kinds[i], SNAP_DESCRIPTOR_KINDS));
	snap_codec_check(codec, kinds == 0 || kinds == wait->fds_count,
			 "invalid kinds of descriptors");
	if (snap_codec_reads(codec))
		wait->fd_kinds = kinds ? fd_kinds : NULL;
}

static void code_watched(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	struct snap_codec *codec = &to->codec;

	code_number(to, &wait->fd_count);
	code_fds(to, wait);
	snap_code_bool(codec, &wait->fds_cut);
	for (size_t i = 0; i < SNAP_DESCRIPTOR_KINDS; i++)
		snap_code_u32(codec, &wait->kinds_watched[i]);
	snap_code_u32(codec, &wait->listening);
	snap_code_u32(codec, &wait->connected);
	snap_code_text_pointer(to, &wait->listen_address, SNAP_MAX_NAME);
}

static void code_wait_socket(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_text_pointer(to, &wait->local, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &wait->remote, SNAP_MAX_NAME);
	snap_code_text_pointer(to, &wait->socket_state, LONGEST_WORD);
	code_number(to, &wait->recv_queue);
	code_number(to, &wait->send_queue);
	code_number(to, &wait->backlog);
	code_number(to, &wait->backlog_max);
	code_number(to, &wait->retransmits);
	code_number(to, &wait->peer_recv_queue);
}

static void code_rest(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	snap_code_u64(&to->codec, &wait->signals);
	snap_code_least(&to->codec, &wait->child, -INT_MAX);
	snap_code_u64(&to->codec, &wait->range_start);
	snap_code_u64(&to->codec, &wait->range_end);
}

static const struct {
	bool (*has)(const struct snap_wait *wait);
	void (*code)(struct snap_pointer_codec *to, struct snap_wait *wait);
} groups[] = {
	{ snap_wait_has_address, code_wait_address },
	{ has_file, code_file },
	{ has_owner, code_owner },
	{ has_others, code_others },
	{ snap_wait_has_numbers, code_numbers },
	{ snap_wait_has_watched, code_watched },
	{ snap_wait_has_socket, code_wait_socket },
	{ snap_wait_has_rest, code_rest },
};

/* ---- all of it ---- */

static void code_always(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	struct snap_codec *codec = &to->codec;

	snap_code_enumerator(codec, &wait->kind, SNAP_WAIT_KINDS);
	snap_code_enumerator(codec, &wait->confidence, SNAP_WAIT_CONFIDENCES);
	snap_code_text_pointer(to, &wait->variant, LONGEST_WORD);
	snap_code_enumerator(codec, &wait->mode, SNAP_WAIT_WRITE + 1);
	snap_code_text_pointer(to, &wait->call, LONGEST_WORD);
	snap_code_bool(codec, &wait->timed);
	code_number(to, &wait->since_ns);
	code_number(to, &wait->remaining_ns);
	snap_codec_check(codec, wait->kind != SNAP_WAIT_NONE, "wait for nothing");
}

void snap_code_wait(struct snap_pointer_codec *to, struct snap_wait *wait)
{
	uint32_t there = 0;

	/* When reading, the memory is new, and its old contents must not be read. */
	if (snap_codec_reads(&to->codec))
		*wait = snap_wait_init(SNAP_WAIT_SYSCALL, SNAP_WAIT_IS_UNKNOWN);
	for (size_t i = 0; !snap_codec_reads(&to->codec) && i < SNAP_ARRAY_SIZE(groups); i++)
		if (groups[i].has(wait))
			there |= 1u << i;
	code_always(to, wait);
	snap_code_u32(&to->codec, &there);
	snap_codec_check(&to->codec, there >> SNAP_ARRAY_SIZE(groups) == 0,
			 "unknown parts of a wait");
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(groups) && !to->codec.problem; i++)
		if (there >> i & 1)
			groups[i].code(to, wait);
}
