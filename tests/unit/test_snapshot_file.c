/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Snapshots as bytes: every format prints of what was read what it prints of what was written;
 * whatever byte is wrong, reading refuses it, or renderers survive it, and it takes little memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "extremes.h"
#include "golden.h"
#include "store/snapshot/file.h"
#include "task_snapshots.h"
#include "wait_rows.h"

#include <sys/mman.h>

/* Bytes that were asked for: the linker sends all calls here. */
static size_t asked;

void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	asked += count * size;
	return __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	asked += size;
	return __real_realloc(old, size);
}

struct bytes {
	uint8_t *data;
	size_t size;
};

static struct bytes write_snapshot(const struct snap_snapshot *snapshot)
{
	struct bytes bytes = { .size = snap_snapshot_size(snapshot) };

	assert_true(bytes.size < UINT64_MAX);
	bytes.data = malloc(bytes.size);
	assert_non_null(bytes.data);
	assert_null(snap_snapshot_write(snapshot, bytes.data, bytes.size, &bytes.size));
	return bytes;
}

/* NULL when it is refused, which is for its form alone. A copy, so that its end is an end. */
static struct snap_snapshot *read_snapshot(const uint8_t *data, size_t size, uint8_t **copy_ret)
{
	struct snap_snapshot *snapshot = NULL;
	struct stacksnap_error *err;

	*copy_ret = malloc(size ? size : 1);
	assert_non_null(*copy_ret);
	memcpy(*copy_ret, data, size);
	asked = 0;
	err = snap_snapshot_read(*copy_ret, size, &snapshot);
	if (asked > 16 * size + 65536)
		fail_msg("%zu bytes made it ask for %zu", size, asked);
	if (!err)
		return snapshot;
	assert_null(snapshot);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	assert_null(strstr(snap_error_message(err), "memory"));
	snap_error_destroy(err);
	return NULL;
}

/* ---- what it looks like ---- */

static void put_all(const struct snap_snapshot *snapshot, FILE *out)
{
	const struct snap_options plain = { 0 },
				  full = { .verbose = 2,
					   .show_module = true,
					   .show_build_id = true,
					   .raw_names = true },
				  terminal = { .utf8 = true, .color = true, .width = 80 },
				  summary = { .summary = true, .width = 60 };

	assert_null(snap_render_text(snapshot, &plain, out));
	assert_null(snap_render_text(snapshot, &full, out));
	assert_null(snap_render_text(snapshot, &terminal, out));
	assert_null(snap_render_text(snapshot, &summary, out));
	assert_null(snap_render_list(snapshot, &plain, out));
	for (const struct snap_format *format = snap_formats; format->name; format++)
		assert_null(snap_render_snapshot(format, snapshot, &plain, out));
}

/* Each member once. */
static void put_some(const struct snap_snapshot *snapshot, FILE *out)
{
	const struct snap_options full = { .verbose = 2,
					   .show_module = true,
					   .show_build_id = true };

	assert_null(snap_render_text(snapshot, &full, out));
	assert_null(snap_render_json(snapshot, &full, out));
}

static struct bytes looks_of(const struct snap_snapshot *snapshot,
			     void (*put)(const struct snap_snapshot *, FILE *))
{
	struct bytes looks = { 0 };
	FILE *out = open_memstream((char **)&looks.data, &looks.size);

	assert_non_null(out);
	put(snapshot, out);
	assert_int_equal(fclose(out), 0);
	return looks;
}

/* What is in no report. */
static void check_rest(const struct snap_snapshot *a, const struct snap_snapshot *b)
{
	assert_int_equal(a->host.boot_time_ns, b->host.boot_time_ns);
	assert_int_equal(a->host.ticks_per_second, b->host.ticks_per_second);
	assert_int_equal(a->stop_skew_ns, b->stop_skew_ns);
	assert_int_equal(a->monotonic_ns, b->monotonic_ns);
	assert_int_equal(a->flat, b->flat);
	assert_int_equal(a->many_instants, b->many_instants);
	assert_memory_equal(&a->missing, &b->missing, sizeof(a->missing));
	assert_int_equal(a->process_count, b->process_count);
	assert_int_equal(a->thread_count, b->thread_count);
	assert_int_equal(a->task_count, b->task_count);
	assert_int_equal(a->stack_count, b->stack_count);
	assert_null(b->backing);
}

/* Reads it back and hands it over, with what it lies in. */
static struct snap_snapshot *check_by(void (*put)(const struct snap_snapshot *, FILE *),
				      const struct snap_snapshot *snapshot, uint8_t **copy_ret)
{
	struct bytes bytes = write_snapshot(snapshot), again, looks, others;
	struct snap_snapshot *read = read_snapshot(bytes.data, bytes.size, copy_ret);

	assert_non_null(read);
	check_rest(snapshot, read);
	again = write_snapshot(read);
	assert_int_equal(bytes.size, again.size);
	assert_memory_equal(bytes.data, again.data, bytes.size);
	looks = looks_of(snapshot, put);
	others = looks_of(read, put);
	assert_int_equal(looks.size, others.size);
	assert_memory_equal(looks.data, others.data, looks.size);
	free(bytes.data);
	free(again.data);
	free(looks.data);
	free(others.data);
	return read;
}

static void check(const struct snap_snapshot *snapshot)
{
	uint8_t *copy;

	snap_snapshot_destroy(check_by(put_all, snapshot, &copy));
	free(copy);
}

static void test_fixtures(void **state _unused_)
{
	struct snap_snapshot flat = flat_service(), trouble = all_troubled(), instants = service,
			     empty = { .host = TEST_HOST, .time_ns = 1 }, nothing = { 0 };

	workers[3].taken = SNAP_TAKEN_UNSTOPPED;
	workers[4].taken = SNAP_TAKEN_ALONE;
	instants.many_instants = true;
	instants.missing = (struct snap_missing){ 1, 2, 3, 4 };
	check(&service);
	check(&instants);
	workers[3].taken = workers[4].taken = SNAP_TAKEN_TOGETHER;
	check(&flat);
	check(&trouble);
	check(&hostile);
	check(&empty);
	check(&nothing);
}

static void test_tasks(void **state _unused_)
{
	struct snap_snapshot flat = flat_gitea();

	check(&gitea);
	check(&flat);
	check(&hostile_gitea);
}

static void test_waits(void **state _unused_)
{
	struct snap_snapshot waiting = waiting_snapshot();

	check(&waiting);
}

/* A wait of which nothing is known takes the least room, and the list of them nearly all there is. */
static void test_least_waits(void **state _unused_)
{
	enum { COUNT = 1000 };
	static struct snap_member members[COUNT];
	static struct snap_wait waits[COUNT];
	struct snap_stack stack = { .id = "00000000000000aa",
				    .count = COUNT,
				    .description = "same",
				    .threads = members,
				    .thread_count = COUNT };
	struct snap_node node = { .pid = 9,
				  .name = "x",
				  .uid = (uid_t)-1,
				  .description = "x",
				  .thread_count = COUNT,
				  .stacks = &stack,
				  .stack_count = 1 };
	struct snap_node *root = &node;
	struct snap_snapshot snapshot = { .host = TEST_HOST,
					  .process_count = 1,
					  .thread_count = COUNT,
					  .stack_count = 1,
					  .processes = &root,
					  .root_count = 1 };
	struct bytes bytes;
	struct snap_snapshot *read;
	uint8_t *copy;

	for (size_t i = 0; i < COUNT; i++) {
		waits[i] = snap_wait_init(SNAP_WAIT_SYSCALL, SNAP_WAIT_IS_UNKNOWN);
		members[i] = (struct snap_member){
			.tid = 9 + (pid_t)i, .name = "x", .cpu = -1, .wait = &waits[i]
		};
	}
	bytes = write_snapshot(&snapshot);
	read = read_snapshot(bytes.data, bytes.size, &copy);
	assert_non_null(read);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(read->processes[0]->stacks[0].threads[i].wait->kind,
				 SNAP_WAIT_SYSCALL);
	snap_snapshot_destroy(read);
	free(copy);
	free(bytes.data);
}

/* Of a chain of waits each is found in the contents of the one before it, and the last ones near the end. */
static void test_chain_of_waits(void **state _unused_)
{
	enum { COUNT = 1000 };
	static struct snap_wait waits[COUNT];
	struct snap_member member = { .tid = 9, .name = "x", .cpu = -1, .wait = &waits[0] };
	struct snap_stack stack = { .id = "00000000000000aa",
				    .count = 1,
				    .description = "same",
				    .threads = &member,
				    .thread_count = 1 };
	struct snap_node node = { .pid = 9,
				  .name = "x",
				  .uid = (uid_t)-1,
				  .description = "x",
				  .thread_count = 1,
				  .stacks = &stack,
				  .stack_count = 1 };
	struct snap_node *root = &node;
	struct snap_snapshot snapshot = { .host = TEST_HOST,
					  .process_count = 1,
					  .thread_count = 1,
					  .stack_count = 1,
					  .processes = &root,
					  .root_count = 1 };
	struct bytes bytes;
	struct snap_snapshot *read;
	const struct snap_wait *wait;
	uint8_t *copy;
	size_t count = 1;

	for (size_t i = 0; i < COUNT; i++) {
		waits[i] = snap_wait_init(SNAP_WAIT_THREAD, SNAP_WAIT_IS_CERTAIN);
		waits[i].remaining_ns =
			INT64_MAX; /* is written as the largest number that may be */
		waits[i].owner.pid = waits[i].owner.tid = 9;
		waits[i].owner.wait = i + 1 < COUNT ? &waits[i + 1] : NULL;
	}
	bytes = write_snapshot(&snapshot);
	read = read_snapshot(bytes.data, bytes.size, &copy);
	assert_non_null(read);
	wait = read->processes[0]->stacks[0].threads[0].wait;
	for (; wait->owner.wait; wait = wait->owner.wait, count++)
		assert_in_range(wait->remaining_ns, INT64_MAX / 8, INT64_MAX);
	assert_int_equal(count, COUNT);
	snap_snapshot_destroy(read);
	free(copy);
	free(bytes.data);
}

/* In each room that is too small nothing is written behind it, and it is said. */
static void test_room(void **state _unused_)
{
	struct bytes whole = write_snapshot(&service);
	uint8_t *bytes = malloc(whole.size + 8);
	struct stacksnap_error *err;
	uint64_t size = 0;

	assert_non_null(bytes);
	assert_null(snap_snapshot_write(&service, bytes, whole.size, &size));
	assert_int_equal(size, whole.size);
	assert_memory_equal(bytes, whole.data, whole.size);
	for (size_t room = 1; room < whole.size; room += 7) {
		memset(bytes, 0xa5, whole.size + 8);
		err = snap_snapshot_write(&service, bytes, room, &size);
		assert_int_equal(snap_error_code(err), SNAP_ERROR_OTHER);
		snap_error_destroy(err);
		for (size_t i = room; i < whole.size + 8; i++)
			assert_int_equal(bytes[i], 0xa5);
	}
	free(bytes);
	free(whole.data);
}

static void test_backing(void **state _unused_)
{
	size_t size = snap_snapshot_size(&service);
	uint8_t *bytes =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char there;
	struct snap_snapshot *read = NULL;

	assert_ptr_not_equal(bytes, MAP_FAILED);
	assert_null(snap_snapshot_write(&service, bytes, size, &size));
	assert_null(snap_snapshot_read(bytes, size, &read));
	read->backing = bytes;
	read->backing_size = size;
	snap_snapshot_destroy(read);
	/* One page of it: a vector has a byte a page. */
	assert_int_equal(mincore(bytes, 1, &there), -1);
}

/* ---- many of everything ---- */

static void test_deep_tree(void **state _unused_)
{
	enum { DEPTH = 10000 };
	struct snap_node *nodes = calloc(DEPTH, sizeof(*nodes)), *root = nodes;
	struct snap_node **children = calloc(DEPTH, sizeof(*children));
	struct snap_snapshot snapshot = { .process_count = DEPTH,
					  .processes = &root,
					  .root_count = 1 };
	uint8_t *copy;

	for (int i = 0; i < DEPTH; i++) {
		nodes[i] = (struct snap_node){ .pid = i + 1, .name = "deep", .description = "d" };
		children[i] = &nodes[i + 1 < DEPTH ? i + 1 : i];
		nodes[i].children = &children[i];
		nodes[i].child_count = i + 1 < DEPTH;
	}
	snap_snapshot_destroy(check_by(put_some, &snapshot, &copy));
	free(copy);
	free(nodes);
	free(children);
}

enum { MANY = 10000 };

/* --per-thread: as many stacks, which have some lists of frames in common. */
static struct snap_stack *many_stacks(struct snap_arena *arena)
{
	struct snap_stack *stacks = snap_arena_new_array(arena, MANY, struct snap_stack);
	struct snap_member *members = snap_arena_new_array(arena, MANY, struct snap_member);

	for (int i = 0; i < MANY; i++) {
		members[i] = workers[0];
		members[i].tid = 100000 + i;
		members[i].name = snap_arena_printf(arena, "worker-%d", i);
		stacks[i] = service_stacks[0];
		snprintf(stacks[i].id, sizeof(stacks[i].id), "%016x", i * 7);
		stacks[i].count = stacks[i].thread_count = 1;
		stacks[i].threads = &members[i];
		if (i % 2) {
			stacks[i].frames = tree_frames;
			stacks[i].frame_count = 12;
		}
	}
	return stacks;
}

static void test_many_threads(void **state _unused_)
{
	struct snap_arena arena;
	struct snap_node node = service_node, *root = &node;
	struct snap_snapshot snapshot = service, *read;
	const struct snap_stack *stacks;
	uint8_t *copy;

	snap_arena_init(&arena);
	node.stacks = many_stacks(&arena);
	node.stack_count = node.thread_count = MANY;
	node.child_count = 0;
	snapshot.processes = &root;
	snapshot.process_count = 1;
	snapshot.stack_count = snapshot.thread_count = MANY;
	read = check_by(put_some, &snapshot, &copy);
	/* What is one object stays one. */
	stacks = read->processes[0]->stacks;
	assert_ptr_equal(stacks[0].frames, stacks[MANY - 2].frames);
	assert_ptr_equal(stacks[1].frames, stacks[MANY - 1].frames);
	assert_ptr_equal(stacks[0].threads->syscall, stacks[MANY - 1].threads->syscall);
	assert_ptr_equal(stacks[0].frames[0]->module, stacks[0].frames[1]->module);
	assert_true(snap_snapshot_size(&snapshot) < 220 * MANY);
	snap_snapshot_destroy(read);
	free(copy);
	snap_arena_deinit(&arena);
}

/* The end of a list of frames is another list. */
static void test_part_of_list(void **state _unused_)
{
	struct snap_node node = service_node, *root = &node;
	struct snap_snapshot snapshot = service;
	struct snap_stack stacks[2] = { service_stacks[0], service_stacks[0] };

	stacks[1].frames += 2;
	stacks[1].frame_count -= 2;
	node.stacks = stacks;
	node.stack_count = 2;
	node.child_count = 0;
	snapshot.processes = &root;
	snapshot.process_count = 1;
	snapshot.stack_count = 2;
	snapshot.thread_count = 24;
	check(&snapshot);
}

/* ---- wrong bytes ---- */

static void test_truncated(void **state _unused_)
{
	const struct snap_snapshot waiting = waiting_snapshot();
	const struct snap_snapshot *const snapshots[] = { &service, &hostile, &gitea, &waiting };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(snapshots); i++) {
		struct bytes bytes = write_snapshot(snapshots[i]);
		uint8_t *copy;

		for (size_t size = 0; size < bytes.size; size++) {
			assert_null(read_snapshot(bytes.data, size, &copy));
			free(copy);
		}
		free(bytes.data);
	}
}

static void test_something_follows(void **state _unused_)
{
	struct bytes bytes = write_snapshot(&service);
	uint8_t *copy;

	bytes.data = realloc(bytes.data, bytes.size + 1);
	bytes.data[bytes.size] = 0;
	assert_null(read_snapshot(bytes.data, bytes.size + 1, &copy));
	free(copy);
	free(bytes.data);
}

/* It is refused, or renderers can live with it. True: it was read. */
static bool try_bytes(const uint8_t *data, size_t size)
{
	uint8_t *copy;
	struct snap_snapshot *read = read_snapshot(data, size, &copy);
	struct bytes looks = { 0 };

	if (read)
		looks = looks_of(read, put_some);
	free(looks.data);
	snap_snapshot_destroy(read);
	free(copy);
	return read != NULL;
}

/* A bit of each byte. */
static void test_flipped(void **state _unused_)
{
	const struct snap_snapshot waiting = waiting_snapshot();
	const struct snap_snapshot *const snapshots[] = { &service, &hostile, &gitea, &waiting };
	size_t read = 0, tried = 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(snapshots); i++) {
		struct bytes bytes = write_snapshot(snapshots[i]);

		for (size_t at = 0; at < bytes.size; at++, tried++) {
			uint8_t flip = (uint8_t)(1 << at * 5 % 8);

			bytes.data[at] ^= flip;
			read += try_bytes(bytes.data, bytes.size);
			bytes.data[at] ^= flip;
		}
		free(bytes.data);
	}
	/* Both happen. */
	assert_in_range(read, tried / 10, tried - tried / 10);
}

/* Numbers of things that are not there, at many places: they are not aligned. */
static void test_claims(void **state _unused_)
{
	static const uint64_t claims[] = { 200, 1 << 20, 1ull << 62, INT64_MAX };
	struct bytes bytes = write_snapshot(&gitea);
	uint8_t kept[8];

	for (size_t at = 0; at + 8 <= bytes.size; at += 7)
		for (size_t i = 0; i < SNAP_ARRAY_SIZE(claims); i++) {
			memcpy(kept, bytes.data + at, 8);
			memcpy(bytes.data + at, &claims[i], 8);
			try_bytes(bytes.data, bytes.size);
			memcpy(bytes.data + at, kept, 8);
		}
	free(bytes.data);
}

/* The service once more, with parts that can be made wrong. */
struct service {
	struct snap_snapshot snapshot;
	struct snap_node node, *root;
	struct snap_stack stacks[2];
	struct snap_member members[2];
	struct snap_label labels[2];
	struct snap_frame frame;
	const struct snap_frame *frames[1];
	struct snap_entry entry;
	struct snap_warning warning;
	const char *args[1];
};

static void make_service(struct service *made)
{
	*made = (struct service){ .snapshot = service,
				  .node = service_node,
				  .root = &made->node,
				  .stacks = { service_stacks[0], service_stacks[2] },
				  .members = { workers[0], workers[1] },
				  .labels = { { "state", "running" }, { "cpu", "3" } },
				  .frame = worker_frame,
				  .frames = { &made->frame },
				  .entry = worker_frame.entries[0],
				  .warning = service_warnings[0],
				  .args = { "a" } };
	made->snapshot.processes = &made->root;
	made->snapshot.process_count = 1;
	made->snapshot.warnings = &made->warning;
	made->snapshot.warning_count = 1;
	made->node.child_count = 0;
	made->node.args = made->args;
	made->node.arg_count = 1;
	made->node.stacks = made->stacks;
	made->node.stack_count = 2;
	made->stacks[0].threads = made->members;
	made->stacks[0].count = made->stacks[0].thread_count = 2;
	made->stacks[0].labels = made->labels;
	made->stacks[0].label_count = 2;
	made->stacks[0].frames = made->frames;
	made->stacks[0].frame_count = 1;
	made->frame.entries = &made->entry;
}

/* ---- extremes ---- */

static void check_and_put(const struct snap_snapshot *snapshot,
			  void (*put)(const struct snap_snapshot *, FILE *))
{
	struct bytes bytes = write_snapshot(snapshot), looks;
	uint8_t *copy;
	struct snap_snapshot *read = read_snapshot(bytes.data, bytes.size, &copy);

	assert_non_null(read);
	looks = looks_of(read, put);
	free(looks.data);
	snap_snapshot_destroy(read);
	free(copy);
	free(bytes.data);
}

static void check_all(const void *snapshot)
{
	check_and_put(snapshot, put_all);
}

static void check_some(const void *snapshot)
{
	check_and_put(snapshot, put_some);
}

/* A new field is added to the lists below as well, if it is a number. */
_Static_assert(sizeof(struct snap_wait) == 592, "numbers of a wait");

static void test_extremes_of_waits(void **state _unused_)
{
	struct service made;
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_POLL, SNAP_WAIT_IS_CERTAIN);
	int32_t fds[] = { 1, 2 };
	struct snap_wait_party parties[2] = { { .pid = 9, .tid = 9, .wait = &wait }, { .pid = 9 } };
	struct snap_wait_link link = { .pid = 9, .tid = 9, .wait = &wait };
	struct snap_deadlock deadlock = {
		.timed = true, .threads = &link, .thread_count = 1, .size = 1
	};
	struct snap_blocker blocker = {
		.pid = 9, .tid = 9, .blocked = 1, .locks = 1, .wait = &wait
	};
	struct snap_contended contended = { .waiters = 2, .pid = 9, .wait = &wait };

	make_service(&made);
	made.snapshot.waits = (struct snap_waits){ .asked = true,
						   .deadlocks = &deadlock,
						   .deadlock_count = 1,
						   .deadlock_total = 1,
						   .blockers = &blocker,
						   .blocker_count = 1,
						   .contended = &contended,
						   .contended_count = 1 };
	made.members[0].wait = made.members[1].wait = made.stacks[0].wait = &wait;
	wait.fds = fds;
	wait.fds_count = 2;
	wait.timed = wait.has_owner = true;
	wait.socket_state = "LISTEN";
	wait.owner = parties[0];
	wait.holders = wait.peers = wait.hints = parties;
	wait.holder_count = wait.peer_count = wait.hint_count = 2;
	/* Each kind shows others of them. */
	for (uint32_t kind = SNAP_WAIT_NONE + 1; kind < SNAP_WAIT_KINDS; kind++) {
		wait.kind = (enum snap_wait_kind)kind;
		FOR_EXTREMES(check_some, &made.snapshot, EXTREME(wait.fd), EXTREME(wait.id),
			     EXTREME(wait.message_type), EXTREME(wait.semaphore),
			     EXTREME(wait.child), EXTREME(wait.value), EXTREME(wait.remaining_ns));
	}
	FOR_EXTREMES(check_all, &made.snapshot, EXTREME(wait.address), EXTREME(wait.offset),
		     EXTREME(wait.owner.pid), EXTREME(wait.owner.tid), EXTREME(parties[1].pid),
		     EXTREME(parties[1].tid), EXTREME(wait.peer_total), EXTREME(wait.mutex),
		     EXTREME(wait.readers), EXTREME(wait.waiters), EXTREME(wait.arrived),
		     EXTREME(wait.needed), EXTREME(wait.fd_count), EXTREME(fds[0]),
		     EXTREME(wait.kinds_watched[0]), EXTREME(wait.listening),
		     EXTREME(wait.connected), EXTREME(wait.signals), EXTREME(wait.recv_queue),
		     EXTREME(wait.send_queue), EXTREME(wait.backlog), EXTREME(wait.backlog_max),
		     EXTREME(wait.retransmits), EXTREME(wait.peer_recv_queue),
		     EXTREME(wait.range_start), EXTREME(wait.range_end), EXTREME(wait.since_ns));
	FOR_EXTREMES(check_all, &made.snapshot, EXTREME(deadlock.until_ns),
		     EXTREME(deadlock.behind), EXTREME(link.line), EXTREME(blocker.pid),
		     EXTREME(blocker.tid), EXTREME(blocker.blocked), EXTREME(blocker.locks),
		     EXTREME(contended.waiters));
}

_Static_assert(sizeof(struct snap_member) == 72 && sizeof(struct snap_node) == 360 &&
		       sizeof(struct snap_stack) == 192 && sizeof(struct snap_entry) == 48 &&
		       sizeof(struct snap_frame) == 72 && sizeof(struct snap_snapshot) == 472,
	       "numbers of a snapshot");

static void test_extremes_of_processes(void **state _unused_)
{
	struct service made;
	struct snap_snapshot *all = &made.snapshot;
	struct snap_ancestor ancestor = { 7, "a", 5 };

	make_service(&made);
	made.node.ancestors = &ancestor;
	made.node.ancestor_count = 1;
	made.node.signal.number = 11;
	FOR_EXTREMES(check_all, all, EXTREME(all->host.cpus), EXTREME(all->host.boot_time_ns),
		     EXTREME(all->host.ticks_per_second), EXTREME(all->time_ns),
		     EXTREME(all->duration_ns), EXTREME(all->stop_duration_ns),
		     EXTREME(all->stop_skew_ns), EXTREME(all->threads_stopped),
		     EXTREME(all->threads_late), EXTREME(all->stop_rounds),
		     EXTREME(all->monotonic_ns), EXTREME(all->again_ns), EXTREME(all->stuck),
		     EXTREME(all->stuck_idle), EXTREME(all->stopped), EXTREME(all->missing.threads),
		     EXTREME(all->missing.processes), EXTREME(all->missing.modules),
		     EXTREME(all->missing.shown), EXTREME(all->idle.tasks),
		     EXTREME(all->idle.threads), EXTREME(all->idle.stacks), EXTREME(all->idle.most),
		     EXTREME(made.warning.pid), EXTREME(made.warning.tid));
	FOR_EXTREMES(check_all, all, EXTREME(made.node.ppid), EXTREME(made.node.ns_pid),
		     EXTREME(made.node.type), EXTREME(made.node.state), EXTREME(made.node.uid),
		     EXTREME(made.node.start_time_ns), EXTREME(made.node.start_ticks),
		     EXTREME(ancestor.start_ticks), EXTREME(made.node.thread_count),
		     EXTREME(made.node.threads_missed), EXTREME(made.node.stop_duration_ns),
		     EXTREME(made.node.usage.rss_bytes), EXTREME(made.node.usage.cpu_ns),
		     EXTREME(made.node.usage_before.rss_bytes),
		     EXTREME(made.node.usage_before.cpu_ns), EXTREME(made.node.signal.number),
		     EXTREME(made.node.signal.code), EXTREME(made.node.signal.tid),
		     EXTREME(made.node.signal.address), EXTREME(made.node.trouble),
		     EXTREME(made.node.task_count));
	FOR_EXTREMES(check_all, all, EXTREME(made.members[0].ns_tid),
		     EXTREME(made.members[0].state), EXTREME(made.members[0].cpu),
		     EXTREME(made.members[0].taken), EXTREME(made.members[0].runs),
		     EXTREME(made.stacks[0].unwind), EXTREME(made.stacks[0].urgency),
		     EXTREME(made.stacks[0].gap_count), EXTREME(made.frame.address),
		     EXTREME(made.frame.offset), EXTREME(made.frame.file_offset),
		     EXTREME(made.frame.trust), EXTREME(made.entry.line),
		     EXTREME(made.entry.column));
}

_Static_assert(sizeof(struct snap_task) == 88 && sizeof(struct snap_node_runtime) == 80 &&
		       sizeof(struct snap_logical) == 72,
	       "numbers of tasks");

static void test_extremes_of_tasks(void **state _unused_)
{
	struct service made;
	struct snap_gil gil = { 9, 0 };
	struct snap_task task = { .id = "1", .since_ns = 5, .tid = 9 };
	struct snap_stack stack = { .id = "00000000000000aa",
				    .count = 1,
				    .description = "same",
				    .runtime = "go",
				    .tasks = &task,
				    .task_count = 1 };
	struct snap_node_runtime runtime = {
		.name = "go", .tasks = 1, .shown = 1, .gil = &gil, .gil_count = 1
	};
	struct snap_logical logical = {
		.id = "7", .name = "7", .stacks = &stack, .stack_count = 1
	};

	make_service(&made);
	made.node.runtimes = &runtime;
	made.node.runtime_count = 1;
	made.node.logical = &logical;
	made.node.logical_count = 1;
	FOR_EXTREMES(check_all, &made.snapshot, EXTREME(task.state), EXTREME(task.since_ns),
		     EXTREME(task.tid), EXTREME(runtime.tasks), EXTREME(runtime.shown),
		     EXTREME(runtime.idle_threads), EXTREME(runtime.cut),
		     EXTREME(runtime.memory_bytes), EXTREME(runtime.plan_ns),
		     EXTREME(gil.interpreter), EXTREME(logical.task_count));
}

/* ---- what must hold ---- */

static bool is_taken(const struct service *made)
{
	struct bytes bytes = write_snapshot(&made->snapshot);
	uint8_t *copy;
	struct snap_snapshot *read = read_snapshot(bytes.data, bytes.size, &copy);
	bool taken = read != NULL;

	snap_snapshot_destroy(read);
	free(copy);
	free(bytes.data);
	return taken;
}

#define REFUSED(...)                                         \
	do {                                                 \
		struct service made;                         \
		make_service(&made);                         \
		assert_true(is_taken(&made));                \
		made.__VA_ARGS__;                            \
		if (is_taken(&made))                         \
			fail_msg("taken: %s", #__VA_ARGS__); \
	} while (0)

static void test_rules_of_stacks(void **state _unused_)
{
	REFUSED(stacks[0].gap_frame = 1);
	REFUSED(stacks[0].gap_frame = made.stacks[0].gap_count = 1);
	REFUSED(stacks[0].description = NULL);
	REFUSED(stacks[0].thread_count = 0);
	/* Fewer threads than the next one. */
	REFUSED(node.stacks = (struct snap_stack[]){ service_stacks[2], service_stacks[0] });
	REFUSED(members[1].tid = 1);
	REFUSED(members[0].tid = 0);
	REFUSED(frame.entry_count = 0);
	REFUSED(frame.build_id = "");
	REFUSED(frame.build_id = "a\033[31m");
	REFUSED(frames[0] = NULL);
}

static void test_rules_of_labels(void **state _unused_)
{
	REFUSED(labels[0].value = "\033[31m");
	REFUSED(labels[0].value = NULL);
	REFUSED(labels[1].value = "3\n");
	REFUSED(labels[1].key = "unheard");
	REFUSED(labels[1] = made.labels[0]);
	REFUSED(labels[0] = made.labels[1]);
	REFUSED(labels[1].key = "type");
}

static void test_rules_of_processes(void **state _unused_)
{
	REFUSED(snapshot.process_count = 0);
	REFUSED(snapshot.process_count = 2);
	REFUSED(snapshot.root_count = 0);
	REFUSED(snapshot.flat = (made.node.child_count = 1, made.snapshot.process_count = 2, true));
	REFUSED(node.pid = 0);
	REFUSED(args[0] = NULL);
	REFUSED(warning.code = "a b");
	REFUSED(warning.message = NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_least_waits),
		cmocka_unit_test(test_chain_of_waits),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_backing),
		cmocka_unit_test(test_deep_tree),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_part_of_list),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_something_follows),
		cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_claims),
		cmocka_unit_test(test_extremes_of_waits),
		cmocka_unit_test(test_extremes_of_processes),
		cmocka_unit_test(test_extremes_of_tasks),
		cmocka_unit_test(test_rules_of_stacks),
		cmocka_unit_test(test_rules_of_labels),
		cmocka_unit_test(test_rules_of_processes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
