/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ask: makes the reads that a process can block. Its arguments are in its memory, and the server of
 * a file system answers questions about its files. Since Linux 6.18 also an exec, which may wait
 * for the server of the files that it closes, blocks many calls: reading stat, following or reading
 * a link of the process (exe, root, namespaces), opening its memory, mappings or calls, and
 * pidfd_getfd(2). So a worker asks a list of processes at a time (base/workers.h), and hands over
 * what it has opened. A process that does not answer in time is marked. Discovery itself reads only
 * what a process cannot block: status, comm, control groups, maps of users, lists of threads, lstat
 * of links; and it opens directories and pidfds.
 *
 * Answers go to two shared memories in turn, as a worker that was given up may still write to the
 * last one.
 */
#include "base/clock.h"
#include "base/shared_memory.h"
#include "base/workers.h"
#include "discover/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
	MOST_RECORDS = 2 * SNAP_MAX_PROCESSES,
	TURNS = 2,
	TEXTS = 48 << 20,     /* bytes of all arguments and paths of a list */
	SHARE = 256,          /* one process may use such a part of the rest … */
	LEAST_ARGS = 1 << 10, /* … or so many bytes */
	PATIENCE_NS = SNAP_ASK_PATIENCE_MS * 1000000,
	ALONE_NS = 1000000000,             /* for a process that is asked alone, worker included */
	EACH_NS = 1000000,                 /* the most that one costs if all respond */
	MOST_LEFT = SNAP_WORKERS_MOST / 2, /* workers left behind, of a pool that is lent */
};

/* One process. */
struct record {
	pid_t pid;
	/* the answer */
	uint32_t stage;     /* enum snap_ask_stage */
	uint32_t is_called; /* its program's file has a name that ends in " (deleted)" */
	int32_t status; /* the size of the arguments, or a negative errno, also that of the stat */
	int32_t exe_size; /* the same of its program's path */
	bool wants_files; /* input */
	bool is_linked;   /* exe and exe_size are set; more may follow */
	char *args, *exe;
	struct snap_stat stat;
};

/* Seen by workers, too. */
struct shared {
	uint8_t memory[TURNS][TEXTS]; /* at its beginning, so each begins at a page */
	size_t first;                 /* record of the list */
	uint32_t list;                /* the number of the list */
	struct snap_region texts;
	uint8_t marks[MOST_RECORDS];
	struct record records[MOST_RECORDS];
};

/* Handed over by a worker; -1: not. */
struct files {
	int root_fd, exe_fd;
};

/* The tag of files that a worker hands over: the list, the process, and which files. */
enum {
	TAG_ROOT = 1 << 0,
	TAG_EXE = 1 << 1,
	TAG_INDEX = 2, /* number of the bits before */
	TAG_LIST = 32,
};

struct snap_asker {
	struct snap_procfs procfs; /* a descriptor of our own */
	struct snap_workers pool;
	struct shared *shared;
	char *buffer; /* each worker has a copy */
	size_t count; /* of the list */
	unsigned turn;
	struct files files[SNAP_ASK_FILES]; /* of the last list that asked for files */
	uint32_t patience;                  /* percent */
	struct snap_region room;            /* to be lent */
	uint8_t *room_base;                 /* NULL: there is none */
};

/* ---- in a worker ---- */

static void begin_stage(struct record *record, enum snap_ask_stage stage)
{
	__atomic_store_n(&record->stage, stage, __ATOMIC_RELAXED);
}

/*
 * Whether the file has no name any more, as far as is known here: then the file system need not be
 * asked.
 */
static bool has_no_name(int process_fd)
{
	struct statx status;

	return statx(process_fd, "exe", AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_NLINK,
		     &status) == 0 &&
	       status.stx_mask & STATX_NLINK && status.stx_nlink == 0;
}

/* A file may really have the name "x (deleted)": then it is found under that name. */
static bool is_link_named(int process_fd, const char *path)
{
	_cleanup_fd_ int root_fd = openat(process_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat program, named;

	if (root_fd < 0 || fstatat(process_fd, "exe", &program, 0) ||
	    fstatat(root_fd, path + 1, &named, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
		return false;
	return program.st_dev == named.st_dev && program.st_ino == named.st_ino;
}

static void ask_about_name(struct record *record, int process_fd)
{
	char path[SNAP_MAX_PATH + 16];
	size_t cut = record->exe_size > 0 ? (size_t)record->exe_size : 0;

	if (!cut)
		return;
	memcpy(path, record->exe, cut + 1);
	if (!snap_cut_deleted(path, &cut) || has_no_name(process_fd))
		return;
	begin_stage(record, SNAP_ASK_PROGRAM);
	record->is_called = is_link_named(process_fd, path);
}

static void read_program(const struct snap_asker *asker, struct record *record, int process_fd)
{
	char path[SNAP_MAX_PATH + 16];
	ssize_t length = snap_procfs_link(process_fd, "exe", path, sizeof(path));

	if (length > 0)
		record->exe = snap_region_text(&asker->shared->texts, path, (size_t)length);
	record->exe_size = length > 0 && !record->exe ? -ENOMEM : (int32_t)length;
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

/* The calls that follow may not return. */
static void set_linked(struct record *record)
{
	__atomic_store_n(&record->is_linked, true, __ATOMIC_RELEASE);
}

static void ask_living(const struct snap_asker *asker, struct record *record, int fd)
{
	_cleanup_fd_ int survivor_fd = -1;
	char state;

	read_program(asker, record, fd);
	/* A leader that has exited has no program any more; a thread that it left behind has. */
	if (snap_procfs_is_gone(record->exe_size))
		survivor_fd = snap_procfs_open_survivor(&asker->procfs, fd, &state);
	if (survivor_fd >= 0)
		read_program(asker, record, survivor_fd);
	set_linked(record);
	record->status = read_arguments(asker, record, survivor_fd < 0 ? fd : survivor_fd);
	/* Only this finds a survivor of a process that may not be read. */
	if (record->status == 0 && survivor_fd < 0)
		survivor_fd = snap_procfs_open_survivor(&asker->procfs, fd, &state);
	if (record->status == 0 && survivor_fd >= 0)
		record->status = read_arguments(asker, record, survivor_fd);
	ask_about_name(record, survivor_fd < 0 ? fd : survivor_fd);
}

static void ask_process(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];
	_cleanup_fd_ int fd = -1;

	begin_stage(record, SNAP_ASK_ARGUMENTS);
	fd = snap_procfs_open_process(&asker->procfs, record->pid);
	record->status = record->exe_size = fd < 0 ? fd : 0;
	if (fd >= 0)
		ask_living(asker, record, fd);
	else
		set_linked(record);
}

static void ask_for_program(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];
	_cleanup_fd_ int fd = -1;

	begin_stage(record, SNAP_ASK_PROGRAM);
	fd = snap_procfs_open_process(&asker->procfs, record->pid);
	if (fd >= 0)
		read_program(asker, record, fd);
	set_linked(record);
}

/* Hands over O_PATH descriptors of the two; the tag says which of them there are. */
static void hand_over_files(const struct snap_asker *asker, int from, uint64_t tag)
{
	int fds[2];
	size_t count = 0;

	fds[count] = openat(from, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	tag |= fds[count] >= 0 ? TAG_ROOT : 0;
	count += fds[count] >= 0;
	fds[count] = openat(from, "exe", O_PATH | O_CLOEXEC);
	tag |= fds[count] >= 0 ? TAG_EXE : 0;
	count += fds[count] >= 0;
	snap_workers_give(&asker->pool, tag, fds, count);
	while (count)
		close(fds[--count]);
}

/* A process in the state of a zombie may have threads that live on. */
static void ask_files(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];
	uint64_t tag = (uint64_t)asker->shared->list << TAG_LIST | (uint64_t)item << TAG_INDEX;
	_cleanup_fd_ int fd = -1, survivor_fd = -1;
	char state;

	begin_stage(record, SNAP_ASK_STAT);
	fd = snap_procfs_open_process(&asker->procfs, record->pid);
	record->status = fd < 0 ? fd : snap_procfs_stat(fd, &record->stat);
	if (record->status || !record->wants_files)
		return;
	if (snap_stat_has_left(&record->stat))
		survivor_fd = snap_procfs_open_survivor(&asker->procfs, fd, &state);
	hand_over_files(asker, survivor_fd < 0 ? fd : survivor_fd, tag);
}

/*
 * Since Linux 6.18 stat waits for an exec, which waits for the server of the files that it closes.
 */
static void ask_stat(void *context, uint32_t item)
{
	const struct snap_asker *asker = context;
	struct record *record = &asker->shared->records[asker->shared->first + item];

	begin_stage(record, SNAP_ASK_STAT);
	record->status = snap_procfs_task_stat(asker->procfs.root_fd, record->pid, &record->stat);
}

/* ---- the asking side ---- */

static void close_files(struct snap_asker *asker)
{
	for (size_t i = 0; i < SNAP_ASK_FILES; i++) {
		snap_close(&asker->files[i].root_fd);
		snap_close(&asker->files[i].exe_fd);
	}
}

void snap_asker_begin(struct snap_asker *asker, size_t most)
{
	struct shared *shared = asker->shared;
	uint8_t *texts;

	shared->first += asker->count;
	if (shared->first + most > MOST_RECORDS)
		shared->first = 0;
	asker->count = 0;
	close_files(asker);
	/* The texts of the last list are not needed any more, and may be large. */
	texts = shared->memory[asker->turn % TURNS];
	if (shared->texts.next > texts)
		madvise(texts, TEXTS, MADV_REMOVE);
	texts = shared->memory[++asker->turn % TURNS];
	shared->list = asker->turn;
	shared->texts = (struct snap_region){ texts, texts + TEXTS };
}

void snap_asker_add(struct snap_asker *asker, pid_t pid)
{
	size_t index = asker->shared->first + asker->count++;

	asker->shared->records[index] = (struct record){ .pid = pid };
	asker->shared->marks[index] = SNAP_ITEM_OPEN;
}

void snap_asker_want_files(struct snap_asker *asker)
{
	asker->shared->records[asker->shared->first + asker->count - 1].wants_files = true;
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

void snap_asker_run_programs(struct snap_asker *asker, int64_t most_ns, int64_t until_ns)
{
	run_list(asker, ask_for_program, most_ns, until_ns);
}

/* False: they are not of this list, or some are missing. */
static bool keep_files(struct snap_asker *asker, uint64_t tag, const int *fds, size_t count)
{
	size_t index = (uint32_t)tag >> TAG_INDEX;
	bool has_root = tag & TAG_ROOT, has_exe = tag & TAG_EXE;
	struct files *files = &asker->files[index % SNAP_ASK_FILES];

	if (tag >> TAG_LIST != asker->shared->list || index >= asker->count ||
	    index >= SNAP_ASK_FILES || count != (size_t)has_root + has_exe || files->root_fd >= 0 ||
	    files->exe_fd >= 0)
		return false;
	if (has_root)
		files->root_fd = *fds++;
	if (has_exe)
		files->exe_fd = *fds;
	return true;
}

void snap_asker_run_files(struct snap_asker *asker, int64_t most_ns, int64_t until_ns)
{
	int fds[SNAP_WORKERS_GIVEN];
	size_t count;
	uint64_t tag;

	run_list(asker, ask_files, most_ns, until_ns);
	while (snap_workers_take(&asker->pool, &tag, fds, &count))
		if (!keep_files(asker, tag, fds, count))
			while (count)
				close(fds[--count]);
}

void snap_asker_take_files(struct snap_asker *asker, size_t index, int *root_ret, int *exe_ret)
{
	struct files *files = &asker->files[index];

	*root_ret = snap_take_fd(&files->root_fd);
	*exe_ret = snap_take_fd(&files->exe_fd);
}

int snap_asker_stat(struct snap_asker *asker, pid_t pid, struct snap_stat *ret)
{
	struct snap_answer answer;

	snap_asker_begin(asker, 1);
	snap_asker_add(asker, pid);
	snap_asker_run_stats(asker, ALONE_NS, 0);
	answer = snap_asker_answer(asker, 0);
	if (answer.kind != SNAP_ANSWER_GIVEN)
		return -ETIMEDOUT;
	*ret = answer.stat;
	return (int)answer.args_size;
}

struct snap_answer snap_asker_answer(const struct snap_asker *asker, size_t index)
{
	size_t at = asker->shared->first + index;
	const struct record *record = &asker->shared->records[at];

	struct snap_answer answer = { .kind = record->stage ? SNAP_ANSWER_LATE
							    : SNAP_ANSWER_NOT_ASKED,
				      .stage = (enum snap_ask_stage)record->stage };

	if (__atomic_load_n(&record->is_linked, __ATOMIC_ACQUIRE)) {
		answer.exe = record->exe;
		answer.exe_size = record->exe_size;
	}
	if (asker->shared->marks[at] == SNAP_ITEM_DONE) {
		answer.kind = SNAP_ANSWER_GIVEN;
		answer.exe_called_so = record->is_called;
		answer.args = record->args;
		answer.args_size = record->status;
		answer.stat = record->stat;
	}
	return answer;
}

void snap_asker_set_patience(struct snap_asker *asker, uint32_t percent)
{
	asker->patience = percent;
}

bool snap_asker_prepare(struct snap_asker *asker, bool may_lend)
{
	/* Workers see only what was mapped when they were made; without room nothing is lent. */
	if (may_lend && !asker->room_base &&
	    !snap_error_ignore(snap_shared_scratch_create(SNAP_ASKER_ROOM, &asker->room)))
		asker->room_base = asker->room.next;
	return snap_workers_prepare(&asker->pool);
}

bool snap_asker_lend(struct snap_asker *asker, struct snap_asker_loan *ret)
{
	/* After processes have blocked so many workers, the rest would soon be used up. */
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
	close_files(asker);
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
	SNAP_TRY(snap_no_memory_unless(asker->buffer));
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
	/* Workers have a copy of the asker from here on: what changes is in shared memory. */
	error = snap_workers_init(&asker->pool, 0, asker->procfs.root_fd,
				  flags | SNAP_WORKERS_GIVE);
	return error ? snap_error_os(error, "cannot create a process") : NULL;
}

struct stacksnap_error *snap_asker_new_on(const struct snap_procfs *procfs, unsigned flags,
					  struct snap_asker **ret)
{
	struct snap_asker *asker = calloc(1, sizeof(*asker));
	struct stacksnap_error *err;

	SNAP_TRY(snap_no_memory_unless(asker));
	asker->procfs.root_fd = -1;
	for (size_t i = 0; i < SNAP_ASK_FILES; i++)
		asker->files[i] = (struct files){ -1, -1 };
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

	SNAP_TRY(snap_procfs_open(NULL, &procfs));
	return snap_asker_new_on(&procfs, flags, ret);
}
