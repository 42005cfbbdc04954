/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other ends, and file locks, of a recording: see peers.h. A query is one child, which ends. */
#include "record/wait/peers.h"

#include "base/bsearch.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/priority.h"
#include "base/shared_memory.h"
#include "base/spawn.h"
#include "base/text.h"
#include "capture/wait/scan.h"
#include "model/wait/call.h"
#include "proc/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	SHARE = 100,          /* of the time one part */
	FORK_NS = 2000000,    /* what a child costs beside what it does */
	LEAST_NS = 100000000, /* between two queries */
	EARLY = 4,            /* queries that are no further apart */
	MEMORY = 64 << 20,    /* bytes of address space */
	MOST_ASKED = 1024,    /* objects of one query */
	MOST_LINKS = 200000,  /* of all processes */
	PATIENCE_SECONDS = 5, /* for a query, which is given up then */
	END_MS = 100,
};

_Static_assert((int)MOST_ASKED <= (int)SNAP_MAX_FILE_PEERS, "as many as a scan takes");

/* An object that a thread waits with, and of which other processes have the other end. */
struct snap_waited_peer {
	uint32_t object, waiters;
};

/* What a query is to find out of one object, and has. */
struct asked {
	struct snap_wanted_peer end;
	bool needs_reader, needs_writer;
	/* of files */
	bool is_flock;
	uint64_t start, last;
	uint32_t pids[SNAP_LOG_MAX_HOLDERS];
	size_t count;
};

/* In memory that the child sees, too. */
struct snap_peer_query {
	const struct snap_peer_queries *queries; /* as they were when the child was made */
	struct snap_wait_memory memory;
	struct snap_scans scans;
	size_t scan_count;
	uint8_t *end;
	struct asked *asked;
	size_t asked_count;
	int64_t begin_ns, took_ns; /* took_ns: 0 until the child is done */
	int pidfd;
};

void snap_peer_queries_init(struct snap_peer_queries *queries, struct snap_log *log)
{
	*queries = (struct snap_peer_queries){ .log = log };
}

static void end_peer_query(struct snap_peer_queries *queries)
{
	struct snap_peer_query *query = queries->query;

	queries->query = NULL;
	if (query->pidfd >= 0) {
		snap_spawn_end(query->pidfd, 0, END_MS);
		close(query->pidfd);
	}
	if (query->memory.root_fd >= 0)
		close(query->memory.root_fd);
	munmap(query, (size_t)(query->end - (uint8_t *)query));
}

void snap_peer_queries_deinit(struct snap_peer_queries *queries)
{
	if (queries->query)
		end_peer_query(queries);
	free(queries->ends);
	free(queries->places);
	free(queries->asked);
}

/* ---- which are waited with ---- */

static const struct snap_wait_call_row *row_of(const struct snap_log *log,
					       const struct snap_log_object *object)
{
	return snap_wait_call_row(log->capture->processes[object->space].arch, object->call.number);
}

/* Whether other processes have something that this is waited for. */
static bool is_of_others(const struct snap_log *log, const struct snap_log_object *object)
{
	enum snap_wait_call call;

	if (object->is_futex || object->descriptor_count != 1)
		return false;
	call = row_of(log, object)->call;
	switch (object->descriptors[0].kind) {
	case SNAP_DESCRIPTOR_PIPE:
	case SNAP_DESCRIPTOR_SOCKET:
		return call == SNAP_CALL_READ || call == SNAP_CALL_WRITE;
	case SNAP_DESCRIPTOR_FILE:
		return call == SNAP_CALL_FLOCK || call == SNAP_CALL_FCNTL;
	default:
		return false;
	}
}

static struct snap_waited_peer *find_waited_end(const struct snap_peer_queries *queries,
						uint32_t object)
{
	uint32_t place = object < queries->place_count ? queries->places[object] : 0;

	return place ? &queries->ends[place - 1] : NULL;
}

static struct stacksnap_error *add_peer_waiter(struct snap_peer_queries *queries, uint32_t object)
{
	struct snap_waited_peer *end = find_waited_end(queries, object);

	if (end) {
		end->waiters++;
		return NULL;
	}
	if (queries->failed || !is_of_others(queries->log, &queries->log->objects[object]))
		return NULL;
	if (!snap_reserve_array_zeroed(queries->places, queries->place_capacity, object + 1) ||
	    !snap_reserve_array(queries->ends, queries->capacity, queries->count + 1))
		return snap_error_no_memory();
	queries->place_count = queries->place_capacity;
	queries->ends[queries->count++] = (struct snap_waited_peer){ object, 1 };
	queries->places[object] = (uint32_t)queries->count;
	return NULL;
}

/* It stays until it was asked for. */
struct stacksnap_error *snap_peer_queries_stand(struct snap_peer_queries *queries, uint32_t before,
						uint32_t after)
{
	struct snap_waited_peer *end;

	if (before == after)
		return NULL;
	end = before ? find_waited_end(queries, before - 1) : NULL;
	if (end)
		end->waiters--;
	return after ? add_peer_waiter(queries, after - 1) : NULL;
}

/* Those that are kept have other places, and maybe other numbers. */
static void keep_ends(struct snap_peer_queries *queries,
		      bool (*keeps)(const struct snap_log *log, struct snap_waited_peer *end))
{
	size_t kept = 0;

	if (queries->place_count)
		memset(queries->places, 0, queries->place_count * sizeof(*queries->places));
	for (size_t i = 0; i < queries->count; i++) {
		struct snap_waited_peer end = queries->ends[i];

		if (!keeps(queries->log, &end) || end.object >= queries->place_count)
			continue;
		queries->ends[kept++] = end;
		queries->places[end.object] = (uint32_t)kept;
	}
	queries->count = kept;
}

static bool move_end(const struct snap_log *log, struct snap_waited_peer *end)
{
	end->object = snap_log_moved_object(log, end->object);
	return true;
}

static bool is_waited_with(const struct snap_log *log _unused_, struct snap_waited_peer *end)
{
	return end->waiters > 0;
}

void snap_peer_queries_renumber(struct snap_peer_queries *queries)
{
	keep_ends(queries, move_end);
	for (size_t i = 0; queries->query && i < queries->query->asked_count; i++)
		queries->asked[i] = snap_log_moved_object(queries->log, queries->asked[i]);
}

/* ---- the child ---- */

static bool same_address(const struct snap_socket_address *a, const struct snap_socket_address *b)
{
	return a->port == b->port && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* The inode of the other end of a socket; 0: it is not known. */
static uint64_t find_peer(const struct snap_log *log, uint64_t network, uint64_t inode)
{
	const struct snap_socket *own = NULL;

	for (size_t i = 0; i < log->socket_count && !own; i++)
		if (log->sockets[i].inode == inode && log->sockets[i].namespace == network)
			own = &log->sockets[i];
	if (!own)
		return 0;
	if (own->family == SNAP_SOCKET_UNIX)
		return own->peer;
	for (size_t i = 0; i < log->socket_count && own->remote.port; i++) {
		const struct snap_socket *other = &log->sockets[i];

		if (other->family == own->family && other->namespace == network &&
		    same_address(&other->local, &own->remote) &&
		    same_address(&other->remote, &own->local))
			return other->inode;
	}
	return 0;
}

/* The range that a lock is wanted for; of flock all. */
static void find_range(const struct snap_log *log, const struct snap_log_object *object,
		       struct asked *asked)
{
	struct snap_memory_image image;
	struct flock range;

	asked->last = UINT64_MAX;
	asked->is_flock = row_of(log, object)->call == SNAP_CALL_FLOCK;
	if (asked->is_flock || !object->words)
		return;
	image = snap_log_wait_image(&log->words[object->words - 1]);
	if (!snap_memory_image_read(&image, object->call.arguments[2], &range, sizeof(range)) ||
	    range.l_whence != SEEK_SET || range.l_start < 0)
		return;
	asked->start = (uint64_t)range.l_start;
	if (range.l_len > 0)
		asked->last = asked->start + (uint64_t)range.l_len - 1;
}

/* Of the open file, without a question to its file system. */
static uint64_t find_inode(const struct snap_peer_query *query, pid_t pid, int32_t number)
{
	char name[SNAP_WAIT_NAME];
	struct statx status;

	snprintf(name, sizeof(name), "%d/fd/%d", (int)pid, (int)number);
	return statx(query->memory.root_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO,
		     &status) == 0
		       ? status.stx_ino
		       : 0;
}

static void ask_about_object(const struct snap_peer_query *query,
			     const struct snap_log_object *object, struct asked *asked)
{
	const struct snap_log *log = query->queries->log;
	const struct snap_process *process = &log->capture->processes[object->space];
	const struct snap_descriptor *descriptor = &object->descriptors[0];
	bool reads = row_of(log, object)->call == SNAP_CALL_READ;

	*asked = (struct asked){ .end = { .kind = descriptor->kind, .inode = descriptor->inode },
				 .needs_reader = !reads,
				 .needs_writer = reads };
	if (descriptor->kind == SNAP_DESCRIPTOR_SOCKET)
		asked->end.inode = find_peer(log, process->net_namespace, descriptor->inode);
	if (descriptor->kind != SNAP_DESCRIPTOR_FILE)
		return;
	asked->end.inode = find_inode(query, process->pid, descriptor->number);
	asked->end.name = descriptor->link ? snap_base_name(descriptor->link) : "";
	find_range(log, object, asked);
}

/* Wanted ends are sorted, each once: what many wait for is looked for once. */
static void want_end(struct snap_scans *scans, struct snap_wanted_peer *wanted,
		     const struct snap_wanted_peer *end)
{
	size_t at = snap_first_not(scans->wanted_count, i, snap_scan_compare(&wanted[i], end) < 0);

	if (!end->inode || (at < scans->wanted_count && snap_scan_compare(&wanted[at], end) == 0))
		return;
	memmove(&wanted[at + 1], &wanted[at], (scans->wanted_count - at) * sizeof(*wanted));
	wanted[at] = *end;
	scans->wanted_count++;
	scans->kinds[end->kind] = true;
}

static void add_holder(struct asked *asked, pid_t pid)
{
	for (size_t i = 0; i < asked->count; i++)
		if (asked->pids[i] == (uint32_t)pid)
			return;
	if (asked->count < SNAP_LOG_MAX_HOLDERS)
		asked->pids[asked->count++] = (uint32_t)pid;
}

static bool is_held_by(const struct asked *asked, const struct snap_file_lock *lock)
{
	return lock->inode == asked->end.inode &&
	       (lock->kind == SNAP_LOCK_FLOCK) == asked->is_flock && lock->start <= asked->last &&
	       lock->end >= asked->start;
}

static void take_ends(struct asked *asked, const struct snap_peer_query *query,
		      const struct snap_scan *scan)
{
	for (const struct snap_scan_end *end = scan->ends; end; end = end->next) {
		const struct snap_wanted_peer *wanted = &query->scans.wanted[end->wanted];

		if (snap_scan_compare(wanted, &asked->end) == 0 &&
		    asked->end.kind != SNAP_DESCRIPTOR_FILE &&
		    ((end->readable && asked->needs_reader) ||
		     (end->writable && asked->needs_writer)))
			add_holder(asked, scan->pid);
	}
	for (const struct snap_scan_lock *lock = scan->locks; lock; lock = lock->next)
		if (asked->end.kind == SNAP_DESCRIPTOR_FILE && is_held_by(asked, &lock->lock))
			add_holder(asked, scan->pid);
}

static void run_peer_query(void *context)
{
	struct snap_peer_query *query = context;
	const struct snap_log *log = query->queries->log;
	struct snap_wanted_peer *wanted = snap_region_new_array(
		&query->memory.region, query->asked_count, struct snap_wanted_peer);

	snap_priority_lower();
	snap_spawn_close_all_but(query->memory.root_fd);
	if (!wanted)
		return;
	for (size_t i = 0; i < query->asked_count; i++) {
		ask_about_object(query, &log->objects[query->queries->asked[i]], &query->asked[i]);
		want_end(&query->scans, wanted, &query->asked[i].end);
	}
	query->scans.wanted = wanted;
	for (size_t i = 0; i < query->scan_count && query->scans.wanted_count; i++) {
		snap_scan_run(&query->scans, (uint32_t)i);
		for (size_t k = 0; k < query->asked_count; k++)
			take_ends(&query->asked[k], query, &query->scans.list[i]);
	}
	query->took_ns = snap_clock_ns(CLOCK_MONOTONIC) - query->begin_ns;
}

/* ---- queries ---- */

/* Processes that are there, as far as the recording knows. */
static size_t list_processes(const struct snap_log *log, struct snap_scan *scans)
{
	size_t count = 0;

	for (size_t i = 0; i < log->process_count; i++) {
		const struct snap_log_process *process = &log->processes[i];

		if (process->last_tick != UINT64_MAX || process->pid <= 0)
			continue;
		if (scans)
			scans[count].pid = process->pid;
		count++;
	}
	return count;
}

static bool fill_peer_query(struct snap_peer_queries *queries, struct snap_peer_query *query)
{
	size_t count = queries->count < MOST_ASKED ? queries->count : MOST_ASKED;
	struct snap_region *region = &query->memory.region;

	query->queries = queries;
	query->scan_count = list_processes(queries->log, NULL);
	query->scans = (struct snap_scans){ .memory = &query->memory,
					    .most_links = MOST_LINKS,
					    .most_found = SNAP_MAX_FILE_PEERS / 2 };
	query->scans.list = snap_region_new_array(region, query->scan_count + 1, struct snap_scan);
	query->asked = snap_region_new_array(region, count, struct asked);
	if (!query->scans.list || !query->asked ||
	    !snap_reserve_array(queries->asked, queries->asked_capacity, count))
		return false;
	(void)list_processes(queries->log, query->scans.list);
	/* The last ones are the newest. */
	for (size_t i = 0; i < count; i++)
		queries->asked[i] = queries->ends[queries->count - count + i].object;
	query->asked_count = count;
	return true;
}

static struct stacksnap_error *begin_peer_query(struct snap_peer_queries *queries)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_peer_query *query;
	struct snap_region region;
	pid_t pid;

	SNAP_TRY(snap_shared_scratch_create(MEMORY, &region));
	query = (void *)region.next;
	region.next += (sizeof(*query) + 63) & ~(size_t)63;
	query->end = region.end;
	query->memory.region = region;
	query->memory.root_fd = query->pidfd = -1;
	queries->query = query;
	query->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	SNAP_TRY(snap_procfs_open(NULL, &procfs));
	query->memory.root_fd = procfs.root_fd;
	SNAP_TRY(snap_no_memory_unless(fill_peer_query(queries, query)));
	SNAP_TRY(snap_spawn(0, "snap-ends", run_peer_query, query, &pid, &query->pidfd));
	keep_ends(queries, is_waited_with);
	return NULL;
}

static struct stacksnap_error *take_peer_found(struct snap_peer_queries *queries)
{
	const struct snap_peer_query *query = queries->query;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < query->asked_count && query->took_ns && !err; i++)
		if (queries->asked[i] < queries->log->object_count)
			err = snap_log_set_peers(queries->log, queries->asked[i],
						 query->asked[i].pids, query->asked[i].count);
	return err;
}

/* What is under way has ended, or takes too long; else nothing. */
static struct stacksnap_error *finish_peer_query(struct snap_peer_queries *queries)
{
	struct stacksnap_error *err = NULL;
	bool has_ended = snap_spawn_has_ended(queries->query->pidfd, 0);
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), took = now - queries->query->begin_ns;

	if (!has_ended && took < PATIENCE_SECONDS * SNAP_NS_PER_S)
		return NULL;
	if (has_ended) {
		err = take_peer_found(queries);
		if (queries->query->took_ns)
			took = queries->query->took_ns;
	}
	took = (took + FORK_NS) * SHARE;
	/* The first ones come before it is known which sockets have which ends. */
	if (took < LEAST_NS || queries->taken++ < EARLY)
		took = LEAST_NS;
	queries->next_ns = now + took;
	end_peer_query(queries);
	return err;
}

/* Without them a recording goes on. */
static void try_peer_query(struct snap_peer_queries *queries)
{
	struct stacksnap_error *err = begin_peer_query(queries);

	if (!err)
		return;
	snap_error_destroy(err);
	queries->failed = true;
	queries->count = 0;
	if (queries->query)
		end_peer_query(queries);
}

struct stacksnap_error *snap_peer_queries_work(struct snap_peer_queries *queries)
{
	struct stacksnap_error *err = queries->query ? finish_peer_query(queries) : NULL;

	if (!err && !queries->query && !queries->failed && queries->count &&
	    snap_clock_ns(CLOCK_MONOTONIC) >= queries->next_ns)
		try_peer_query(queries);
	return err;
}
