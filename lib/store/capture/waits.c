/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The fields of waits in the order of the file: see waits.h. */
#include "store/capture/waits.h"

#include "base/bsearch.h"

enum {
	LOCK_KINDS = SNAP_LOCK_LEASE + 1,
	/* the least that an element takes in the file */
	LEAST_DESCRIPTOR = 64,
	LEAST_WATCHED = 4,
	LEAST_SOCKET = 64,
	LEAST_LOCK = 32,
	LEAST_END = 16,
	LEAST_OUTSIDER = 8,
	LEAST_QUEUE = 24,
	LEAST_GONE = 12,
};

static void code_u8(struct snap_codec *codec, uint8_t *value)
{
	uint32_t wide = *value;

	snap_code_u32(codec, &wide);
	snap_codec_check(codec, wide <= UINT8_MAX, "number too large");
	*value = (uint8_t)wide;
}

static void code_u16(struct snap_codec *codec, uint16_t *value)
{
	uint32_t wide = *value;

	snap_code_u32(codec, &wide);
	snap_codec_check(codec, wide <= UINT16_MAX, "number too large");
	*value = (uint16_t)wide;
}

/* ---- threads ---- */

static void code_call(struct snap_codec *codec, struct snap_thread_call *call)
{
	snap_code_bool(codec, &call->known);
	if (!call->known)
		return;
	snap_code_range(codec, &call->number, -1, INT64_MAX);
	for (int i = 0; i < SNAP_CALL_ARGUMENTS; i++)
		snap_code_u64(codec, &call->arguments[i]);
	snap_code_u64(codec, &call->sp);
	snap_code_u64(codec, &call->pc);
	snap_code_u64(codec, &call->thread_pointer);
}

void snap_code_thread_waits(struct snap_codec *codec, struct snap_thread *thread)
{
	code_call(codec, &thread->call);
	snap_code_range(codec, &thread->blocked_ns, -1, INT64_MAX);
	snap_code_bool(codec, &thread->call_confirmed);
	snap_code_bool(codec, &thread->confirmed);
	snap_code_u64(codec, &thread->start_ticks);
	snap_code_least(codec, &thread->tracer, 0);
	snap_code_u64(codec, &thread->runs);
}

/* ---- processes ---- */

/* The number of a file of a kind. For an eventfd the file has the kernel's number, the model one more. */
static void code_number_of(struct snap_codec *codec, enum snap_descriptor_kind kind,
			   uint64_t *number)
{
	uint64_t one = kind == SNAP_DESCRIPTOR_EVENTFD, kept = *number - one;

	snap_code_u64(codec, &kept);
	if (codec->mode == SNAP_CODEC_READ)
		*number = kept + one;
}

static void code_descriptor(struct snap_codec *codec, struct snap_descriptor *descriptor,
			    const struct snap_descriptor *before)
{
	snap_code_i32(codec, &descriptor->number);
	snap_code_enumerator(codec, &descriptor->kind, SNAP_DESCRIPTOR_KINDS);
	snap_code_bool(codec, &descriptor->readable);
	snap_code_bool(codec, &descriptor->writable);
	snap_code_text(codec, &descriptor->link, SNAP_MAX_LINK);
	snap_code_u64(codec, &descriptor->inode);
	snap_code_u32(codec, &descriptor->dev_major);
	snap_code_u32(codec, &descriptor->dev_minor);
	snap_code_u64(codec, &descriptor->count);
	code_number_of(codec, descriptor->kind, &descriptor->id);
	snap_code_i64(codec, &descriptor->remaining_ns);
	snap_code_u64(codec, &descriptor->signals);
	snap_code_i32(codec, &descriptor->pid);
	snap_code_u32(codec, &descriptor->watches);
	snap_code_bool(codec, &descriptor->watches_cut);
	snap_code_list(codec, descriptor->watched, descriptor->watched_count, SNAP_MAX_WATCHED,
		       LEAST_WATCHED, i, snap_code_i32(codec, &descriptor->watched[i]));
	snap_codec_check(codec, descriptor->number >= 0, "invalid descriptor");
	snap_codec_check(codec, !before || before->number < descriptor->number,
			 "descriptors not sorted");
}

void snap_code_process_waits(struct snap_codec *codec, struct snap_process *process)
{
	snap_code_list(codec, process->descriptors, process->descriptor_count, SNAP_MAX_DESCRIPTORS,
		       LEAST_DESCRIPTOR, i,
		       code_descriptor(codec, &process->descriptors[i],
				       i ? &process->descriptors[i - 1] : NULL));
	snap_code_u64(codec, &process->net_namespace);
	snap_code_two_bools(codec, &process->frozen, &process->has_other_clocks);
	snap_code_least(codec, &process->pgrp, 0);
	snap_code_u64(codec, &process->ipc_namespace);
	snap_code_u64(codec, &process->caught);
}

/* ---- the capture ---- */

static void code_captured_address(struct snap_codec *codec, struct snap_socket_address *address)
{
	for (size_t i = 0; i < sizeof(address->bytes); i += sizeof(uint32_t)) {
		uint32_t part = (uint32_t)address->bytes[i] | (uint32_t)address->bytes[i + 1] << 8 |
				(uint32_t)address->bytes[i + 2] << 16 |
				(uint32_t)address->bytes[i + 3] << 24;

		snap_code_u32(codec, &part);
		for (size_t k = 0; k < sizeof(part); k++)
			address->bytes[i + k] = (uint8_t)(part >> 8 * k);
	}
	code_u16(codec, &address->port);
}

static void code_captured_socket(struct snap_codec *codec, struct snap_socket *socket,
				 const struct snap_socket *before)
{
	snap_code_u64(codec, &socket->namespace);
	snap_code_u64(codec, &socket->inode);
	snap_code_enumerator(codec, &socket->family, SNAP_SOCKET_FAMILIES);
	code_u8(codec, &socket->state);
	code_u8(codec, &socket->type);
	code_captured_address(codec, &socket->local);
	code_captured_address(codec, &socket->remote);
	snap_code_u64(codec, &socket->receive_queue);
	snap_code_u64(codec, &socket->send_queue);
	snap_code_bool(codec, &socket->queues_known);
	snap_code_u32(codec, &socket->retransmits);
	snap_code_u64(codec, &socket->peer);
	snap_code_text(codec, &socket->name, SNAP_MAX_SOCKET_NAME);
	snap_codec_check(codec,
			 !before || (snap_compare(before->namespace, socket->namespace)
					     ?: snap_compare(before->inode, socket->inode)) <= 0,
			 "sockets not sorted");
}

static void code_lock(struct snap_codec *codec, struct snap_file_lock *lock)
{
	snap_code_u32(codec, &lock->dev_major);
	snap_code_u32(codec, &lock->dev_minor);
	snap_code_u64(codec, &lock->inode);
	snap_code_u64(codec, &lock->start);
	snap_code_u64(codec, &lock->end);
	snap_code_u32(codec, &lock->number);
	snap_code_i32(codec, &lock->pid);
	snap_code_enumerator(codec, &lock->kind, LOCK_KINDS);
	snap_code_bool(codec, &lock->write);
	snap_code_bool(codec, &lock->waits);
	snap_code_bool(codec, &lock->is_holder);
}

static void code_end(struct snap_codec *codec, struct snap_file_peer *end,
		     const struct snap_file_peer *before)
{
	snap_code_i32(codec, &end->pid);
	snap_code_enumerator(codec, &end->kind, SNAP_DESCRIPTOR_KINDS);
	code_number_of(codec, end->kind, &end->inode);
	snap_code_bool(codec, &end->readable);
	snap_code_bool(codec, &end->writable);
	snap_codec_check(codec,
			 !before || (snap_compare(before->kind, end->kind)
					     ?: snap_compare(before->inode, end->inode)
					     ?: snap_compare(before->pid, end->pid)) <= 0,
			 "ends of files not sorted");
}

static void code_outsider(struct snap_codec *codec, struct snap_outsider *outsider,
			  const struct snap_outsider *before)
{
	snap_code_i32(codec, &outsider->pid);
	snap_code_text(codec, &outsider->name, SNAP_MAX_COMM);
	snap_code_letter(codec, &outsider->state);
	snap_codec_check(codec, !before || before->pid < outsider->pid, "processes not sorted");
}

static void code_queue(struct snap_codec *codec, struct snap_ipc_queue *queue,
		       const struct snap_ipc_queue *before)
{
	snap_code_bool(codec, &queue->is_semaphore);
	snap_code_u64(codec, &queue->namespace);
	snap_code_i32(codec, &queue->id);
	code_u16(codec, &queue->number);
	snap_code_u64(codec, &queue->messages);
	snap_code_u64(codec, &queue->bytes);
	snap_code_i32(codec, &queue->last_sender);
	snap_code_i32(codec, &queue->last_receiver);
	snap_codec_check(codec,
			 !before || (snap_compare(before->is_semaphore, queue->is_semaphore)
					     ?: snap_compare(before->namespace, queue->namespace)
					     ?: snap_compare(before->id, queue->id)
					     ?: snap_compare(before->number, queue->number)) <= 0,
			 "queues not sorted");
}

static void code_gone(struct snap_codec *codec, struct snap_gone_thread *gone,
		      const struct snap_gone_thread *before)
{
	snap_code_i32(codec, &gone->pid);
	snap_code_i32(codec, &gone->tid);
	snap_code_bool(codec, &gone->everywhere);
	snap_codec_check(codec,
			 !before || (snap_compare(before->pid, gone->pid)
					     ?: snap_compare(before->tid, gone->tid)) < 0,
			 "threads that are gone not sorted");
}

static void code_lists(struct snap_codec *codec, struct snap_wait_facts *facts)
{
	snap_code_list(
		codec, facts->sockets, facts->socket_count, SNAP_MAX_SOCKETS, LEAST_SOCKET, i,
		code_captured_socket(codec, &facts->sockets[i], i ? &facts->sockets[i - 1] : NULL));
	snap_code_list(codec, facts->locks, facts->lock_count, SNAP_MAX_FILE_LOCKS, LEAST_LOCK, i,
		       code_lock(codec, &facts->locks[i]));
	snap_code_list(codec, facts->peers, facts->peer_count, SNAP_MAX_FILE_PEERS, LEAST_END, i,
		       code_end(codec, &facts->peers[i], i ? &facts->peers[i - 1] : NULL));
	snap_code_list(
		codec, facts->outsiders, facts->outsider_count, SNAP_MAX_OUTSIDERS, LEAST_OUTSIDER,
		i, code_outsider(codec, &facts->outsiders[i], i ? &facts->outsiders[i - 1] : NULL));
	snap_code_list(codec, facts->queues, facts->queue_count, SNAP_MAX_QUEUES, LEAST_QUEUE, i,
		       code_queue(codec, &facts->queues[i], i ? &facts->queues[i - 1] : NULL));
	snap_code_list(codec, facts->gone, facts->gone_count, SNAP_MAX_GONE, LEAST_GONE, i,
		       code_gone(codec, &facts->gone[i], i ? &facts->gone[i - 1] : NULL));
}

void snap_code_wait_facts(struct snap_codec *codec, struct snap_capture *capture)
{
	bool is_there = capture->waits != NULL;
	struct snap_wait_facts *facts;

	snap_code_bool(codec, &is_there);
	if (!is_there)
		return;
	if (snap_codec_reads(codec))
		capture->waits = snap_arena_new(codec->arena, struct snap_wait_facts);
	facts = capture->waits;
	if (!facts) {
		snap_codec_refuse_memory(codec);
		return;
	}
	code_lists(codec, facts);
	snap_code_i64(codec, &facts->monotonic_ns);
	snap_code_i64(codec, &facts->realtime_ns);
	snap_code_i64(codec, &facts->boottime_ns);
	snap_code_u32(codec, &facts->lacks);
	snap_codec_check(codec, !(facts->lacks & ~(unsigned)SNAP_LACK_ALL), "unknown lack");
}
