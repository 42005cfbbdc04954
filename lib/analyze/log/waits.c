/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Explains pairs of stack and object of a log: see log.h.
 *
 * Each pair is treated as a thread of a snapshot, in a made-up capture. Its frames are those of the
 * stack, its call and descriptors those of the object, and its memory the words that the object had
 * first. So the analysis of snapshots finds what the thread waits for. The holder changes while the
 * waiter sleeps; it is left to owner_spans.c, as is everything that is true only at one instant.
 */
#include "analyze/log/internal.h"
#include "analyze/wait/wait.h"
#include "base/bsearch.h"

#include <string.h>

enum {
	BATCH = 1 << 13,       /* pairs that are explained together */
	MOST_FRAMES = 128,     /* of a stack, innermost ones: what names a wait is near its call */
	MOST_OWNERS = 1 << 16, /* threads that words of a batch may name */
	FIRST_TID = -2,        /* of pairs, downwards: numbers that no word has */
};

/* What all batches share. */
struct explaining {
	const struct snap_log *log;
	const struct snap_file_finder *finder; /* of the log's capture */
	struct snap_file_finder own_finder;    /* of the one that is made up */
	struct snap_options options;           /* the caller's */
	struct snap_options frame_options;     /* frames are looked at as they are */
	const struct snap_log_explained *pairs;
	size_t pair_count;
	bool *is_in_disk;       /* of each pair: a thread was in state D with it */
	uint32_t *first_words;  /* of each object, as in a hold: the first that are known */
	uint32_t *threads;      /* of the log, by process … */
	size_t *process_starts; /* … and where those of each begin; process_count + 1 */
	struct snap_process
		*processes; /* of the made-up capture: those of the log, without threads */
	struct snap_capture capture;
	struct snap_wait_facts facts;
};

SNAP_FREES(explaining_deinit, struct explaining, is_in_disk, first_words, threads, process_starts,
	   processes, facts.sockets);

/* ---- files: the made-up capture's processes are the log's ---- */

static const struct snap_process *log_process(const struct explaining *all,
					      const struct snap_process *process)
{
	bool is_own =
		process >= all->processes && process < all->processes + all->capture.process_count;

	return is_own ? &all->log->capture->processes[process - all->processes] : process;
}

static struct stacksnap_error *find_file(void *context, const struct snap_file_request *request,
					 int *fd_ret)
{
	const struct explaining *all = context;
	struct snap_file_request asked = *request;

	asked.process = log_process(all, request->process);
	return all->finder->find(all->finder->context, &asked, fd_ret);
}

static void note_file(void *context, const struct snap_file_request *request)
{
	const struct explaining *all = context;
	struct snap_file_request asked = *request;

	asked.process = log_process(all, request->process);
	snap_file_finder_note(all->finder, &asked);
}

/* ---- what is known beside pairs ---- */

SNAP_ORDER(compare_sockets, struct snap_socket, a, b, snap_compare(a->namespace, b->namespace),
	   snap_compare(a->inode, b->inode));

static bool list_sockets(struct explaining *all)
{
	const struct snap_log *log = all->log;

	all->facts.sockets = malloc((log->socket_count + 1) * sizeof(*log->sockets));
	if (!all->facts.sockets)
		return false;
	all->facts.socket_count = log->socket_count;
	if (log->socket_count)
		memcpy(all->facts.sockets, log->sockets, log->socket_count * sizeof(*log->sockets));
	qsort(all->facts.sockets, log->socket_count, sizeof(*log->sockets), compare_sockets);
	return true;
}

/* Where all sockets are of one network, those of processes whose network is not known are, too. */
static uint64_t only_namespace(const struct snap_wait_facts *facts)
{
	size_t count = facts->socket_count;

	return count && facts->sockets[0].namespace == facts->sockets[count - 1].namespace
		       ? facts->sockets[0].namespace
		       : 0;
}

static bool make_capture(struct explaining *all)
{
	const struct snap_capture *capture = all->log->capture;

	if (!list_sockets(all))
		return false;
	all->processes = malloc((capture->process_count + 1) * sizeof(*all->processes));
	if (!all->processes)
		return false;
	for (size_t i = 0; i < capture->process_count; i++) {
		struct snap_process *process = &all->processes[i];

		*process = capture->processes[i];
		process->threads = NULL;
		process->thread_count = 0;
		process->memory = process->words = NULL;
		process->descriptors = NULL;
		process->descriptor_count = 0;
		process->parent = SIZE_MAX;
		if (!process->net_namespace)
			process->net_namespace = only_namespace(&all->facts);
	}
	all->capture.host = capture->host;
	all->capture.processes = all->processes;
	all->capture.process_count = capture->process_count;
	all->capture.waits = &all->facts;
	return true;
}

/* What an object was found with; of a futex those that could be read first. */
static bool find_first_words(struct explaining *all)
{
	const struct snap_log *log = all->log;

	all->first_words = calloc(log->object_count + 1, sizeof(*all->first_words));
	if (!all->first_words)
		return false;
	for (size_t i = 0; i < log->object_count; i++) {
		all->first_words[i] = log->objects[i].words;
		if (!all->first_words[i] && i < log->owners_before_count &&
		    log->objects[i].is_futex)
			all->first_words[i] = log->owners_before[i];
	}
	for (size_t i = 0; i < log->owner_count; i++) {
		const struct snap_log_owner_change *hold = &log->owners[i];

		if (!all->first_words[hold->object] && log->objects[hold->object].is_futex)
			all->first_words[hold->object] = hold->words;
	}
	return true;
}

static void note_state(struct explaining *all, const struct snap_log_change *change)
{
	const struct snap_log_explained *pairs = all->pairs;
	uint32_t stack = change->stack, object = change->object - 1;
	size_t at;

	if (!change->object || stack == SNAP_LOG_GONE || change->state != SNAP_STATE_DISK)
		return;
	at = snap_first_not(all->pair_count, i,
			    pairs[i].stack != stack ? pairs[i].stack < stack
						    : pairs[i].object < object);
	if (at < all->pair_count && pairs[at].stack == stack && pairs[at].object == object)
		all->is_in_disk[at] = true;
}

static bool find_states(struct explaining *all)
{
	const struct snap_log *log = all->log;

	all->is_in_disk = calloc(all->pair_count + 1, sizeof(*all->is_in_disk));
	if (!all->is_in_disk)
		return false;
	for (size_t i = 0; i < log->before_count; i++)
		note_state(all, &log->before[i]);
	for (size_t i = 0; i < log->change_count; i++)
		note_state(all, &log->changes[i]);
	return true;
}

static bool sort_threads(struct explaining *all)
{
	const struct snap_log *log = all->log;
	size_t *starts = calloc(log->process_count + 2, sizeof(*starts));

	all->process_starts = starts;
	all->threads = malloc((log->thread_count + 1) * sizeof(*all->threads));
	if (!starts || !all->threads)
		return false;
	for (size_t i = 0; i < log->thread_count; i++)
		starts[log->threads[i].process + 2]++;
	for (size_t i = 2; i < log->process_count + 2; i++)
		starts[i] += starts[i - 1];
	for (size_t i = 0; i < log->thread_count; i++)
		all->threads[starts[log->threads[i].process + 1]++] = (uint32_t)i;
	return true;
}

/* ---- a batch ---- */

struct batch {
	struct explaining *all;
	struct snap_log_analysis of; /* for frames: of the log, and the made-up capture */
	size_t first, end;           /* in all->pairs */
	size_t *own_threads;         /* of each space: how many pairs it has */
	size_t *of_pair;             /* of each pair: its place in its process; SIZE_MAX: none */
	size_t owner_count;
};

static void batch_deinit(struct batch *batch)
{
	struct explaining *all = batch->all;

	for (size_t i = 0; i < all->capture.process_count; i++) {
		all->processes[i].threads = NULL;
		all->processes[i].thread_count = 0;
	}
	free(batch->own_threads);
	free(batch->of_pair);
	free(batch->of.records);
	free(batch->of.modules);
	free(batch->of.frames);
	snap_analysis_deinit(&batch->of.analysis);
}

static struct stacksnap_error *batch_init(struct batch *batch)
{
	struct explaining *all = batch->all;
	const struct snap_log *log = all->log;

	batch->of.log = log;
	batch->of.options = &all->frame_options;
	batch->own_threads = calloc(all->capture.process_count + 1, sizeof(size_t));
	batch->of_pair = malloc((batch->end - batch->first + 1) * sizeof(size_t));
	batch->of.records = calloc(log->frame_count + 1, sizeof(struct snap_frame_record *));
	batch->of.modules = calloc(all->capture.process_count + 1, sizeof(struct snap_modules *));
	if (!batch->own_threads || !batch->of_pair || !batch->of.records || !batch->of.modules)
		return snap_error_no_memory();
	return snap_analysis_init(&batch->of.analysis, &all->capture, &all->options,
				  &all->own_finder);
}

/* The space of a pair; in a forged file the two may have none in common. */
static uint32_t space_of(const struct snap_log *log, const struct snap_log_explained *pair)
{
	uint32_t space = log->stacks[pair->stack].space;
	uint32_t of_object = log->objects[pair->object].space;

	return log->spaces[space].process == log->spaces[of_object].process ? space : UINT32_MAX;
}

static size_t count_owners(const struct batch *batch, uint32_t space)
{
	const struct explaining *all = batch->all;
	uint32_t process = all->log->spaces[space].process;
	size_t count, left = MOST_OWNERS - batch->owner_count;

	if (process == UINT32_MAX)
		return 0;
	count = all->process_starts[process + 1] - all->process_starts[process];
	return count < left ? count : left;
}

/* Threads of the process, which words may name: they wait for nothing. */
static void add_owners(const struct batch *batch, uint32_t space, size_t count)
{
	const struct explaining *all = batch->all;
	struct snap_process *process = &all->processes[space];
	const uint32_t *threads =
		count ? all->threads + all->process_starts[all->log->spaces[space].process] : NULL;

	for (size_t i = 0; i < count; i++) {
		const struct snap_log_thread *thread = &all->log->threads[threads[i]];

		if (thread->task)
			continue;
		process->threads[process->thread_count++] =
			(struct snap_thread){ .tid = thread->tid,
					      .ns_tid = thread->ns_tid,
					      .state = 'S',
					      .cpu = -1,
					      .blocked_ns = -1,
					      .result = SNAP_THREAD_UNTRACED };
	}
}

/* Room for the pairs of a space in front, and for possible owners of what they wait for behind. */
static struct stacksnap_error *enter_space(struct batch *batch, uint32_t space)
{
	struct snap_analysis *analysis = &batch->of.analysis;
	struct snap_process *process = &batch->all->processes[space];
	struct snap_raw_process *raw = &analysis->processes[space];
	size_t owners = count_owners(batch, space), count = batch->own_threads[space];
	struct stacksnap_error *err;

	process->threads =
		snap_arena_new_array(&analysis->scratch, count + owners, struct snap_thread);
	raw->threads =
		snap_arena_new_array(&analysis->scratch, count + owners, struct snap_raw_thread);
	SNAP_TRY(snap_no_memory_unless(process->threads && raw->threads));
	process->thread_count = count;
	add_owners(batch, space, owners);
	batch->owner_count += process->thread_count - count;
	for (size_t i = 0; i < process->thread_count; i++)
		raw->threads[i].thread = &process->threads[i];
	raw->thread_count = process->thread_count;
	err = snap_raw_process_map(analysis, raw);
	batch->of.modules[space] = raw->modules;
	return err;
}

static struct stacksnap_error *enter_spaces(struct batch *batch)
{
	const struct explaining *all = batch->all;

	for (size_t i = batch->first; i < batch->end; i++) {
		uint32_t space = space_of(all->log, &all->pairs[i]);

		batch->of_pair[i - batch->first] =
			space == UINT32_MAX ? SIZE_MAX : batch->own_threads[space]++;
	}
	for (size_t i = 0; i < all->capture.process_count; i++) {
		struct stacksnap_error *err = NULL;

		if (batch->own_threads[i])
			err = enter_space(batch, (uint32_t)i);
		if (err)
			return err;
	}
	return NULL;
}

/* The innermost frames of a stack; its place among those of the process. */
static bool add_logged_stack(struct batch *batch, uint32_t stack, size_t *ret)
{
	struct snap_analysis *analysis = &batch->of.analysis;
	struct snap_raw_process *raw = &analysis->processes[batch->of.log->stacks[stack].space];
	struct snap_raw_stack from;

	if (!snap_log_raw_stack(&batch->of, stack, &from))
		return false;
	if (from.frame_count > MOST_FRAMES)
		from.frame_count = MOST_FRAMES;
	from.frames = snap_arena_memdup(&analysis->scratch, from.frames,
					from.frame_count * sizeof(struct snap_frame *));
	return from.frames && snap_raw_stack_add(raw, &from, ret);
}

static bool add_logged_pair(struct batch *batch, size_t index, size_t stack)
{
	const struct explaining *all = batch->all;
	const struct snap_log *log = all->log;
	const struct snap_log_explained *pair = &all->pairs[index];
	const struct snap_log_object *object = &log->objects[pair->object];
	struct snap_analysis *analysis = &batch->of.analysis;
	uint32_t space = log->stacks[pair->stack].space, words = all->first_words[pair->object];
	size_t place = batch->of_pair[index - batch->first];
	struct snap_raw_own *own = snap_arena_new(&analysis->scratch, struct snap_raw_own);
	pid_t tid = FIRST_TID - (pid_t)(index - batch->first);

	if (!own)
		return false;
	if (words)
		own->words = snap_log_wait_image(&log->words[words - 1]);
	own->descriptors = object->descriptors;
	own->descriptor_count = object->descriptor_count;
	/* It did not stand still with others, so nothing is certain. */
	all->processes[space].threads[place] = (struct snap_thread){
		.tid = tid,
		.ns_tid = tid,
		.state = all->is_in_disk[index] ? 'D' : 'S',
		.cpu = -1,
		.blocked_ns = -1,
		.result = SNAP_THREAD_COPIED,
		.taken = SNAP_TAKEN_UNSTOPPED,
		.call = object->call,
	};
	analysis->processes[space].threads[place].stack = stack;
	analysis->processes[space].threads[place].own = own;
	return true;
}

static bool add_pairs(struct batch *batch)
{
	const struct snap_log_explained *pairs = batch->all->pairs;
	size_t stack = 0;

	for (size_t i = batch->first; i < batch->end; i++) {
		bool is_new = i == batch->first || pairs[i].stack != pairs[i - 1].stack;

		if (is_new && batch->of_pair[i - batch->first] == SIZE_MAX)
			continue;
		if (is_new && !add_logged_stack(batch, pairs[i].stack, &stack))
			return false;
		if (batch->of_pair[i - batch->first] != SIZE_MAX &&
		    !add_logged_pair(batch, i, stack))
			return false;
	}
	return true;
}

/* ---- the result ---- */

/* Without stack pointers it is not known whose stack, or which part of the heap. */
static const char *place_of_logged_wait(const struct snap_process *process,
					const struct snap_wait *wait)
{
	const struct snap_map *map = wait->place ? snap_process_map(process, wait->address) : NULL;

	if (!map || !map->path)
		return NULL;
	if (strcmp(map->path, "[heap]") == 0)
		return "heap";
	return strcmp(map->path, "[stack]") == 0 ? "stack" : NULL;
}

/* What is true of one moment alone is left out, so equal objects are equal. */
static struct snap_wait lasting(const struct snap_process *process, const struct snap_wait *found)
{
	struct snap_wait wait = *found;

	wait.place = place_of_logged_wait(process, found);
	if (wait.owner_word.form != SNAP_OWNER_FORM_NONE ||
	    (wait.owner_lack != SNAP_OWNER_NOT_KEPT && wait.owner_lack != SNAP_OWNER_REFUSED))
		wait.owner_lack = SNAP_OWNER_KNOWN;
	wait.has_owner = false;
	wait.owner = (struct snap_wait_party){ .tid = 0 };
	wait.holders = wait.peers = wait.hints = NULL;
	wait.holder_count = wait.peer_count = wait.peer_total = wait.hint_count = 0;
	wait.peers_unknown = false;
	wait.mutex_free = false;
	wait.readers = wait.value = wait.waiters = wait.arrived = -1;
	wait.recv_queue = wait.send_queue = wait.peer_recv_queue = -1;
	wait.backlog = wait.backlog_max = wait.retransmits = -1;
	wait.since_ns = wait.remaining_ns = -1;
	return wait;
}

static struct stacksnap_error *tell_pairs(const struct batch *batch, snap_log_wait_sink *tell,
					  void *context)
{
	const struct explaining *all = batch->all;

	for (size_t i = batch->first; i < batch->end; i++) {
		const struct snap_log_explained *pair = &all->pairs[i];
		size_t place = batch->of_pair[i - batch->first];
		uint32_t space = all->log->stacks[pair->stack].space;
		const struct snap_wait *found = NULL;
		struct snap_wait wait;

		if (place != SIZE_MAX)
			found = batch->of.analysis.processes[space].threads[place].wait;
		if (found)
			wait = lasting(&all->processes[space], found);
		SNAP_TRY(tell(context, pair->stack, pair->object, found ? &wait : NULL));
	}
	return NULL;
}

static struct stacksnap_error *explain_batch(struct explaining *all, size_t first, size_t end,
					     snap_log_wait_sink *tell, void *context)
{
	_cleanup_(batch_deinit) struct batch batch = { .all = all, .first = first, .end = end };
	struct stacksnap_error *err = batch_init(&batch);

	err = err ?: enter_spaces(&batch);
	if (!err && !add_pairs(&batch))
		err = snap_error_no_memory();
	err = err ?: snap_waits_explain(&batch.of.analysis);
	return err ? err : tell_pairs(&batch, tell, context);
}

static struct stacksnap_error *explaining_init(struct explaining *all)
{
	all->own_finder =
		(struct snap_file_finder){ .find = find_file, .note = note_file, .context = all };
	/* Names are looked at that the log has, whatever is shown of them. */
	all->frame_options = all->options;
	all->frame_options.symbols = all->frame_options.inlines = true;
	all->frame_options.native = true;
	all->frame_options.raw_names = false;
	return snap_no_memory_unless(make_capture(all) && find_first_words(all) &&
				     find_states(all) && sort_threads(all));
}

struct stacksnap_error *snap_analyze_log_waits(const struct snap_log *log,
					       const struct snap_options *options,
					       const struct snap_file_finder *finder,
					       const struct snap_log_explained *pairs, size_t count,
					       snap_log_wait_sink *tell, void *context)
{
	_cleanup_(explaining_deinit) struct explaining all = { .log = log,
							       .finder = finder,
							       .options = *options,
							       .pairs = pairs,
							       .pair_count = count };
	struct stacksnap_error *err = NULL;

	if (count == 0 || options->explain == SNAP_EXPLAIN_NO)
		return NULL;
	err = explaining_init(&all);
	for (size_t i = 0; i < count && !err && !snap_options_have_enough(options); i += BATCH)
		err = explain_batch(&all, i, count - i < BATCH ? count : i + BATCH, tell, context);
	return err;
}
