/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What capture files hold of waits: all of it is read back, and nothing that makes no sense. The
 * capture is made by hand.
 */
#include "capture_bytes.h"
#include "extremes.h"

#include <fcntl.h>
#include <stdio.h>

enum { SOCKET_STATE = 10, WATCHED = 3 };

static void fill_thread(struct snap_capture *capture, struct snap_process *process)
{
	struct snap_thread *thread = snap_arena_new(&capture->arena, struct snap_thread);

	*thread = (struct snap_thread){
		.tid = 100,
		.result = SNAP_THREAD_NOT_STOPPED,
		.call = { .known = true,
			  .number = 202,
			  .arguments = { 0x1000, 128, 2, 0x2000, 5, UINT64_MAX },
			  .sp = 0x7ffc00001000,
			  .pc = 0x401234,
			  .thread_pointer = 0x7f0000000740 },
		.blocked_ns = 3200000000,
		.call_confirmed = true,
		.confirmed = true,
		.start_ticks = 4321,
		.tracer = 77,
	};
	process->threads = thread;
	process->thread_count = 1;
}

static void fill_descriptors(struct snap_capture *capture, struct snap_process *process)
{
	struct snap_descriptor *descriptors =
		snap_arena_new_array(&capture->arena, 2, struct snap_descriptor);
	int32_t *watched = snap_arena_new_array(&capture->arena, WATCHED, int32_t);

	for (int i = 0; i < WATCHED; i++)
		watched[i] = 7 + i;
	descriptors[0] = (struct snap_descriptor){ .number = 0,
						   .kind = SNAP_DESCRIPTOR_PIPE,
						   .readable = true,
						   .link = "pipe:[4711]",
						   .inode = 4711,
						   .remaining_ns = -1,
						   .pid = -1 };
	descriptors[1] = (struct snap_descriptor){ .number = 9,
						   .kind = SNAP_DESCRIPTOR_EPOLL,
						   .writable = true,
						   .dev_major = 8,
						   .dev_minor = 1,
						   .count = 17,
						   .id = 18,
						   .remaining_ns = 19,
						   .signals = 1ull << 63,
						   .pid = 20,
						   .watches = 1024,
						   .watches_cut = true,
						   .watched = watched,
						   .watched_count = WATCHED };
	process->descriptors = descriptors;
	process->descriptor_count = 2;
	process->net_namespace = 4026531840;
	process->ipc_namespace = 4026531839;
	process->frozen = true;
	process->has_other_clocks = true;
	process->pgrp = 99;
}

static void fill_words(struct snap_capture *capture, struct snap_process *process)
{
	struct snap_memory_image *words = snap_arena_new(&capture->arena, struct snap_memory_image);
	struct snap_memory_piece *pieces =
		snap_arena_new_array(&capture->arena, 2, struct snap_memory_piece);

	pieces[0] = (struct snap_memory_piece){ 0x1000, 4, (const uint8_t *)"lock" };
	pieces[1] = (struct snap_memory_piece){ 0x2000, 5, (const uint8_t *)"times" };
	*words = (struct snap_memory_image){ .pieces = pieces, .piece_count = 2, .bytes = 9 };
	process->words = words;
}

static struct snap_wait_facts *new_facts(struct snap_capture *capture)
{
	static struct snap_socket sockets[2] = {
		{ .namespace = 1,
		  .inode = 5,
		  .family = SNAP_SOCKET_TCP6,
		  .state = SOCKET_STATE,
		  .local = { { 1, 2, 3, [15] = 255 }, 443 },
		  .remote = { { [0] = 9 }, 65535 },
		  .receive_queue = 6,
		  .send_queue = 7,
		  .queues_known = true,
		  .retransmits = 8 },
		{ .namespace = 1,
		  .inode = 6,
		  .family = SNAP_SOCKET_UNIX,
		  .type = 2,
		  .peer = 77,
		  .name = "@abstract" },
	};
	static struct snap_file_lock locks[] = {
		{ 8, 1, 99, 10, UINT64_MAX, 3, 100, SNAP_LOCK_POSIX, true, true, false },
		{ 8, 2, 98, 0, 5, 4, -1, SNAP_LOCK_OFD, false, false, true },
	};
	static struct snap_file_peer ends[] = {
		{ 100, SNAP_DESCRIPTOR_PIPE, 4711, true, false },
		{ 101, SNAP_DESCRIPTOR_PIPE, 4711, false, true },
	};
	static struct snap_outsider outsiders[] = { { 5, "a \x1b[31m", 'T' }, { 6, NULL, 0 } };
	static struct snap_ipc_queue queues[] = { { false, 4026531839, 3, 0, 1, 2, 100, 101 },
						  { true, 4026531838, 1, 65535, 0, 0, 102, 0 } };
	static struct snap_gone_thread gone[] = { { 100, 55, true }, { 100, 56, false } };
	struct snap_wait_facts *facts = snap_arena_new(&capture->arena, struct snap_wait_facts);

	*facts = (struct snap_wait_facts){
		.sockets = sockets,
		.socket_count = 2,
		.locks = locks,
		.lock_count = 2,
		.peers = ends,
		.peer_count = 2,
		.outsiders = outsiders,
		.outsider_count = 2,
		.queues = queues,
		.queue_count = 2,
		.gone = gone,
		.gone_count = 2,
		.monotonic_ns = 1,
		.realtime_ns = -2,
		.boottime_ns = 3,
		.lacks = SNAP_LACK_RIGHTS | SNAP_LACK_CUT,
	};
	return facts;
}

static struct snap_capture *make_capture(void)
{
	struct snap_capture *capture = snap_capture_new();
	struct snap_process *process;

	assert_non_null(capture);
	process = snap_capture_append(capture);
	assert_non_null(process);
	process->pid = 100;
	process->parent = SIZE_MAX;
	process->arch = SNAP_ARCH_X86_64;
	fill_thread(capture, process);
	fill_descriptors(capture, process);
	fill_words(capture, process);
	capture->waits = new_facts(capture);
	return capture;
}

/* But for pointers. */
static void check_lists(const struct snap_wait_facts *back, const struct snap_wait_facts *facts)
{
	for (size_t i = 0; i < 2; i++) {
		struct snap_socket socket = back->sockets[i];
		struct snap_outsider outsider = back->outsiders[i];

		socket.name = facts->sockets[i].name;
		assert_memory_equal(&socket, &facts->sockets[i], sizeof(socket));
		assert_memory_equal(&back->locks[i], &facts->locks[i], sizeof(*facts->locks));
		assert_memory_equal(&back->peers[i], &facts->peers[i], sizeof(*facts->peers));
		outsider.name = facts->outsiders[i].name;
		assert_memory_equal(&outsider, &facts->outsiders[i], sizeof(outsider));
		assert_memory_equal(&back->queues[i], &facts->queues[i], sizeof(*facts->queues));
		assert_int_equal(back->gone[i].pid, facts->gone[i].pid);
		assert_int_equal(back->gone[i].tid, facts->gone[i].tid);
		assert_int_equal(back->gone[i].everywhere, facts->gone[i].everywhere);
	}
	assert_null(back->sockets[0].name);
	assert_string_equal(back->sockets[1].name, "@abstract");
	assert_string_equal(back->outsiders[0].name, "a \x1b[31m");
	assert_null(back->outsiders[1].name);
}

static void test_round_trip(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	struct bytes first = write_capture(capture), second;
	const struct snap_process *process;
	struct snap_descriptor descriptor;
	const struct snap_thread *thread;
	char text[8];

	assert_null(read_capture(first.data, first.size, &back));
	second = write_capture(back);
	assert_int_equal(first.size, second.size);
	assert_memory_equal(first.data, second.data, first.size);
	process = &back->processes[0];
	thread = &process->threads[0];
	assert_memory_equal(&thread->call, &capture->processes[0].threads[0].call,
			    sizeof(thread->call));
	assert_int_equal(thread->blocked_ns, 3200000000);
	assert_true(thread->call_confirmed);
	assert_true(thread->confirmed);
	assert_int_equal(process->words->bytes, 9);
	assert_true(snap_memory_image_read(process->words, 0x2001, text, 4));
	assert_memory_equal(text, "imes", 4);
	assert_null(process->memory);
	assert_int_equal(process->net_namespace, 4026531840);
	assert_true(process->frozen);
	assert_true(process->has_other_clocks);
	assert_int_equal(process->pgrp, 99);
	assert_int_equal(thread->start_ticks, 4321);
	assert_int_equal(thread->tracer, 77);
	assert_int_equal(process->ipc_namespace, 4026531839);
	assert_int_equal(process->descriptor_count, 2);
	assert_string_equal(process->descriptors[0].link, "pipe:[4711]");
	descriptor = process->descriptors[1];
	assert_int_equal(descriptor.watched[WATCHED - 1], 7 + WATCHED - 1);
	descriptor.watched = capture->processes[0].descriptors[1].watched;
	assert_memory_equal(&descriptor, &capture->processes[0].descriptors[1], sizeof(descriptor));
	check_lists(back->waits, capture->waits);
	assert_int_equal(back->waits->realtime_ns, -2);
	assert_int_equal(back->waits->boottime_ns, 3);
	assert_int_equal(back->waits->lacks, SNAP_LACK_RIGHTS | SNAP_LACK_CUT);
	free(first.data);
	free(second.data);
}

/* The first of a machine has the number 0, which is not the same as none. */
static void test_eventfds(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture(),
							     *back = NULL;
	struct snap_descriptor *descriptors = capture->processes[0].descriptors;
	struct bytes bytes;

	for (size_t i = 0; i < 2; i++) {
		descriptors[i].kind = SNAP_DESCRIPTOR_EVENTFD;
		descriptors[i].id = i;
	}
	bytes = write_capture(capture);
	assert_null(read_capture(bytes.data, bytes.size, &back));
	assert_int_equal(back->processes[0].descriptors[0].id, 0);
	assert_int_equal(back->processes[0].descriptors[1].id, 1);
	free(bytes.data);
}

/* Nothing was asked, and nothing was found: not the same. */
static void test_nothing(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = snap_capture_new();

	for (int i = 0; i < 2; i++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
		struct bytes bytes = write_capture(capture);

		assert_null(read_capture(bytes.data, bytes.size, &back));
		assert_int_equal(back->waits != NULL, i == 1);
		free(bytes.data);
		capture->waits = snap_arena_new(&capture->arena, struct snap_wait_facts);
	}
}

/* Wrong values behind a right checksum: an error or a capture, that can be written; no crash. */
static void test_wrong_values(void **state _unused_)
{
	static const uint8_t values[] = { 0x00, 0x01, 0x7f, 0xff };
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct bytes bytes = write_capture(capture);
	size_t read = 0, refused = 0;

	for (size_t i = 48; i < bytes.size; i++) {
		for (size_t k = 0; k < sizeof(values); k++) {
			_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
			uint8_t before = bytes.data[i];
			struct stacksnap_error *err;

			bytes.data[i] = values[k];
			sign(&bytes, i);
			err = read_capture(bytes.data, bytes.size, &back);
			if (err) {
				assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
				refused++;
			} else {
				struct bytes again = write_capture(back);

				assert_int_equal(again.size, bytes.size);
				assert_memory_equal(again.data, bytes.data, bytes.size);
				free(again.data);
				read++;
			}
			snap_error_destroy(err);
			bytes.data[i] = before;
			sign(&bytes, i);
		}
	}
	assert_true(read > 100);
	assert_true(refused > 100);
	free(bytes.data);
}

/* One thing that must not be, and what is said of it. */
static const char *spoil(struct snap_capture *capture, unsigned how)
{
	struct snap_process *process = &capture->processes[0];
	struct snap_wait_facts *facts = capture->waits;
	static struct snap_socket sockets[2];
	static struct snap_outsider outsiders[2];
	static struct snap_file_peer ends[2];
	static struct snap_ipc_queue queues[2];

	switch (how) {
	case 0:
		process->descriptors[1].number = 0;
		return "descriptors not sorted";
	case 1:
		process->descriptors[0].number = -1;
		return "invalid descriptor";
	case 2:
		facts->lacks = SNAP_LACK_ALL + 1;
		return "unknown lack";
	case 3:
		sockets[0].namespace = 1;
		facts->sockets = sockets;
		return "sockets not sorted";
	case 4:
		outsiders[0].pid = outsiders[1].pid = 7;
		facts->outsiders = outsiders;
		return "processes not sorted";
	case 5:
		ends[0].inode = 1;
		facts->peers = ends;
		return "ends of files not sorted";
	case 6:
		queues[0].is_semaphore = true;
		facts->queues = queues;
		return "queues not sorted";
	case 7:
		process->words->pieces[1].address = 0x1002;
		return "ranges of an image not sorted";
	case 8:
		facts->gone =
			snap_arena_memdup(&capture->arena, facts->gone, 2 * sizeof(*facts->gone));
		facts->gone[1] = facts->gone[0];
		return "threads that are gone not sorted";
	default:
		return NULL;
	}
}

static void test_inconsistent(void **state _unused_)
{
	unsigned how = 0;

	for (;; how++) {
		_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
		const char *why = spoil(capture, how);
		struct bytes bytes;

		if (!why)
			break;
		bytes = write_capture(capture);
		refuse(bytes.data, bytes.size, why);
		free(bytes.data);
	}
	assert_int_equal(how, 9);
}

static void check_capture(const void *capture)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	struct bytes bytes = write_capture(capture);

	assert_null(read_capture(bytes.data, bytes.size, &back));
	free(bytes.data);
}

/* A new field is added to the lists below as well, if it is a number. */
_Static_assert(sizeof(struct snap_thread) == 288 && sizeof(struct snap_process) == 568 &&
		       sizeof(struct snap_capture) == 256 &&
		       sizeof(struct snap_descriptor) == 104 && sizeof(struct snap_socket) == 104 &&
		       sizeof(struct snap_file_lock) == 48 && sizeof(struct snap_ipc_queue) == 48 &&
		       sizeof(struct snap_file_peer) == 24 && sizeof(struct snap_wait_facts) == 128,
	       "numbers of a capture");

static void test_extremes(void **state _unused_)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *capture = make_capture();
	struct snap_process *process = &capture->processes[0];
	struct snap_thread *thread = &process->threads[0];
	struct snap_descriptor *last = &process->descriptors[1];
	struct snap_wait_facts *facts = capture->waits;
	struct snap_socket *socket = &facts->sockets[0];
	struct snap_file_lock *lock = &facts->locks[0];
	struct snap_ipc_queue *queue = &facts->queues[0];

	FOR_EXTREMES(check_capture, capture, EXTREME(capture->host.cpus),
		     EXTREME(capture->host.boot_time_ns), EXTREME(capture->host.ticks_per_second),
		     EXTREME(capture->time_ns), EXTREME(capture->duration_ns),
		     EXTREME(capture->stop_duration_ns), EXTREME(capture->stop_skew_ns),
		     EXTREME(capture->stop_rounds), EXTREME(process->ppid), EXTREME(process->pgrp),
		     EXTREME(process->caught), EXTREME(process->ns_pid),
		     EXTREME(process->start_ticks), EXTREME(process->start_time_ns),
		     EXTREME(process->flags), EXTREME(process->uid), EXTREME(process->arch),
		     EXTREME(process->trouble), EXTREME(process->stop_duration_ns),
		     EXTREME(process->net_namespace), EXTREME(process->ipc_namespace),
		     EXTREME(process->usage.rss_bytes), EXTREME(process->usage.cpu_ns),
		     EXTREME(process->signal.number), EXTREME(process->signal.code),
		     EXTREME(process->signal.tid), EXTREME(process->signal.address),
		     EXTREME(process->credentials.program));
	FOR_EXTREMES(check_capture, capture, EXTREME(thread->ns_tid), EXTREME(thread->cpu),
		     EXTREME(thread->flags), EXTREME(thread->start_ticks), EXTREME(thread->tracer),
		     EXTREME(thread->taken), EXTREME(thread->stack_address),
		     EXTREME(thread->call.number), EXTREME(thread->call.arguments[0]),
		     EXTREME(thread->call.sp), EXTREME(thread->call.pc),
		     EXTREME(thread->call.thread_pointer), EXTREME(thread->blocked_ns),
		     EXTREME(thread->runs), EXTREME(last->inode), EXTREME(last->dev_major),
		     EXTREME(last->dev_minor), EXTREME(last->count), EXTREME(last->id),
		     EXTREME(last->remaining_ns), EXTREME(last->signals), EXTREME(last->pid),
		     EXTREME(last->watches), EXTREME(last->kind), EXTREME(last->watched[0]));
	FOR_EXTREMES(check_capture, capture, EXTREME(socket->state), EXTREME(socket->type),
		     EXTREME(socket->local.port), EXTREME(socket->receive_queue),
		     EXTREME(socket->send_queue), EXTREME(socket->retransmits),
		     EXTREME(socket->peer), EXTREME(lock->dev_major), EXTREME(lock->dev_minor),
		     EXTREME(lock->inode), EXTREME(lock->start), EXTREME(lock->end),
		     EXTREME(lock->number), EXTREME(lock->pid), EXTREME(lock->kind),
		     EXTREME(queue->messages), EXTREME(queue->bytes), EXTREME(queue->last_sender),
		     EXTREME(queue->last_receiver), EXTREME(facts->monotonic_ns),
		     EXTREME(facts->realtime_ns), EXTREME(facts->boottime_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_eventfds),
		cmocka_unit_test(test_nothing),      cmocka_unit_test(test_wrong_values),
		cmocka_unit_test(test_inconsistent), cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
