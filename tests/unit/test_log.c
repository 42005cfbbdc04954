/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Logs: interning, spaces whose mappings change, ticks, and a ring held against a model that
 * remembers everything.
 */
#include "fine.h"
#include "log_bytes.h"
#include "store/log/index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct snap_log *make_log(void)
{
	struct snap_host host = { .name = "host", .kernel = "6.1", .arch = "x86_64" };
	struct snap_log *log;

	fine(snap_log_create(&host, 1000, 10, false, &log));
	return log;
}

static struct snap_map code(uint64_t start, uint64_t end, uint64_t offset, uint64_t inode,
			    const char *path)
{
	return (struct snap_map){ .start = start,
				  .end = end,
				  .offset = offset,
				  .inode = inode,
				  .read = true,
				  .execute = true,
				  .path = path };
}

static struct snap_map data(uint64_t start, uint64_t end, uint64_t offset, uint64_t inode,
			    const char *path)
{
	struct snap_map map = code(start, end, offset, inode, path);

	map.execute = false;
	return map;
}

static struct snap_process facts_of(struct snap_map *maps, size_t count)
{
	return (struct snap_process){ .pid = 10,
				      .name = "prog",
				      .args = "prog\0-x",
				      .args_size = 8,
				      .parent = 3,
				      .maps = maps,
				      .map_count = count };
}

static uint32_t stack_of(struct snap_log *log, uint32_t space, const uint64_t *bits, size_t count)
{
	struct snap_log_pcs pcs = { .bits = bits, .count = count };
	uint32_t stack;

	fine(snap_log_stack(log, space, &pcs, &stack));
	return stack;
}

/* ---- interning ---- */

static void test_stack_is_there_once(void **state _unused_)
{
	struct snap_map maps[] = { code(0x1000, 0x2000, 0, 7, "/bin/prog") };
	struct snap_process facts = facts_of(maps, 1);
	uint64_t a[] = { 1, 2, 3 }, b[] = { 9, 2, 3 };
	struct snap_log *log = make_log();
	uint32_t process, space, first, again, other;
	struct snap_log_pcs cut = { .bits = a,
				    .count = 3,
				    .end = SNAP_UNWIND_NO_CFI,
				    .end_pc = 5,
				    .reason = "no unwind information" };

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	first = stack_of(log, space, a, 3);
	again = stack_of(log, space, a, 3);
	other = stack_of(log, space, b, 3);
	assert_int_equal(first, again);
	assert_int_not_equal(first, other);
	assert_int_equal(log->stack_count, 2);
	assert_int_equal(log->frame_count, 4);
	assert_int_equal(log->frame_id_count, 6);
	/* How it ended tells stacks apart. */
	fine(snap_log_stack(log, space, &cut, &other));
	assert_int_not_equal(first, other);
	assert_int_equal(log->stacks[other].reason, 1);
	assert_string_equal(log->reasons[0], "no unwind information");
	assert_int_equal(stack_of(log, space, NULL, 0), 3);
	assert_int_equal(stack_of(log, space, NULL, 0), 3);
	snap_log_destroy(log);
}

static void test_tables_grow(void **state _unused_)
{
	struct snap_process facts = facts_of(NULL, 0);
	struct snap_log *log = make_log();
	uint32_t process, space;

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	for (int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 5000; i++) {
			uint64_t bits[] = { i, i / 2, i / 3 };

			assert_int_equal(stack_of(log, space, bits, 3), i);
		}
	assert_int_equal(log->stack_count, 5000);
	assert_int_equal(log->frame_count, 5000);
	snap_log_destroy(log);
}

/* ---- spaces ---- */

struct mapped {
	struct snap_log *log;
	uint32_t process, space;
};

static struct mapped map_first(struct snap_map *maps, size_t count)
{
	struct snap_process facts = facts_of(maps, count);
	struct mapped mapped = { .log = make_log() };

	fine(snap_log_add_process(mapped.log, 10, 5, UINT32_MAX, UINT32_MAX, true,
				  &mapped.process));
	fine(snap_log_map_process(mapped.log, mapped.process, &facts, NULL, &mapped.space));
	return mapped;
}

static uint32_t map_again(struct mapped *mapped, struct snap_map *maps, size_t count)
{
	struct snap_process facts = facts_of(maps, count);
	uint32_t space;

	fine(snap_log_map_process(mapped->log, mapped->process, &facts, NULL, &space));
	return space;
}

static void expect_map(const struct snap_log *log, uint32_t space, size_t index, uint64_t start,
		       uint64_t end, uint64_t offset, const char *path)
{
	const struct snap_process *process = &log->capture->processes[space];

	assert_true(index < process->map_count);
	assert_int_equal(process->maps[index].start, start);
	assert_int_equal(process->maps[index].end, end);
	assert_int_equal(process->maps[index].offset, offset);
	if (path)
		assert_string_equal(process->maps[index].path, path);
	else
		assert_null(process->maps[index].path);
}

static void test_facts_are_copied(void **state _unused_)
{
	char name[] = "prog", path[] = "/bin/prog";
	struct snap_map maps[] = { code(0x1000, 0x2000, 0, 7, path) };
	struct snap_process facts = facts_of(maps, 1), *kept;
	struct snap_log *log = make_log();
	uint32_t process, space;

	facts.name = name;
	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	kept = &log->capture->processes[space];
	memset(name, 'x', 4);
	memset(path, 'x', 4);
	memset(maps, 0, sizeof(maps));
	assert_string_equal(kept->name, "prog");
	assert_int_equal(kept->args_size, 8);
	assert_memory_equal(kept->args, "prog\0-x", 8);
	assert_true(kept->parent == SIZE_MAX);
	expect_map(log, space, 0, 0x1000, 0x2000, 0, "/bin/prog");
	assert_int_equal(log->processes[process].space, space);
	snap_log_destroy(log);
}

static void test_space_knows_new_mappings_too(void **state _unused_)
{
	struct snap_map first[] = { data(0x1000, 0x2000, 0, 7, "/bin/prog"),
				    code(0x2000, 0x3000, 0x1000, 7, "/bin/prog"),
				    code(0x8000, 0x9000, 0, 8, "/lib/plug"),
				    data(0xa000, 0xb000, 0, 0, NULL) };
	/* The plug-in was unmapped, another one loaded, the heap lies elsewhere. */
	struct snap_map then[] = { data(0x1000, 0x2000, 0, 7, "/bin/prog"),
				   code(0x2000, 0x3000, 0x1000, 7, "/bin/prog"),
				   code(0x5000, 0x6000, 0, 9, "/lib/other"),
				   data(0x8800, 0xd000, 0, 0, NULL) };
	struct mapped mapped = map_first(first, 4);

	assert_int_equal(map_again(&mapped, then, 4), mapped.space);
	assert_int_equal(mapped.log->capture->processes[mapped.space].map_count, 5);
	expect_map(mapped.log, mapped.space, 0, 0x1000, 0x2000, 0, "/bin/prog");
	expect_map(mapped.log, mapped.space, 1, 0x2000, 0x3000, 0x1000, "/bin/prog");
	expect_map(mapped.log, mapped.space, 2, 0x5000, 0x6000, 0, "/lib/other");
	/* What was recorded in it still leads there; the heap has the rest of its room. */
	expect_map(mapped.log, mapped.space, 3, 0x8000, 0x9000, 0, "/lib/plug");
	expect_map(mapped.log, mapped.space, 4, 0x9000, 0xd000, 0, NULL);
	/* And once more. */
	assert_int_equal(map_again(&mapped, first, 4), mapped.space);
	assert_int_equal(mapped.log->capture->processes[mapped.space].map_count, 5);
	snap_log_destroy(mapped.log);
}

static void test_protection_may_change(void **state _unused_)
{
	struct snap_map first[] = { code(0x1000, 0x5000, 0x1000, 7, "/bin/prog") };
	struct snap_map then[] = { code(0x1000, 0x2000, 0x1000, 7, "/bin/prog"),
				   data(0x2000, 0x5000, 0x2000, 7, "/bin/prog") };
	struct mapped mapped = map_first(first, 1);

	assert_int_equal(map_again(&mapped, then, 2), mapped.space);
	assert_int_equal(mapped.log->capture->processes[mapped.space].map_count, 2);
	expect_map(mapped.log, mapped.space, 1, 0x2000, 0x5000, 0x2000, "/bin/prog");
	snap_log_destroy(mapped.log);
}

static void test_other_code_is_another_space(void **state _unused_)
{
	struct snap_map first[] = { code(0x1000, 0x3000, 0, 7, "/lib/a") };
	struct snap_map other[] = { code(0x2000, 0x4000, 0, 8, "/lib/b") };
	struct snap_map shifted[] = { code(0x2000, 0x4000, 0, 7, "/lib/a") };
	struct snap_map jit[] = { code(0x2000, 0x4000, 0, 0, NULL) };
	struct {
		struct snap_map *maps;
	} cases[] = { { other }, { shifted }, { jit } };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		struct mapped mapped = map_first(first, 1);
		uint32_t space = map_again(&mapped, cases[i].maps, 1);

		assert_int_not_equal(space, mapped.space);
		assert_int_equal(mapped.log->processes[mapped.process].space, space);
		/* The old one is as it was. */
		expect_map(mapped.log, mapped.space, 0, 0x1000, 0x3000, 0, "/lib/a");
		expect_map(mapped.log, space, 0, 0x2000, 0x4000, 0, cases[i].maps[0].path);
		snap_log_destroy(mapped.log);
	}
}

static void test_leftovers_do_not_pile_up(void **state _unused_)
{
	struct snap_map map = code(0x1000, 0x2000, 0, 1, "/lib/a");
	struct mapped mapped = map_first(&map, 1);
	uint32_t space = mapped.space;

	for (uint64_t i = 2; i < 20000; i++) {
		map = code(i * 0x1000, i * 0x1000 + 0x1000, 0, i, "/lib/a");
		space = map_again(&mapped, &map, 1);
		assert_true(mapped.log->capture->processes[space].map_count <= 4100);
	}
	assert_int_not_equal(space, mapped.space);
	snap_log_destroy(mapped.log);
}

static void test_pieces_are_shared(void **state _unused_)
{
	uint8_t page[4096] = { 1, 2, 3 };
	struct snap_map maps[] = { code(0x1000, 0x2000, 0, 7, "/bin/prog"),
				   code(0x5000, 0x6000, 0, 8, "/lib/a") };
	struct snap_piece pieces[] = { { 0x1000, page, sizeof(page) },
				       { 0x5000, page, sizeof(page) } };
	struct snap_process facts = facts_of(maps, 2);
	struct snap_log *log = make_log();
	const struct snap_process *kept;
	uint32_t process, space;

	facts.pieces = pieces;
	facts.piece_count = 2;
	for (int i = 0; i < 1000; i++) {
		fine(snap_log_add_process(log, 10 + i, 5, UINT32_MAX, UINT32_MAX, true, &process));
		fine(snap_log_map_process(log, process, &facts, NULL, &space));
	}
	kept = &log->capture->processes[space];
	assert_ptr_equal(kept->pieces[0].data, kept->pieces[1].data);
	assert_ptr_equal(kept->pieces[0].data, log->capture->processes[0].pieces[0].data);
	assert_memory_equal(kept->pieces[0].data, page, sizeof(page));
	assert_true(log->index->blob_bytes < 2 * sizeof(page));
	/* Another library where the second one was not: its page comes, the old ones stay. */
	maps[1] = code(0x7000, 0x8000, 0, 9, "/lib/b");
	page[0] = 9;
	pieces[1].address = 0x7000;
	fine(snap_log_map_process(log, process, &facts, NULL, &space));
	kept = &log->capture->processes[space];
	assert_int_equal(kept->piece_count, 3);
	assert_int_equal(kept->pieces[1].address, 0x5000);
	assert_int_equal(kept->pieces[1].data[0], 1);
	assert_int_equal(kept->pieces[0].data[0], 9);
	snap_log_destroy(log);
}

static void test_descriptors_are_duplicated(void **state _unused_)
{
	struct snap_process facts = facts_of(NULL, 0);
	struct snap_live live = { -1, dup(0), -1, -1, -1 };
	struct snap_log *log = make_log();
	uint32_t process, space;
	int kept;

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fine(snap_log_map_process(log, process, &facts, &live, &space));
	kept = log->capture->live[space].proc_fd;
	assert_true(kept >= 0 && kept != live.proc_fd);
	assert_int_equal(log->capture->live[space].pidfd, -1);
	snap_live_close(&live);
	live.proc_fd = dup(kept);
	assert_true(live.proc_fd >= 0);
	snap_live_close(&live);
	snap_log_destroy(log);
	assert_int_equal(close(kept), -1);
}

/* ---- ticks ---- */

static void test_changes_only(void **state _unused_)
{
	struct snap_map maps[] = { code(0x1000, 0x2000, 0, 7, "/bin/prog") };
	struct mapped mapped = map_first(maps, 1);
	struct snap_log *log = mapped.log;
	uint64_t bits[] = { 1, 2 };
	uint32_t one = stack_of(log, mapped.space, bits, 1);
	uint32_t two = stack_of(log, mapped.space, bits, 2);
	struct snap_log_change change = { .stack = one, .syscall = -1 };
	uint32_t thread;

	fine(snap_log_begin_tick(log, 5));
	fine(snap_log_add_thread(log, mapped.process, 11, 1, "worker", false, &thread));
	assert_int_equal(snap_log_standing(log, thread)->stack, SNAP_LOG_GONE);
	change.thread = thread;
	fine(snap_log_change(log, &change));
	/* Twice within a tick: the last word counts. */
	change.stack = two;
	fine(snap_log_change(log, &change));
	snap_log_end_tick(log, 77);
	assert_int_equal(log->change_count, 1);
	assert_int_equal(log->changes[0].stack, two);
	assert_int_equal(log->ticks[0].change_end, 1);
	assert_int_equal(log->ticks[0].stopped_ns, 77);
	/* Without a change there is none; time grows whatever the clock says. */
	fine(snap_log_begin_tick(log, 5));
	change.taken = SNAP_TAKEN_UNSTOPPED;
	fine(snap_log_change(log, &change));
	snap_log_end_tick(log, 0);
	assert_int_equal(log->change_count, 1);
	assert_int_equal(log->ticks[1].time_ns, 6);
	fine(snap_log_begin_tick(log, 20));
	fine(snap_log_rename_thread(log, thread, "other"));
	fine(snap_log_end_thread(log, thread));
	snap_log_end_process(log, mapped.process);
	snap_log_end_tick(log, 0);
	assert_int_equal(log->change_count, 2);
	assert_int_equal(log->changes[1].stack, SNAP_LOG_GONE);
	assert_int_equal(log->processes[mapped.process].last_tick, 1);
	assert_string_equal(log->threads[thread].name, "other");
	snap_log_destroy(log);
}

static void test_exec_ends_a_program(void **state _unused_)
{
	struct snap_log *log = make_log();
	uint32_t shell, program;

	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &shell));
	for (int i = 0; i < 3; i++) {
		fine(snap_log_begin_tick(log, i * 10));
		snap_log_end_tick(log, 0);
	}
	fine(snap_log_begin_tick(log, 40));
	fine(snap_log_add_process(log, 10, 5, UINT32_MAX, shell, true, &program));
	snap_log_end_tick(log, 0);
	assert_true(log->processes[shell].execed);
	assert_int_equal(log->processes[shell].last_tick, 2);
	assert_int_equal(log->processes[program].first_tick, 3);
	assert_true(log->processes[program].last_tick == UINT64_MAX);
	snap_log_destroy(log);
}

/* ---- a ring against a model ---- */

enum { SEATS = 40, TICKS = 30000, RING = 300, PLACES = 64 };

/* A thread as the model remembers it, whatever its number is by now. */
struct seat {
	uint32_t process, thread;
	pid_t tid;
	bool used;
	uint64_t place; /* first pc of its stack; 0: it stands nowhere */
};

/* Where each seat's thread stood at each tick of the ring. */
struct past {
	pid_t tid[SEATS];
	uint64_t place[SEATS];
};

struct churn {
	struct snap_log *log;
	struct seat seats[SEATS];
	struct past past[RING + 1];
	pid_t next;
	unsigned random;
	size_t most_bytes, renumbered;
};

static unsigned roll(struct churn *churn, unsigned sides)
{
	churn->random = churn->random * 1103515245u + 12345u;
	return (churn->random >> 8) % sides;
}

static void be_born(struct churn *churn, struct seat *seat)
{
	struct snap_map maps[] = { code(0x1000, 0x2000, 0, 7, "/bin/prog") };
	struct snap_process facts = facts_of(maps, 1);
	char name[32];
	uint32_t space;

	seat->tid = churn->next++;
	facts.pid = seat->tid;
	snprintf(name, sizeof(name), "worker-%d", seat->tid);
	fine(snap_log_add_process(churn->log, seat->tid, 5, UINT32_MAX, UINT32_MAX, true,
				  &seat->process));
	fine(snap_log_map_process(churn->log, seat->process, &facts, NULL, &space));
	fine(snap_log_add_thread(churn->log, seat->process, seat->tid, 1, name, false,
				 &seat->thread));
	seat->used = true;
	seat->place = 0;
}

static void move_on(struct churn *churn, struct seat *seat)
{
	uint64_t bits[] = { 1 + roll(churn, PLACES) + (roll(churn, 50) ? 0 : 1000u + churn->next),
			    3, 4 };
	struct snap_log_change change = { .thread = seat->thread, .syscall = -1 };

	change.stack = stack_of(churn->log, churn->log->processes[seat->process].space, bits, 3);
	fine(snap_log_change(churn->log, &change));
	seat->place = bits[0];
}

static void die(struct churn *churn, struct seat *seat)
{
	fine(snap_log_end_thread(churn->log, seat->thread));
	snap_log_end_process(churn->log, seat->process);
	*seat = (struct seat){ 0 };
}

static void churn_tick(struct churn *churn, unsigned tick)
{
	struct past *past = &churn->past[tick % (RING + 1)];

	fine(snap_log_begin_tick(churn->log, tick * 10ll));
	for (int i = 0; i < SEATS; i++) {
		struct seat *seat = &churn->seats[i];

		/* The first seat's thread lives for ever and never moves again. */
		if (!seat->used && roll(churn, 10) == 0)
			be_born(churn, seat);
		else if (seat->used && i && roll(churn, 200) == 0)
			die(churn, seat);
		else if (seat->used && (i ? roll(churn, 3) == 0 : seat->place == 0))
			move_on(churn, seat);
		past->tid[i] = seat->tid;
		past->place[i] = seat->used ? seat->place : 0;
	}
	snap_log_end_tick(churn->log, 0);
}

static void follow(struct churn *churn)
{
	for (int i = 0; i < SEATS; i++) {
		struct seat *seat = &churn->seats[i];

		if (!seat->used)
			continue;
		seat->process = snap_log_moved_process(churn->log, seat->process);
		seat->thread = snap_log_moved_thread(churn->log, seat->thread);
		assert_int_not_equal(seat->process, UINT32_MAX);
		assert_int_not_equal(seat->thread, UINT32_MAX);
	}
	churn->renumbered++;
}

static uint64_t place_of(const struct snap_log *log, const struct snap_log_change *change)
{
	const struct snap_log_stack *stack;

	if (change->stack == SNAP_LOG_GONE)
		return 0;
	assert_true(change->stack < log->stack_count);
	stack = &log->stacks[change->stack];
	assert_int_equal(stack->frame_count, 3);
	assert_int_equal(log->frames[log->frame_ids[stack->frame_start + 1]].bits, 3);
	return log->frames[log->frame_ids[stack->frame_start]].bits;
}

/* Plays the log from its beginning and compares each tick with the model. */
static void compare(struct churn *churn, unsigned last)
{
	const struct snap_log *log = churn->log;
	uint64_t *place = calloc(log->thread_count + 1, sizeof(*place));
	size_t change = 0;

	for (size_t i = 0; i < log->before_count; i++)
		place[i] = place_of(log, &log->before[i]);
	for (size_t t = 0; t < log->tick_count; t++) {
		const struct past *past =
			&churn->past[(last + 1 - log->tick_count + t) % (RING + 1)];
		size_t standing = 0, expected = 0;

		for (; log->first_change + change < log->ticks[t].change_end; change++)
			place[log->changes[change].thread] = place_of(log, &log->changes[change]);
		for (size_t i = 0; i < log->thread_count; i++)
			standing += place[i] != 0;
		for (int i = 0; i < SEATS; i++) {
			if (past->place[i] == 0)
				continue;
			expected++;
			for (size_t k = 0; k < log->thread_count; k++)
				if (log->threads[k].tid == past->tid[i])
					assert_int_equal(place[k], past->place[i]);
		}
		assert_int_equal(standing, expected);
	}
	assert_int_equal(change, log->change_count);
	for (size_t i = 0; i < log->thread_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "worker-%d", log->threads[i].tid);
		assert_string_equal(log->threads[i].name, name);
		assert_int_equal(log->processes[log->threads[i].process].pid, log->threads[i].tid);
	}
	free(place);
}

static void test_ring_stays_bounded(void **state _unused_)
{
	struct churn churn = { .log = make_log(), .next = 100, .random = 4711 };
	size_t bytes_early = 0;

	for (unsigned tick = 0; tick < TICKS; tick++) {
		bool renumbered;

		churn_tick(&churn, tick);
		fine(snap_log_forget(churn.log, ((int64_t)tick - RING + 1) * 10, &renumbered));
		if (renumbered)
			follow(&churn);
		assert_int_equal(churn.log->tick_count, tick + 1 < RING ? tick + 1 : RING);
		if (renumbered || tick % 1000 == 999)
			compare(&churn, tick);
		if (log_bytes(churn.log) > churn.most_bytes)
			churn.most_bytes = log_bytes(churn.log);
		if (tick == TICKS / 10)
			bytes_early = churn.most_bytes;
	}
	assert_true(churn.renumbered > 10);
	assert_true(churn.most_bytes < 2 * bytes_early);
	assert_true(churn.log->capture->process_count < 1000);
	assert_true(churn.log->thread_count < 1000);
	/* All is forgotten; who lives stays. */
	{
		bool renumbered;

		fine(snap_log_forget(churn.log, INT64_MAX, &renumbered));
		assert_int_equal(churn.log->tick_count, 0);
		assert_int_equal(churn.log->change_count, 0);
	}
	snap_log_destroy(churn.log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stack_is_there_once),
		cmocka_unit_test(test_tables_grow),
		cmocka_unit_test(test_facts_are_copied),
		cmocka_unit_test(test_space_knows_new_mappings_too),
		cmocka_unit_test(test_protection_may_change),
		cmocka_unit_test(test_other_code_is_another_space),
		cmocka_unit_test(test_leftovers_do_not_pile_up),
		cmocka_unit_test(test_pieces_are_shared),
		cmocka_unit_test(test_descriptors_are_duplicated),
		cmocka_unit_test(test_changes_only),
		cmocka_unit_test(test_exec_ends_a_program),
		cmocka_unit_test(test_ring_stays_bounded),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
