/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Both sides of a collector: see collector.h. The supervisor knows only where the bytes of the
 * capture are, and waits for the collector no longer than its time allows.
 *
 *     supervisor --options, by fork--> collector
 *                <--how it went, the shared memory of the capture--
 *                <--channel of a worker--      (a copy of the collector, which opens files)
 *                --request for another worker-->
 *     supervisor --rules, requests--> worker --answers--> supervisor
 *                                            --descriptors--> parser
 */
#include "roles/collector/collector.h"
#include "proc/procfs.h"

#include "base/clock.h"
#include "discover/discover.h"
#include "roles/file_opener/file_opener.h"
#include "roles/parser.h"
#include "roles/role.h"
#include "stop/tracer.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	TICK_MS = 20,      /* how often the collector is looked at */
	PATIENCE_MS = 150, /* how long a collector may take to end by itself */
	BLOCK = 1 << 16,
	BLOCKED_TICKS =
		15,      /* for which a collector sleeps uninterruptibly, before it is replaced */
	MOST_LOSSES = 8, /* collectors that are replaced for such sleeps */
	FIRST_NICE = -20,
};

/* How long it may take until a new worker is ready. */
static const int64_t WORKER_NS = 2000000000;

/* Says that a worker was made, or why not; the message carries its channel. */
struct worker_made {
	struct snap_wire_error error;
	pid_t pid;
};

/* The collector's first message, with the descriptor of capture->shared if there is one. */
struct capture_made {
	struct snap_wire_error error;
	uint64_t memory_bytes;
};

/* ---- in the collector, and in its worker ---- */

struct collector {
	int channel;                 /* to the supervisor */
	struct snap_role worker;     /* its channel is the supervisor's */
	struct snap_options options; /* its own */
	struct snap_capture *capture;
};

/* The worker: serves until its supervisor has gone. */
static void run_worker(void *context, int channel)
{
	struct collector *collector = context;

	close(collector->channel);
	snap_file_opener_serve(&collector->options, collector->capture, channel);
}

/* Says how the capture went, and hands its shared memory over. */
static struct stacksnap_error *send_capture(struct collector *collector,
					    struct stacksnap_error *error)
{
	struct capture_made made = { .memory_bytes = 0 };
	int shared = -1;

	if (!error) {
		shared = collector->capture->shared_fd;
		made.memory_bytes = snap_capture_memory_bytes(collector->capture);
	}
	snap_wire_pack_error(error, &made.error);
	snap_error_destroy(error);
	return snap_wire_send(collector->channel, &made, sizeof(made), shared);
}

/*
 * Makes a worker in place of the last one. Only the supervisor keeps its channel, so the worker
 * ends with the supervisor.
 */
static struct stacksnap_error *send_worker(struct collector *collector)
{
	struct worker_made word;
	struct stacksnap_error *err;

	snap_role_end(&collector->worker);
	err = snap_role_spawn("snap-collector", run_worker, collector, &collector->worker);
	snap_wire_pack_error(err, &word.error);
	word.pid = collector->worker.pid;
	snap_error_destroy(err);
	err = snap_wire_send(collector->channel, &word, sizeof(word), collector->worker.channel);
	snap_close(&collector->worker.channel);
	return err;
}

struct birth {
	const struct snap_options *options; /* NULL: a capture is read */
	const struct snap_collector_start *start;
	int bytes;            /* the memfd for the capture */
	volatile int *cancel; /* shared: not 0 when the capture is no longer wanted */
};

static struct stacksnap_error *make_capture(struct collector *collector, const struct birth *birth)
{
	const struct snap_collector_start *start = birth->start;

	return start->make(start->context, &collector->options, &collector->capture)
		       ?: snap_capture_hand_over(collector->capture, birth->bytes);
}

static void take_options(struct collector *collector, const struct birth *birth)
{
	if (birth->options)
		collector->options = *birth->options;
	/* The time left of the run: an earlier collector may have used a part of it. */
	if (birth->options && birth->start->deadline_ns)
		collector->options.timeout_ns =
			birth->start->deadline_ns - snap_clock_ns(CLOCK_MONOTONIC);
	/* The supervisor downloads by itself. */
	collector->options.self = getppid();
	collector->options.cancel = birth->cancel;
	collector->options.progress = NULL;
	collector->options.debuginfod = false;
}

/*
 * A worker that is blocked in a read keeps this memory mapped while it sleeps. No process reads it
 * any more.
 */
static void free_shared_pages(const struct snap_capture *capture)
{
	if (capture->shared_fd >= 0)
		(void)!ftruncate(capture->shared_fd, 0);
}

static void run_collector(void *context, int channel)
{
	const struct birth *birth = context;
	const int kept[] = { channel, birth->bytes, birth->start->input };
	struct collector collector = { .channel = channel, .worker = SNAP_ROLE_NONE };
	struct stacksnap_error *err;
	bool failed;
	uint32_t wish;
	size_t size;

	/* Closes the output, as a reader may wait for its end. */
	snap_role_leave_standard_descriptors();
	snap_role_close_all_but(kept, SNAP_ARRAY_SIZE(kept));
	snap_role_come_first(FIRST_NICE);
	take_options(&collector, birth);
	err = make_capture(&collector, birth);
	failed = err != NULL;
	if (snap_error_ignore(send_capture(&collector, err)) || failed)
		return;
	snap_role_outlive_thread();
	failed = snap_error_ignore(send_worker(&collector));
	snap_tracer_end(&collector.capture->tracer_fd);
	snap_discover_end(collector.capture);
	/* Every message asks for another worker. */
	while (!failed &&
	       !snap_error_ignore(snap_wire_receive(channel, &wish, sizeof(wish), &size, NULL)) &&
	       size > 0)
		failed = snap_error_ignore(send_worker(&collector));
	snap_role_end(&collector.worker);
	free_shared_pages(collector.capture);
}

/* ---- in the supervisor ---- */

struct snap_collector {
	struct snap_role role;
	struct snap_collector_start start;
	struct snap_file_opener *opener; /* its workers; the supervisor has the channel of one */
	bool worker_is_due;              /* its channel is still to be received */
	volatile int *cancel;            /* shared with the collector: whether it is to end */
	int bytes, shared;               /* memfds; -1: there is none */
	int64_t deadline_ns;
	uint64_t memory_bytes;              /* of managed runtimes */
	const struct snap_options *options; /* of the current work */
};

static struct stacksnap_error *describe_end(struct snap_role *role)
{
	int status;

	/* The channel closes a moment before the process can be reaped. */
	snap_role_has_ended(role, PATIENCE_MS);
	status = snap_role_end(role);
	if (status >= 0 && WIFSIGNALED(status))
		return snap_error_format(
			SNAP_ERROR_CRASHED,
			"the process that reads the targets was killed by signal %d",
			WTERMSIG(status));
	return snap_error_format(SNAP_ERROR_CRASHED,
				 "the process that reads the targets exited early");
}

/* ---- its workers ---- */

/* Receives the channel of the new worker; -1: none was asked for, or it is not ready. */
static int receive_worker(void *context, int64_t until_ns, pid_t *pid_ret)
{
	struct snap_collector *collector = context;
	int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + WORKER_NS;
	struct worker_made word;
	_cleanup_fd_ int channel = -1;
	struct stacksnap_error *err;

	if (!collector->worker_is_due)
		return -1;
	if (until_ns && until_ns < until)
		until = until_ns;
	err = snap_role_receive(collector->role.channel, collector->options, until, &word,
				sizeof(word), &channel);
	/* It is asked for again with the next file. */
	collector->worker_is_due = err && snap_error_code(err) == SNAP_ERROR_TIMEOUT;
	err = err ?: snap_wire_unpack_error(&word.error);
	if (snap_error_ignore(err))
		return -1;
	*pid_ret = word.pid;
	return snap_take_fd(&channel);
}

/* The worker is blocked by a file system, or has died: asks for another one. */
static void lose_worker(void *context)
{
	struct snap_collector *collector = context;
	uint32_t wish = 0;

	collector->worker_is_due = !snap_error_ignore(
		snap_wire_send(collector->role.channel, &wish, sizeof(wish), -1));
}

static struct stacksnap_error *gave_up(const struct snap_options *options)
{
	return snap_error_format(SNAP_ERROR_TIMEOUT, "gave up after %lld ms (--timeout)",
				 options ? (long long)(options->timeout_ns / SNAP_NS_PER_MS) : 0ll);
}

/* Each has a file of its own, as one that was ended has perhaps written a part of a capture. */
static struct stacksnap_error *spawn_collector(struct snap_collector *collector)
{
	struct birth birth = { .options = collector->options,
			       .start = &collector->start,
			       .bytes = memfd_create("stacksnap-capture", MFD_CLOEXEC),
			       .cancel = collector->cancel };

	if (birth.bytes < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	snap_close(&collector->bytes);
	collector->bytes = birth.bytes;
	*collector->cancel = 0;
	return snap_role_spawn("snap-collector", run_collector, &birth, &collector->role);
}

struct stacksnap_error *snap_collector_start(const struct snap_options *options,
					     const struct snap_collector_start *start,
					     struct snap_collector **ret)
{
	_cleanup_(snap_collector_destroyp) struct snap_collector *collector =
		calloc(1, sizeof(*collector));
	const struct snap_file_opener_source workers = { receive_worker, lose_worker, collector };
	void *cancel;

	SNAP_TRY(snap_no_memory_unless(collector));
	collector->role = SNAP_ROLE_NONE;
	collector->bytes = collector->shared = -1;
	collector->deadline_ns = start->deadline_ns;
	collector->options = options;
	collector->start = *start;
	cancel = mmap(NULL, sizeof(*collector->cancel), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cancel == MAP_FAILED)
		return snap_error_os(errno, "cannot share memory with another process");
	collector->cancel = cancel;
	SNAP_TRY(snap_file_opener_create(&workers, &collector->opener)
			 ?: spawn_collector(collector));
	*ret = snap_take_ptr(collector);
	return NULL;
}

/*
 * The kernel answers at once what the collector itself reads of processes. If a process delays even
 * that, the collector is replaced like a worker, and the next collector finds that the process does
 * not respond.
 */
static struct stacksnap_error *await_capture(struct snap_collector *collector,
					     struct capture_made *ret)
{
	int64_t deadline_ns = collector->deadline_ns, tick_ns = TICK_MS * SNAP_NS_PER_MS;
	unsigned blocked = 0, losses = 0;

	for (;;) {
		int64_t until = snap_clock_ns(CLOCK_MONOTONIC) + tick_ns;
		bool is_last = deadline_ns && deadline_ns <= until;
		struct stacksnap_error *err = snap_role_receive(
			collector->role.channel, collector->options, is_last ? deadline_ns : until,
			ret, sizeof(*ret), &collector->shared);

		if (!err || is_last || snap_error_code(err) != SNAP_ERROR_TIMEOUT)
			return err;
		snap_error_destroy(err);
		blocked = snap_procfs_is_blocked(collector->role.pid) ? blocked + 1 : 0;
		if (blocked < BLOCKED_TICKS || losses++ >= MOST_LOSSES)
			continue;
		blocked = 0;
		snap_role_end(&collector->role);
		SNAP_TRY(spawn_collector(collector));
	}
}

struct stacksnap_error *snap_collector_await(struct snap_collector *collector)
{
	const struct snap_options *options = collector->options;
	struct capture_made made;
	struct stacksnap_error *err = await_capture(collector, &made);

	if (!err) {
		collector->memory_bytes = made.memory_bytes;
		collector->worker_is_due = true;
		return snap_wire_unpack_error(&made.error);
	}
	if (snap_error_code(err) == SNAP_ERROR_CRASHED) {
		snap_error_destroy(err);
		return describe_end(&collector->role);
	}
	if (snap_error_code(err) == SNAP_ERROR_TIMEOUT) {
		snap_error_destroy(err);
		return gave_up(options);
	}
	return err;
}

void snap_collector_dismiss(struct snap_collector *collector)
{
	if (collector->cancel)
		*collector->cancel = 1;
	snap_file_opener_destroy(snap_take_ptr(collector->opener));
	snap_close(&collector->role.channel);
	/* The last process that has them open frees their pages: that is not this one. */
	snap_close(&collector->bytes);
	snap_close(&collector->shared);
}

/*
 * A collector that is asked to end reaps its own children. A killed one leaves them to init, which
 * in a container may be a program that never reaps.
 */
static void end_collector(struct snap_collector *collector)
{
	snap_collector_dismiss(collector);
	if (collector->role.pidfd >= 0)
		snap_role_has_ended(&collector->role, PATIENCE_MS);
	snap_role_end(&collector->role);
}

void snap_collector_destroy(struct snap_collector *collector)
{
	if (!collector)
		return;
	end_collector(collector);
	if (collector->cancel)
		munmap((void *)(uintptr_t)collector->cancel, sizeof(*collector->cancel));
	free(collector);
}

int snap_collector_bytes(const struct snap_collector *collector)
{
	return collector->bytes;
}

int snap_collector_shared(const struct snap_collector *collector)
{
	return collector->shared;
}

int64_t snap_collector_deadline_ns(const struct snap_collector *collector)
{
	return collector->deadline_ns;
}

uint64_t snap_collector_memory_bytes(const struct snap_collector *collector)
{
	return collector->memory_bytes;
}

/* ---- files ---- */

unsigned snap_collector_lost_openers(const struct snap_collector *collector)
{
	return collector->opener ? snap_file_opener_losses(collector->opener) : 0;
}

struct snap_broker snap_collector_broker(struct snap_collector *collector,
					 const struct snap_options *options, int64_t deadline_ns)
{
	collector->options = options;
	snap_file_opener_set_options(collector->opener, options, deadline_ns);
	return snap_file_opener_broker(collector->opener);
}

/* ---- saving ---- */

static struct stacksnap_error *copy_collected_file(int from, int to,
						   const struct snap_options *options)
{
	_cleanup_free_ uint8_t *block = malloc(BLOCK);
	off_t at = 0;

	SNAP_TRY(snap_no_memory_unless(block));
	for (;;) {
		ssize_t n = pread(from, block, BLOCK, at), done = 0;

		if (n < 0)
			return snap_error_os(errno, "cannot read the capture");
		if (n == 0)
			return NULL;
		while (done < n) {
			ssize_t put = -1;

			SNAP_TRY(snap_options_check(options));
			put = write(to, block + done, (size_t)(n - done));
			if (put < 0 && errno != EINTR)
				return snap_error_os(errno, "cannot write the capture");
			done += put > 0 ? put : 0;
		}
		at += n;
	}
}

struct stacksnap_error *snap_collector_save(struct snap_collector *collector,
					    const struct snap_options *options, int fd)
{
	_cleanup_fd_ int memory = memfd_create("stacksnap-capture", MFD_CLOEXEC);

	if (memory < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	collector->options = options;
	snap_file_opener_set_options(collector->opener, options, collector->deadline_ns);
	return snap_file_opener_save(collector->opener, memory)
		       ?: copy_collected_file(memory, fd, options);
}
