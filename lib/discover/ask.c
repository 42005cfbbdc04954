/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a process can make sleep: the bytes of its arguments lie in its memory, and a question about
 * its files is answered by whoever serves them. So a worker asks, a list of processes at a time
 * (base/workers.h); who does not answer in time is known by that. It asks for stat, too, which
 * waits for an exec since Linux 6.18. What discovery reads by itself comes after such an answer.
 *
 * Answers go to shared memory that is used in turns: a worker that was given up may still write to
 * what it was given.
 */
#include "base/clock.h"
#include "base/shared_memory.h"
#include "base/workers.h"
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
	MOST_RECORDS = 2 * SNAP_MAX_PROCESSES,
	TURNS = 2,
	TEXTS = 16 << 20,     /* bytes of all arguments of a list */
	SHARE = 256,          /* one process may have such a part of what is left … */
	LEAST_ARGS = 1 << 10, /* … or so many bytes */
	PATIENCE_NS = SNAP_ASK_PATIENCE_MS * 1000000,
	EACH_NS = 1000000,                 /* what one costs at most where all respond */
	MOST_LEFT = SNAP_WORKERS_MOST / 2, /* workers behind, of one that is lent */
};

/* One process. */
struct record {
	pid_t pid;
	/* the answer */
	uint32_t stage;     /* enum snap_ask_stage */
	uint32_t is_called; /* its program's file has a name that ends in " (deleted)" */
	int32_t status;     /* of the arguments: their size, or a negative errno; of the stat */
	char *args;
	struct snap_stat stat;
};

/* Seen by workers, too. */
struct shared {
	size_t first; /* record of the list */
	struct snap_region texts;
	uint8_t marks[MOST_RECORDS];
	struct record records[MOST_RECORDS];
	uint8_t memory[TURNS][TEXTS];
};

struct snap_asker {
	struct snap_procfs procfs; /* a descriptor of our own */
	struct snap_workers pool;
	struct shared *shared;
	char *buffer; /* each worker has a copy */
	size_t count; /* of the list */
	unsigned turn;
	uint32_t patience;       /* percent */
	struct snap_region room; /* to be lent */
	uint8_t *room_base;      /* NULL: there is none */
};

/* ---- in a worker ---- */

static void begin_stage(struct record *record, enum snap_ask_stage stage)
{
	__atomic_store_n(&record->stage, stage, __ATOMIC_RELAXED);
}

/* As far as is known here, without a question to the file system: then nobody need be asked. */
static bool has_no_name(int process_fd)
{
	struct statx status;

	return statx(process_fd, "exe", AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_NLINK,
		     &status) == 0 &&
	       status.stx_mask & STATX_NLINK && status.stx_nlink == 0;
}

/* A file may truly be called "x (deleted)": then it is found under that name. */
static bool is_called(int process_fd, const char *path)
{
	_cleanup_fd_ int root_fd = openat(process_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat program, named;

	if (root_fd < 0 || fstatat(process_fd, "exe", &program, 0) ||
	    fstatat(root_fd, path + 1, &named, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
		return false;
	return program.st_dev == named.st_dev && program.st_ino == named.st_ino;
}

static void ask_program(struct record *record, int process_fd)
{
	char path[SNAP_MAX_PATH + 16];
	ssize_t length = snap_procfs_link(process_fd, "exe", path, sizeof(path));
	size_t cut = length > 0 ? (size_t)length : 0;

	if (!cut || !snap_cut_deleted(path, &cut) || has_no_name(process_fd))
		return;
	begin_stage(record, SNAP_ASK_PROGRAM);
	record->is_called = is_called(process_fd, path);
}

static int32_t read_arguments(const struct snap_asker *asker, struct record *record, int process_fd)
{
	struct snap_region *texts = &asker->shared->texts;
	size_t most = snap_region_room(texts) / SHARE;
	ssize_t length;

	if (most > SNAP_MAX_ARGS)
		most = SNAP_MAX_ARGS;
	if (most < LEAST_ARGS)
		most = LEAST_ARGS;
	length = snap_procfs_read(process_fd, "cmdline", asker->buffer, most);
	if (length > 0)
		record->args = snap_region_text(texts, asker->buffer, (size_t)length);
	return length > 0 && !record->args ? -ENOMEM : (int32_t)length;
}

/* A leader that has exited tells nothing any more; a thread that it left behind does. */
static void ask_process(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];
	_cleanup_fd_ int fd = -1, survivor_fd = -1;
	char state;

	begin_stage(record, SNAP_ASK_ARGUMENTS);
	fd = snap_procfs_open_process(&asker->procfs, record->pid);
	record->status = fd < 0 ? fd : read_arguments(asker, record, fd);
	if (record->status == 0)
		survivor_fd = snap_procfs_open_survivor(&asker->procfs, fd, &state);
	if (survivor_fd >= 0)
		record->status = read_arguments(asker, record, survivor_fd);
	if (fd >= 0)
		ask_program(record, survivor_fd < 0 ? fd : survivor_fd);
}

/* Since Linux 6.18 stat waits for an exec, which waits for whoever serves the files it closes. */
static void ask_stat(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];

	begin_stage(record, SNAP_ASK_STAT);
	record->status = snap_procfs_task_stat(asker->procfs.root_fd, record->pid, &record->stat);
}

/* ---- who asks ---- */

void snap_asker_begin(struct snap_asker *asker, size_t most)
{
	struct shared *shared = asker->shared;
	uint8_t *texts;

	shared->first += asker->count;
	if (shared->first + most > MOST_RECORDS)
		shared->first = 0;
	asker->count = 0;
	/* What the last list left is of no use any more, and may be large. */
	texts = shared->memory[asker->turn % TURNS];
	madvise(texts, TEXTS, MADV_REMOVE);
	texts = shared->memory[++asker->turn % TURNS];
	shared->texts = (struct snap_region){ texts, texts + TEXTS };
}

void snap_asker_add(struct snap_asker *asker, pid_t pid)
{
	size_t index = asker->shared->first + asker->count++;

	asker->shared->records[index] = (struct record){ .pid = pid };
	asker->shared->marks[index] = SNAP_ITEM_OPEN;
}

static void run_list(struct snap_asker *asker, void (*run)(void *context, uint32_t item),
		     int64_t most_ns, int64_t until_ns)
{
	int64_t latest = snap_clock_ns(CLOCK_MONOTONIC) + most_ns + (int64_t)asker->count * EACH_NS;
	const struct snap_work work = {
		.run = run,
		.context = asker,
		.count = (uint32_t)asker->count,
		.marks = asker->shared->marks + asker->shared->first,
		.patience_ns = PATIENCE_NS,
		.asleep_ns = (int64_t)PATIENCE_NS * asker->patience / 100,
		.until_ns = until_ns && until_ns < latest ? until_ns : latest,
	};

	snap_workers_run(&asker->pool, &work);
}

void snap_asker_run(struct snap_asker *asker, int64_t most_ns, int64_t until_ns)
{
	run_list(asker, ask_process, most_ns, until_ns);
}

void snap_asker_run_stats(struct snap_asker *asker, int64_t most_ns, int64_t until_ns)
{
	run_list(asker, ask_stat, most_ns, until_ns);
}

struct snap_answer snap_asker_answer(const struct snap_asker *asker, size_t index)
{
	size_t at = asker->shared->first + index;
	const struct record *record = &asker->shared->records[at];

	if (asker->shared->marks[at] == SNAP_ITEM_DONE)
		return (struct snap_answer){ .kind = SNAP_ANSWER_GIVEN,
					     .exe_called_so = record->is_called,
					     .args = record->args,
					     .args_size = record->status,
					     .stat = record->stat };
	return (struct snap_answer){ .kind = record->stage ? SNAP_ANSWER_LATE
							   : SNAP_ANSWER_NOT_ASKED,
				     .stage = (enum snap_ask_stage)record->stage };
}

void snap_asker_set_patience(struct snap_asker *asker, uint32_t percent)
{
	asker->patience = percent;
}

int snap_asker_patience_ms(const struct snap_asker *asker)
{
	return asker ? SNAP_ASK_PATIENCE_MS * (int)asker->patience / 100 : SNAP_ASK_PATIENCE_MS;
}

bool snap_asker_prepare(struct snap_asker *asker, bool may_lend)
{
	/* Workers see what was mapped when they were made; without room nothing is lent. */
	if (may_lend && !asker->room_base &&
	    !snap_error_ignore(snap_shared_scratch_create(SNAP_ASKER_ROOM, &asker->room)))
		asker->room_base = asker->room.next;
	return snap_workers_prepare(&asker->pool);
}

bool snap_asker_lend(struct snap_asker *asker, struct snap_asker_loan *ret)
{
	/* Where processes have held so many already, the rest would soon be used up. */
	if (!asker->room.next || snap_workers_left(&asker->pool) > MOST_LEFT)
		return false;
	*ret = (struct snap_asker_loan){ .pool = &asker->pool,
					 .root_fd = asker->procfs.root_fd,
					 .room = asker->room };
	asker->room = (struct snap_region){ NULL, NULL };
	return true;
}

static void release_asker(struct snap_asker *asker)
{
	snap_workers_deinit(&asker->pool);
	snap_procfs_close(&asker->procfs);
	if (asker->shared)
		munmap(asker->shared, sizeof(*asker->shared));
	if (asker->room_base)
		munmap(asker->room_base, SNAP_ASKER_ROOM);
	free(asker->buffer);
	free(asker);
}

void snap_asker_destroy(struct snap_asker *asker)
{
	if (asker)
		release_asker(asker);
}

static struct stacksnap_error *make_asker(struct snap_asker *asker,
					  const struct snap_procfs *procfs, unsigned flags)
{
	void *memory;
	int error;

	asker->patience = 100;
	asker->buffer = malloc(SNAP_MAX_ARGS);
	if (!asker->buffer)
		return snap_error_no_memory();
	memory = mmap(NULL, sizeof(*asker->shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return snap_error_os(errno, "cannot share memory with another process");
	asker->shared = memory;
	asker->procfs = (struct snap_procfs){
		.root_fd = fcntl(procfs->root_fd, F_DUPFD_CLOEXEC, 0),
		.live = procfs->live,
	};
	if (asker->procfs.root_fd < 0)
		return snap_error_os(errno, "cannot read processes");
	/* From here on it is copied: what changes is in shared memory. */
	error = snap_workers_init(&asker->pool, 0, asker->procfs.root_fd, flags);
	return error ? snap_error_os(error, "cannot create a process") : NULL;
}

struct stacksnap_error *snap_asker_new_on(const struct snap_procfs *procfs, unsigned flags,
					  struct snap_asker **ret)
{
	struct snap_asker *asker = calloc(1, sizeof(*asker));
	struct stacksnap_error *err;

	if (!asker)
		return snap_error_no_memory();
	asker->procfs.root_fd = -1;
	err = make_asker(asker, procfs, flags);
	if (err)
		release_asker(asker);
	else
		*ret = asker;
	return err;
}

struct stacksnap_error *snap_asker_new(unsigned flags, struct snap_asker **ret)
{
	_cleanup_(snap_procfs_close) struct snap_procfs procfs = { .root_fd = -1 };
	struct stacksnap_error *err = snap_procfs_open(NULL, &procfs);

	return err ? err : snap_asker_new_on(&procfs, flags, ret);
}
