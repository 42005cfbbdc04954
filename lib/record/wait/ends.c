/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other ends, and file locks, of a recording: see ends.h. A look is one child, which ends. */
#include "record/wait/ends.h"

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
	LEAST_NS = 100000000, /* between two looks */
	EARLY = 4,            /* looks that are no further apart */
	MEMORY = 64 << 20,    /* bytes of address space */
	MOST_ASKED = 1024,    /* objects of one look */
	MOST_LINKS = 200000,  /* of all processes */
	PATIENCE_SECONDS = 5, /* for a look, which is given up then */
	END_MS = 100,
};

_Static_assert((int)MOST_ASKED <= (int)SNAP_MAX_FILE_ENDS, "as many as a scan takes");

/* An object that a thread waits with, and of which other processes have the other end. */
struct snap_waited_end {
	uint32_t object, waiters;
};

/* What a look is to find out of one object, and has. */
struct asked {
	struct snap_wanted_end end;
	bool needs_reader, needs_writer;
	/* of files */
	bool is_flock;
	uint64_t start, last;
	uint32_t pids[SNAP_LOG_MAX_HOLDERS];
	size_t count;
};

/* In memory that the child sees, too. */
struct snap_end_look {
	const struct snap_end_looks *looks; /* as they were when the child was made */
	struct snap_wait_memory memory;
	struct snap_scans scans;
	size_t scan_count;
	uint8_t *end;
	struct asked *asked;
	size_t asked_count;
	int64_t begin_ns, took_ns; /* took_ns: 0 until the child is done */
	int pidfd;
};

void snap_end_looks_init(struct snap_end_looks *looks, struct snap_log *log)
{
	*looks = (struct snap_end_looks){ .log = log };
}

static void end_look(struct snap_end_looks *looks)
{
	struct snap_end_look *look = looks->look;

	looks->look = NULL;
	if (look->pidfd >= 0) {
		snap_spawn_end(look->pidfd, 0, END_MS);
		close(look->pidfd);
	}
	if (look->memory.root_fd >= 0)
		close(look->memory.root_fd);
	munmap(look, (size_t)(look->end - (uint8_t *)look));
}

void snap_end_looks_deinit(struct snap_end_looks *looks)
{
	if (looks->look)
		end_look(looks);
	free(looks->ends);
	free(looks->places);
	free(looks->asked);
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

static struct snap_waited_end *find(const struct snap_end_looks *looks, uint32_t object)
{
	uint32_t place = object < looks->place_count ? looks->places[object] : 0;

	return place ? &looks->ends[place - 1] : NULL;
}

static struct stacksnap_error *add_waiter(struct snap_end_looks *looks, uint32_t object)
{
	struct snap_waited_end *end = find(looks, object);

	if (end) {
		end->waiters++;
		return NULL;
	}
	if (looks->failed || !is_of_others(looks->log, &looks->log->objects[object]))
		return NULL;
	if (!snap_reserve_array_zeroed(looks->places, looks->place_capacity, object + 1) ||
	    !snap_reserve_array(looks->ends, looks->capacity, looks->count + 1))
		return snap_error_no_memory();
	looks->place_count = looks->place_capacity;
	looks->ends[looks->count++] = (struct snap_waited_end){ object, 1 };
	looks->places[object] = (uint32_t)looks->count;
	return NULL;
}

/* It stays until it was asked for. */
struct stacksnap_error *snap_end_looks_stand(struct snap_end_looks *looks, uint32_t before,
					     uint32_t after)
{
	struct snap_waited_end *end;

	if (before == after)
		return NULL;
	end = before ? find(looks, before - 1) : NULL;
	if (end)
		end->waiters--;
	return after ? add_waiter(looks, after - 1) : NULL;
}

/* Those that are kept have other places, and maybe other numbers. */
static void keep_ends(struct snap_end_looks *looks,
		      bool (*keeps)(const struct snap_log *log, struct snap_waited_end *end))
{
	size_t kept = 0;

	if (looks->place_count)
		memset(looks->places, 0, looks->place_count * sizeof(*looks->places));
	for (size_t i = 0; i < looks->count; i++) {
		struct snap_waited_end end = looks->ends[i];

		if (!keeps(looks->log, &end) || end.object >= looks->place_count)
			continue;
		looks->ends[kept++] = end;
		looks->places[end.object] = (uint32_t)kept;
	}
	looks->count = kept;
}

static bool move_end(const struct snap_log *log, struct snap_waited_end *end)
{
	end->object = snap_log_moved_object(log, end->object);
	return true;
}

static bool is_waited_with(const struct snap_log *log _unused_, struct snap_waited_end *end)
{
	return end->waiters > 0;
}

void snap_end_looks_renumber(struct snap_end_looks *looks)
{
	keep_ends(looks, move_end);
	for (size_t i = 0; looks->look && i < looks->look->asked_count; i++)
		looks->asked[i] = snap_log_moved_object(looks->log, looks->asked[i]);
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
	image = snap_log_words_image(&log->words[object->words - 1]);
	if (!snap_memory_image_read(&image, object->call.arguments[2], &range, sizeof(range)) ||
	    range.l_whence != SEEK_SET || range.l_start < 0)
		return;
	asked->start = (uint64_t)range.l_start;
	if (range.l_len > 0)
		asked->last = asked->start + (uint64_t)range.l_len - 1;
}

/* Of the open file, without a question to its file system. */
static uint64_t find_inode(const struct snap_end_look *look, pid_t pid, int32_t number)
{
	char name[SNAP_WAIT_NAME];
	struct statx status;

	snprintf(name, sizeof(name), "%d/fd/%d", (int)pid, (int)number);
	return statx(look->memory.root_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_INO,
		     &status) == 0
		       ? status.stx_ino
		       : 0;
}

static void ask(const struct snap_end_look *look, const struct snap_log_object *object,
		struct asked *asked)
{
	const struct snap_log *log = look->looks->log;
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
	asked->end.inode = find_inode(look, process->pid, descriptor->number);
	asked->end.name = descriptor->link ? snap_base_name(descriptor->link) : "";
	find_range(log, object, asked);
}

/* Wanted ends are sorted, each once: what many wait for is looked for once. */
static void want(struct snap_scans *scans, struct snap_wanted_end *wanted,
		 const struct snap_wanted_end *end)
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

static void take_ends(struct asked *asked, const struct snap_end_look *look,
		      const struct snap_scan *scan)
{
	for (const struct snap_scan_end *end = scan->ends; end; end = end->next) {
		const struct snap_wanted_end *wanted = &look->scans.wanted[end->wanted];

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

static void run_look(void *context)
{
	struct snap_end_look *look = context;
	const struct snap_log *log = look->looks->log;
	struct snap_wanted_end *wanted = snap_region_new_array(
		&look->memory.region, look->asked_count, struct snap_wanted_end);

	snap_priority_lower();
	snap_spawn_close_all_but(look->memory.root_fd);
	if (!wanted)
		return;
	for (size_t i = 0; i < look->asked_count; i++) {
		ask(look, &log->objects[look->looks->asked[i]], &look->asked[i]);
		want(&look->scans, wanted, &look->asked[i].end);
	}
	look->scans.wanted = wanted;
	for (size_t i = 0; i < look->scan_count && look->scans.wanted_count; i++) {
		snap_scan_run(&look->scans, (uint32_t)i);
		for (size_t k = 0; k < look->asked_count; k++)
			take_ends(&look->asked[k], look, &look->scans.list[i]);
	}
	look->took_ns = snap_clock_ns(CLOCK_MONOTONIC) - look->begin_ns;
}

/* ---- looks ---- */

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

static bool fill_look(struct snap_end_looks *looks, struct snap_end_look *look)
{
	size_t count = looks->count < MOST_ASKED ? looks->count : MOST_ASKED;
	struct snap_region *region = &look->memory.region;

	look->looks = looks;
	look->scan_count = list_processes(looks->log, NULL);
	look->scans = (struct snap_scans){ .memory = &look->memory,
					   .most_links = MOST_LINKS,
					   .most_ends = SNAP_MAX_FILE_ENDS };
	look->scans.list = snap_region_new_array(region, look->scan_count + 1, struct snap_scan);
	look->asked = snap_region_new_array(region, count, struct asked);
	if (!look->scans.list || !look->asked ||
	    !snap_reserve_array(looks->asked, looks->asked_capacity, count))
		return false;
	(void)list_processes(looks->log, look->scans.list);
	/* The last ones are the newest. */
	for (size_t i = 0; i < count; i++)
		looks->asked[i] = looks->ends[looks->count - count + i].object;
	look->asked_count = count;
	return true;
}

static struct stacksnap_error *begin_look(struct snap_end_looks *looks)
{
	struct snap_procfs procfs = { .root_fd = -1 };
	struct snap_end_look *look;
	struct stacksnap_error *err;
	struct snap_region region;
	pid_t pid;

	err = snap_shared_scratch_create(MEMORY, &region);
	if (err)
		return err;
	look = (void *)region.next;
	region.next += (sizeof(*look) + 63) & ~(size_t)63;
	look->end = region.end;
	look->memory.region = region;
	look->memory.root_fd = look->pidfd = -1;
	looks->look = look;
	look->begin_ns = snap_clock_ns(CLOCK_MONOTONIC);
	err = snap_procfs_open(NULL, &procfs);
	if (err)
		return err;
	look->memory.root_fd = procfs.root_fd;
	if (!fill_look(looks, look))
		return snap_error_no_memory();
	err = snap_spawn(0, "snap-ends", run_look, look, &pid, &look->pidfd);
	if (!err)
		keep_ends(looks, is_waited_with);
	return err;
}

static struct stacksnap_error *take_found(struct snap_end_looks *looks)
{
	const struct snap_end_look *look = looks->look;
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < look->asked_count && look->took_ns && !err; i++)
		if (looks->asked[i] < looks->log->object_count)
			err = snap_log_hold_ends(looks->log, looks->asked[i], look->asked[i].pids,
						 look->asked[i].count);
	return err;
}

/* What is under way has ended, or takes too long; else nothing. */
static struct stacksnap_error *finish_look(struct snap_end_looks *looks)
{
	struct stacksnap_error *err = NULL;
	bool has_ended = snap_spawn_has_ended(looks->look->pidfd, 0);
	int64_t now = snap_clock_ns(CLOCK_MONOTONIC), took = now - looks->look->begin_ns;

	if (!has_ended && took < PATIENCE_SECONDS * SNAP_NS_PER_S)
		return NULL;
	if (has_ended) {
		err = take_found(looks);
		if (looks->look->took_ns)
			took = looks->look->took_ns;
	}
	took = (took + FORK_NS) * SHARE;
	/* The first ones come before it is known which sockets have which ends. */
	if (took < LEAST_NS || looks->taken++ < EARLY)
		took = LEAST_NS;
	looks->next_ns = now + took;
	end_look(looks);
	return err;
}

/* Without them a recording goes on. */
static void try_look(struct snap_end_looks *looks)
{
	struct stacksnap_error *err = begin_look(looks);

	if (!err)
		return;
	snap_error_destroy(err);
	looks->failed = true;
	looks->count = 0;
	if (looks->look)
		end_look(looks);
}

struct stacksnap_error *snap_end_looks_work(struct snap_end_looks *looks)
{
	struct stacksnap_error *err = looks->look ? finish_look(looks) : NULL;

	if (!err && !looks->look && !looks->failed && looks->count &&
	    snap_clock_ns(CLOCK_MONOTONIC) >= looks->next_ns)
		try_look(looks);
	return err;
}
