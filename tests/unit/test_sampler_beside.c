/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a recording gets beside the stacks of threads that wait: memory around futexes and arrays,
 * links of descriptors; and who is shown again because of it.
 */
#include "own_calls.h"
#include "sampler_bed.h"

#include "model/arch/registers.h"
#include "model/wait/call.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>

enum { PAGE = 4096, LINK = 64, MOST_SEEN = 256, MANY = 150, MOST_DESCRIPTORS = 8, LINKED_FD = 77 };

/* What was shown of a thread the last time. */
struct seen {
	pid_t tid;
	unsigned samples;
	bool has_words, partial;
	uint64_t stack_address;
	size_t stack_size;
	uint64_t arguments[SNAP_CALL_ARGUMENTS];
	uint8_t bytes[PAGE];
	struct snap_memory_piece pieces[8];
	size_t piece_count, used;
	struct snap_descriptor descriptors[MOST_DESCRIPTORS];
	char links[MOST_DESCRIPTORS][LINK];
	size_t descriptor_count;
};

static struct seen all_seen[MOST_SEEN];
static size_t seen_count;

/* Victims and tests see it at the same address. */
static struct place {
	uint32_t futex[8]; /* a word, and what lies behind it */
	uint32_t other[8];
	uint64_t polled; /* where an array is, on a stack */
	int fds[4];
	uint32_t turns;
} * place;

static struct seen *seen_of(pid_t tid)
{
	for (size_t i = 0; i < seen_count; i++)
		if (all_seen[i].tid == tid)
			return &all_seen[i];
	return NULL;
}

static void note_words(struct seen *seen, const struct snap_memory_image *words)
{
	seen->has_words = words != NULL;
	seen->piece_count = seen->used = 0;
	for (size_t i = 0; words && i < words->piece_count; i++) {
		const struct snap_memory_piece *piece = &words->pieces[i];

		assert_true(seen->piece_count < SNAP_ARRAY_SIZE(seen->pieces));
		assert_true(piece->size <= sizeof(seen->bytes) - seen->used);
		memcpy(seen->bytes + seen->used, piece->bytes, piece->size);
		seen->pieces[seen->piece_count++] =
			(struct snap_memory_piece){ piece->address, piece->size,
						    seen->bytes + seen->used };
		seen->used += piece->size;
	}
}

static void note_descriptors(struct seen *seen, const struct snap_sampled_thread *thread)
{
	seen->descriptor_count = thread->descriptor_count;
	assert_true(thread->descriptor_count <= MOST_DESCRIPTORS);
	for (size_t i = 0; i < thread->descriptor_count; i++) {
		const struct snap_descriptor *descriptor = &thread->descriptors[i];

		assert_true(!i || descriptor[-1].number < descriptor->number);
		seen->descriptors[i] = *descriptor;
		assert_non_null(descriptor->link);
		snprintf(seen->links[i], LINK, "%s", descriptor->link);
	}
}

static struct stacksnap_error *note_sample(void *context, struct snap_sampled_thread *thread,
					   const struct snap_thread *copy,
					   enum snap_verdict *verdict_ret)
{
	struct seen *seen = seen_of(thread->tid);
	struct snap_thread_call call;

	if (!seen) {
		assert_true(seen_count < MOST_SEEN);
		seen = &all_seen[seen_count++];
		*seen = (struct seen){ .tid = thread->tid };
	}
	if (copy->result == SNAP_THREAD_COPIED) {
		seen->samples++;
		seen->partial = copy->partial;
		seen->stack_address = copy->stack_address;
		seen->stack_size = copy->stack_size;
		call = snap_wait_call_of(SNAP_OWN_ARCH, copy);
		memcpy(seen->arguments, call.arguments, sizeof(seen->arguments));
		note_words(seen, thread->words);
		note_descriptors(seen, thread);
	} else {
		assert_null(thread->words);
		assert_int_equal(thread->descriptor_count, 0);
	}
	return bed_sample(context, thread, copy, verdict_ret);
}

static void start(struct bed *bed, pid_t pid, enum snap_explain explain)
{
	seen_count = 0;
	bed_options(bed, pid);
	bed->options.explain = explain;
	bed->sink.sample = note_sample;
	bed_open(bed);
}

static void make_place(void)
{
	place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(place != MAP_FAILED);
}

static void drop_place(void)
{
	munmap(place, sizeof(*place));
}

static bool has_bytes(const struct seen *seen, uint64_t address, void *ret, size_t size)
{
	for (size_t i = 0; i < seen->piece_count; i++) {
		const struct snap_memory_piece *piece = &seen->pieces[i];

		if (address < piece->address || size > piece->size ||
		    address - piece->address > piece->size - size)
			continue;
		memcpy(ret, piece->bytes + (address - piece->address), size);
		return true;
	}
	return false;
}

static const struct seen *seen_named(struct bed *bed, const char *name)
{
	const struct bed_thread *thread = bed_named(bed, name);
	const struct seen *seen = thread ? seen_of(thread->tid) : NULL;

	assert_non_null(seen);
	return seen;
}

/* ---- victims ---- */

static void wait_for_futex(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void begin(const char *name)
{
	prctl(PR_SET_NAME, name);
	__atomic_add_fetch(&in_position, 1, __ATOMIC_SEQ_CST);
}

static void *wait_at_futex(void *unused)
{
	begin("futex");
	for (;;)
		wait_for_futex(&place->futex[0], 0);
	return unused;
}

/* What an earlier call left in the array is there; an entry that is turned off, too. */
static void *wait_in_poll(void *unused)
{
	struct pollfd polled[4] = { { place->fds[2], POLLIN, POLLHUP },
				    { -1, POLLIN, 0 },
				    { place->fds[0], POLLIN, POLLIN },
				    { place->fds[0], POLLPRI, 0 } };

	place->polled = (uintptr_t)polled;
	begin("poll");
	for (;;)
		own_poll(polled, 4);
	return unused;
}

static void *wait_in_select(void *unused)
{
	fd_set set;

	begin("select");
	for (;;) {
		FD_ZERO(&set);
		FD_SET(place->fds[0], &set);
		own_select(place->fds[0] + 1, &set, NULL);
	}
	return unused;
}

/* Its stack stays as it is: by the plain call, and what is read is what is there. */
static void *wait_in_read(void *unused)
{
	char byte = 0;

	begin("read");
	for (;;) {
		if (syscall(SYS_read, LINKED_FD, &byte, 1) != 1)
			_exit(5);
		__atomic_add_fetch(&place->turns, 1, __ATOMIC_SEQ_CST);
	}
	return unused;
}

static void *wait_in_sleep(void *unused)
{
	begin("sleep");
	for (;;)
		sleep(1000);
	return unused;
}

static void wait_in_all(int commands, int answers)
{
	if (pipe(place->fds) || pipe(place->fds + 2) || dup2(place->fds[0], LINKED_FD) < 0)
		_exit(4);
	start_thread(wait_at_futex, NULL);
	start_thread(wait_in_poll, NULL);
	start_thread(wait_in_select, NULL);
	start_thread(wait_in_read, NULL);
	start_thread(wait_in_epoll, NULL);
	start_thread(wait_in_sleep, NULL);
	while (in_position < 6)
		sched_yield();
	answers_commands(commands, answers);
}

static void start_all(struct victim *victim)
{
	make_place();
	victim_start(victim, wait_in_all);
	wait_answer(victim);
	wait_until_asleep(victim->pid, 0);
}

static void check_futex(struct bed *bed)
{
	const struct seen *seen = seen_named(bed, "futex");
	uint32_t words[8];

	assert_true(has_bytes(seen, (uintptr_t)place->futex, words, sizeof(words)));
	assert_memory_equal(words, place->futex, sizeof(words));
	assert_int_equal(seen->descriptor_count, 0);
}

static void check_poll(struct bed *bed)
{
	const struct seen *seen = seen_named(bed, "poll");
	struct pollfd polled[4];

	assert_int_equal(seen->arguments[0], place->polled);
	assert_true(place->polled >= seen->stack_address &&
		    place->polled < seen->stack_address + seen->stack_size);
	assert_true(has_bytes(seen, place->polled, polled, sizeof(polled)));
	assert_int_equal(polled[0].fd, place->fds[2]);
	assert_int_equal(polled[0].events, POLLIN);
	assert_int_equal(polled[0].revents, 0);
	assert_int_equal(polled[2].revents, 0);
	assert_int_equal(seen->descriptor_count, 2);
	assert_int_equal(seen->descriptors[0].number, place->fds[0]);
	assert_int_equal(seen->descriptors[1].number, place->fds[2]);
	for (size_t i = 0; i < 2; i++) {
		char expected[LINK];

		assert_int_equal(seen->descriptors[i].kind, SNAP_DESCRIPTOR_PIPE);
		snprintf(expected, sizeof(expected), "pipe:[%llu]",
			 (unsigned long long)seen->descriptors[i].inode);
		assert_string_equal(seen->links[i], expected);
	}
	assert_int_not_equal(seen->descriptors[0].inode, seen->descriptors[1].inode);
}

static void check_poller(struct bed *bed)
{
	const struct seen *seen = seen_named(bed, "poller");

	assert_int_equal(seen->descriptor_count, 1);
	assert_int_equal(seen->descriptors[0].kind, SNAP_DESCRIPTOR_EPOLL);
	assert_string_equal(seen->links[0], "anon_inode:[eventpoll]");
}

static void check_others(struct bed *bed)
{
	const struct seen *poll = seen_named(bed, "poll"), *seen = seen_named(bed, "select");
	uint64_t set;

	assert_int_equal(seen->descriptor_count, 1);
	assert_int_equal(seen->descriptors[0].number, place->fds[0]);
	assert_int_equal(seen->descriptors[0].inode, poll->descriptors[0].inode);
	assert_true(has_bytes(seen, seen->arguments[1], &set, sizeof(set)));
	assert_int_equal(set, 1ull << place->fds[0]);
	seen = seen_named(bed, "read");
	assert_int_equal(seen->descriptor_count, 1);
	assert_int_equal(seen->descriptors[0].number, LINKED_FD);
	assert_string_equal(seen->links[0], poll->links[0]);
	assert_false(seen->has_words);
	/* For how long is not what for. */
	seen = seen_named(bed, "sleep");
	assert_int_equal(seen->descriptor_count, 0);
	assert_false(seen->has_words);
}

/* Of a list of threads. */
static void test_what_calls_name(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	start_all(&victim);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	settle(bed);
	check_futex(bed);
	check_poll(bed);
	check_others(bed);
	check_poller(bed);
	assert_int_equal(seen_of(victim.pid)->descriptors[0].kind, SNAP_DESCRIPTOR_PIPE);
	for (size_t i = 0; i < seen_count; i++)
		assert_true(all_seen[i].partial);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

/* Without counters of runs that is compared which a second question tells: nothing gets lost. */
static void test_the_other_guard(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	start_all(&victim);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	bed->sampler->guard_kind = SNAP_GUARD_SWITCHES;
	settle(bed);
	check_futex(bed);
	check_poll(bed);
	check_others(bed);
	check_poller(bed);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

static bool were_stopped(const struct bed *bed)
{
	for (size_t i = 0; i < bed->thread_count; i++)
		if (!bed->threads[i].alone)
			return false;
	return bed->thread_count == 7;
}

/* The same of threads that had to be stopped, and are back in their calls. */
static void test_after_a_stop(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	start_all(&victim);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	bed->of_partial = SNAP_VERDICT_NEEDS_REGISTERS;
	bed_until(bed, were_stopped(bed));
	check_futex(bed);
	check_poll(bed);
	check_others(bed);
#ifndef __aarch64__
	/* There a stop ends this call, and its descriptor is not in the registers any more. */
	check_poller(bed);
#endif
	for (size_t i = 0; i < seen_count; i++)
		assert_false(all_seen[i].partial);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

static void test_nobody_asks(void **state)
{
	struct victim victim;
	struct bed *bed = *state;

	start_all(&victim);
	start(bed, victim.pid, SNAP_EXPLAIN_NO);
	settle(bed);
	assert_int_equal(seen_count, 7);
	for (size_t i = 0; i < seen_count; i++) {
		assert_false(all_seen[i].has_words);
		assert_int_equal(all_seen[i].descriptor_count, 0);
	}
	assert_null(bed->sampler->context);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

/* ---- who is shown again ---- */

/* Its number stands above each stack, in the thread's area of rseq(2). */
static void stay_on_one_processor(void)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET((size_t)sched_getcpu(), &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		_exit(4);
}

/* Each command leads its descriptor to the other pipe. */
static void moves(int commands, int answers)
{
	stay_on_one_processor();
	if (pipe(place->fds) || pipe(place->fds + 2) || dup2(place->fds[0], LINKED_FD) < 0)
		_exit(4);
	start_thread(wait_in_read, NULL);
	while (in_position < 1)
		sched_yield();
	answer(answers, getpid());
	for (bool is_second = false; command(commands); is_second = !is_second) {
		int from = is_second ? 0 : 2;

		/* It reads of the new one what wakes it from the old one. */
		if (dup2(place->fds[from], LINKED_FD) < 0 ||
		    write(place->fds[is_second ? 3 : 1], "x", 1) != 1)
			_exit(6);
		answer(answers, 1);
	}
}

static void test_another_link_is_shown(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	char before[LINK];

	make_place();
	victim_start(&victim, moves);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	settle(bed);
	for (unsigned i = 0; i < 4; i++) {
		const struct seen *seen = seen_named(bed, "read");
		unsigned samples = seen->samples;

		snprintf(before, sizeof(before), "%s", seen->links[0]);
		tell(&victim);
		wait_answer(&victim);
		wait_until_asleep(victim.pid, 0);
		bed_until(bed, seen->samples > samples && seen->partial &&
				       strcmp(before, seen->links[0]));
	}
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

/* Many that wait at one descriptor; a command leads it to the other pipe and wakes them all. */
static void many_move(int commands, int answers)
{
	static const uint8_t bytes[MANY];

	stay_on_one_processor();
	if (pipe(place->fds) || pipe(place->fds + 2) || dup2(place->fds[0], LINKED_FD) < 0)
		_exit(4);
	for (int i = 0; i < MANY; i++)
		start_thread(wait_in_read, NULL);
	while (in_position < MANY)
		sched_yield();
	answer(answers, getpid());
	while (command(commands)) {
		if (dup2(place->fds[2], LINKED_FD) < 0 || write(place->fds[1], bytes, MANY) != MANY)
			_exit(6);
		answer(answers, 1);
	}
}

static unsigned count_samples(pid_t but)
{
	unsigned count = 0;

	for (size_t i = 0; i < seen_count; i++)
		if (all_seen[i].tid != but)
			count += all_seen[i].samples;
	return count;
}

/* At 1,000 Hz there is time for some 40 links a tick. */
static void test_not_more_than_there_is_time_for(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	size_t known = 0;

	make_place();
	victim_start(&victim, many_move);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	bed->options.hz = 1000;
	settle(bed);
	/* Of who is new all is read. */
	assert_int_equal(count_samples(victim.pid), MANY);
	for (size_t i = 0; i < seen_count; i++)
		assert_int_equal(all_seen[i].descriptor_count, 1);
	tell(&victim);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	for (size_t i = 0; i < seen_count; i++)
		all_seen[i].descriptor_count = 0;
	bed_tick(bed);
	for (size_t i = 0; i < seen_count; i++)
		known += all_seen[i].descriptor_count;
	assert_true(known > 0 && known <= 41);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

static void *turn(void *unused)
{
	begin("turns");
	for (;;) {
		/* The word that it waits at is the same; who has it, so to speak, is not. */
		place->futex[1]++;
		__atomic_add_fetch(&place->turns, 1, __ATOMIC_SEQ_CST);
		wait_for_futex(&place->futex[0], 0);
	}
	return unused;
}

static void turns(int commands, int answers)
{
	stay_on_one_processor();
	start_thread(turn, NULL);
	while (in_position < 1)
		sched_yield();
	answer(answers, getpid());
	while (command(commands)) {
		uint32_t before = __atomic_load_n(&place->turns, __ATOMIC_SEQ_CST);

		while (syscall(SYS_futex, &place->futex[0], FUTEX_WAKE, 1, NULL, NULL, 0) != 1)
			sched_yield();
		while (__atomic_load_n(&place->turns, __ATOMIC_SEQ_CST) == before)
			sched_yield();
		answer(answers, 1);
	}
}

static uint64_t context_hash_of(const struct bed *bed, pid_t tid)
{
	for (size_t i = 0; i < bed->sampler->guard_count; i++)
		if (bed->sampler->guards[i].thread->shown.tid == tid)
			return bed->sampler->guards[i].thread->context_hash;
	return 0;
}

static void test_another_owner_is_not_shown(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	const struct seen *seen;
	uint32_t words[2];
	uint64_t hash;

	make_place();
	victim_start(&victim, turns);
	wait_answer(&victim);
	wait_until_asleep(victim.pid, 0);
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	settle(bed);
	seen = seen_named(bed, "turns");
	assert_true(has_bytes(seen, (uintptr_t)place->futex, words, sizeof(words)));
	assert_int_equal(words[1], place->futex[1]);
	hash = context_hash_of(bed, seen->tid);
	assert_true(hash != 0);
	for (unsigned i = 0; i < 8; i++) {
		tell(&victim);
		wait_answer(&victim);
		wait_until_asleep(victim.pid, 0);
		bed_tick(bed);
		settle(bed);
		/* Nothing but what else has changed shows it again. */
		assert_true(context_hash_of(bed, seen->tid) == hash);
	}
	assert_true(place->futex[1] >= words[1] + 8);
	victim_end(&victim);
	bed_end(bed);
	drop_place();
}

/* ---- words between two ticks ---- */

static struct snap_sampled_process *only_process(struct bed *bed)
{
	assert_int_equal(bed->sampler->process_count, 1);
	return &bed->sampler->processes[0]->shown;
}

static void test_words_between_ticks(void **state)
{
	struct victim victim;
	struct bed *bed = *state;
	static uint8_t bytes[SNAP_SAMPLED_WORDS_BYTES + 1];
	struct snap_sampled_bytes words[SNAP_SAMPLED_WORDS_MOST + 1];
	struct snap_sampled_process *process;

	start_all(&victim);
	for (uint32_t i = 0; i < 8; i++) {
		place->futex[i] = i ? 4711 + i : 0;
		place->other[i] = 815 + i;
	}
	start(bed, victim.pid, SNAP_EXPLAIN_SURE);
	settle(bed);
	process = only_process(bed);
	words[0] = (struct snap_sampled_bytes){ (uintptr_t)place->futex, 32, 7, bytes };
	words[1] = (struct snap_sampled_bytes){ 0, 8, 7, bytes + 32 };
	words[2] = (struct snap_sampled_bytes){ (uintptr_t)place->other, 32, 7, bytes + 40 };
	words[3] = (struct snap_sampled_bytes){ UINT64_MAX - 7, 8, 7, bytes + 72 };
	assert_int_equal(snap_sampler_read_bytes(bed->sampler, process, words, 4), 0);
	assert_int_equal(words[0].got, 32);
	assert_int_equal(words[1].got, 0);
	assert_int_equal(words[2].got, 32);
	assert_int_equal(words[3].got, 0);
	assert_memory_equal(bytes, place->futex, 32);
	assert_memory_equal(bytes + 40, place->other, 32);
	assert_int_equal(snap_sampler_read_bytes(bed->sampler, process, words, 0), 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(words); i++)
		words[i] = (struct snap_sampled_bytes){ (uintptr_t)&place->other[i % 8], 4, 7,
							bytes + 4 * i };
	assert_int_equal(
		snap_sampler_read_bytes(bed->sampler, process, words, SNAP_SAMPLED_WORDS_MOST), 0);
	for (uint32_t i = 0; i < SNAP_SAMPLED_WORDS_MOST; i++)
		assert_memory_equal(bytes + 4 * (size_t)i, &place->other[i % 8], 4);
	assert_int_equal(
		snap_sampler_read_bytes(bed->sampler, process, words, SNAP_SAMPLED_WORDS_MOST + 1),
		-EINVAL);
	words[0] = (struct snap_sampled_bytes){ (uintptr_t)place, sizeof(bytes), 7, bytes };
	assert_int_equal(snap_sampler_read_bytes(bed->sampler, process, words, 1), -EINVAL);
	words[0].size = UINT32_MAX;
	words[1].size = 2;
	assert_int_equal(snap_sampler_read_bytes(bed->sampler, process, words, 2), -EINVAL);
	/* Who kept us waiting is not asked. */
	words[0].size = 4;
	bed->sampler->processes[0]->wait_bytes_stalled = true;
	assert_int_equal(snap_sampler_read_bytes(bed->sampler, process, words, 1), -ETIMEDOUT);
	assert_int_equal(words[0].got, 0);
	bed->sampler->processes[0]->wait_bytes_stalled = false;
	victim_end(&victim);
	assert_true(snap_sampler_read_bytes(bed->sampler, process, words, 1) < 0);
	bed_end(bed);
	drop_place();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		bed_test(test_what_calls_name),
		bed_test(test_the_other_guard),
		bed_test(test_after_a_stop),
		bed_test(test_nobody_asks),
		bed_test(test_another_link_is_shown),
		bed_test(test_another_owner_is_not_shown),
		bed_test(test_not_more_than_there_is_time_for),
		bed_test(test_words_between_ticks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
