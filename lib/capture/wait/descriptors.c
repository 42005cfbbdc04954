/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What descriptors lead to, by their link, by what the kernel says of the open file behind it, and
 * by fdinfo. The open file is asked for its type without a question to its file system; it is never
 * opened, which would add an end to a pipe, and its path is never looked up.
 */
#include "base/text.h"
#include "capture/wait/resolver.h"
#include "proc/wait/fdinfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	INFO_TEXT = 16384,
	MOST_INFO = 8 << 20, /* bytes of one fdinfo: a line a watch */
	MOST_MOUNTS = 8 << 20,
};

/* One descriptor, and what is found out of it. */
struct look {
	size_t process; /* in capture->processes */
	pid_t pid;
	int32_t number;
	uint32_t uses;
	bool done;
	int32_t status;                   /* 0 or a negative errno */
	struct snap_descriptor found;     /* link in shared memory */
	struct snap_epoll_watch *watched; /* in shared memory */
	size_t watched_count;
	uint64_t own_inode; /* an epoll's */
};

struct looks {
	struct snap_wait_memory *memory;
	struct look *list;
	size_t count;
};

/* One process: whether it is still that one, and where its sockets live. */
struct identity {
	pid_t pid;
	int32_t status;
	uint64_t start_ticks, namespace;
};

struct identities {
	const struct snap_wait_memory *memory;
	struct identity *list;
};

/* ---- in a worker ---- */

static int read_descriptor_link(const struct looks *looks, struct look *look, const char *name,
				size_t *length_ret)
{
	char text[SNAP_MAX_LINK + 1];
	ssize_t length = snap_procfs_link(looks->memory->root_fd, name, text, sizeof(text));
	char *kept;

	if (length < 0)
		return (int)length;
	kept = snap_region_text(&looks->memory->region, text, (size_t)length);
	if (!kept)
		return -ENOMEM;
	look->found.link = kept;
	*length_ret = (size_t)length;
	return 0;
}

/* Devices that are terminals: Documentation/admin-guide/devices.txt of Linux. */
static bool is_tty(const struct statx *status)
{
	unsigned number = status->stx_rdev_major;

	return S_ISCHR(status->stx_mode) &&
	       (number == 4 || number == 5 || (number >= 136 && number <= 143) || number == 166 ||
		number == 188 || number == 204);
}

/* "/memfd:name (deleted)"; a file of this name has one. */
static bool is_memfd(const struct statx *status, const char *link)
{
	static const char prefix[] = "/memfd:";

	return S_ISREG(status->stx_mode) && status->stx_nlink == 0 &&
	       snap_begins_with(link, prefix);
}

/* What a path leads to; and whether what is called a pipe or a socket is one. */
static void ask_type(const struct looks *looks, struct look *look, const char *name)
{
	struct snap_descriptor *found = &look->found;
	struct statx status;
	bool known = statx(looks->memory->root_fd, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
			   STATX_TYPE | STATX_INO | STATX_NLINK, &status) == 0;

	if (found->kind == SNAP_DESCRIPTOR_PIPE || found->kind == SNAP_DESCRIPTOR_SOCKET) {
		bool is_pipe = found->kind == SNAP_DESCRIPTOR_PIPE;

		if (!known || status.stx_ino != found->inode ||
		    !(is_pipe ? S_ISFIFO(status.stx_mode) : S_ISSOCK(status.stx_mode)))
			*found = (struct snap_descriptor){ .number = found->number,
							   .link = found->link,
							   .remaining_ns = -1 };
		return;
	}
	if (!known)
		return;
	found->inode = status.stx_ino;
	found->dev_major = status.stx_dev_major;
	found->dev_minor = status.stx_dev_minor;
	if (S_ISFIFO(status.stx_mode))
		found->kind = SNAP_DESCRIPTOR_FIFO;
	else if (is_tty(&status))
		found->kind = SNAP_DESCRIPTOR_TTY;
	else if (is_memfd(&status, found->link))
		found->kind = SNAP_DESCRIPTOR_MEMFD;
}

/* Its permissions say which ends of the file the descriptor is. */
static void ask_ends(const struct looks *looks, struct look *look, const char *name)
{
	struct stat status;

	if (fstatat(looks->memory->root_fd, name, &status, AT_SYMLINK_NOFOLLOW))
		return;
	look->found.readable = status.st_mode & S_IRUSR;
	look->found.writable = status.st_mode & S_IWUSR;
}

static void keep_watched(const struct looks *looks, struct look *look,
			 const struct snap_fdinfo *info)
{
	size_t bytes = info->watched_count * sizeof(*info->watched);

	look->own_inode = info->inode;
	if (!info->watched_count)
		return;
	look->watched = snap_region_alloc(&looks->memory->region, bytes);
	if (!look->watched)
		return;
	memcpy(look->watched, info->watched, bytes);
	look->watched_count = info->watched_count;
}

static void keep_info(const struct looks *looks, struct look *look, const struct snap_fdinfo *info)
{
	struct snap_descriptor *found = &look->found;

	switch (found->kind) {
	case SNAP_DESCRIPTOR_EVENTFD:
		found->id = info->id;
		found->count = info->count;
		break;
	case SNAP_DESCRIPTOR_IO_URING:
	case SNAP_DESCRIPTOR_USERFAULTFD:
		found->count = info->count;
		break;
	case SNAP_DESCRIPTOR_TIMERFD:
		found->remaining_ns = info->remaining_ns;
		break;
	case SNAP_DESCRIPTOR_SIGNALFD:
		found->signals = info->signals;
		break;
	case SNAP_DESCRIPTOR_PIDFD:
		found->pid = info->pid;
		break;
	case SNAP_DESCRIPTOR_INOTIFY:
	case SNAP_DESCRIPTOR_FANOTIFY:
	case SNAP_DESCRIPTOR_EPOLL:
		found->watches = info->watches;
		found->watches_cut = info->watches_cut;
		if (found->kind == SNAP_DESCRIPTOR_EPOLL)
			keep_watched(looks, look, info);
		break;
	default:
		/* Those of locks are superblocks' inodes, as in the lines of locks. */
		if (info->has_inode)
			found->inode = info->inode;
		break;
	}
}

/*
 * The device of a mount, as lines of locks have it: stat(2) has another one on btrfs and overlayfs.
 * A mount that the process does not see leaves the latter.
 */
static void ask_mount(const struct looks *looks, struct look *look, uint64_t wanted)
{
	char name[SNAP_WAIT_NAME], text[INFO_TEXT], *line;
	uint32_t major_number, minor_number;
	_cleanup_fd_ int fd = -1;
	struct snap_lines lines;
	uint64_t mount;
	size_t length;

	snprintf(name, sizeof(name), "%d/mountinfo", (int)look->pid);
	fd = snap_procfs_open_file(looks->memory->root_fd, name);
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_MOUNTS;
	while (snap_lines_next(&lines, &line, &length) > 0) {
		if (!snap_parse_mount(line, length, &mount, &major_number, &minor_number) ||
		    mount != wanted)
			continue;
		look->found.dev_major = major_number;
		look->found.dev_minor = minor_number;
		return;
	}
}

static void ask_info(const struct looks *looks, struct look *look)
{
	struct snap_epoll_watch watched[SNAP_MAX_WATCHED];
	char name[SNAP_WAIT_NAME], text[INFO_TEXT], *line;
	_cleanup_fd_ int fd = -1;
	struct snap_fdinfo info;
	struct snap_lines lines;
	size_t length;

	snprintf(name, sizeof(name), "%d/fdinfo/%d", (int)look->pid, (int)look->number);
	fd = snap_procfs_open_file(looks->memory->root_fd, name);
	if (fd < 0)
		return;
	snap_fdinfo_init(&info, watched, SNAP_MAX_WATCHED);
	snap_lines_init(&lines, fd, text, sizeof(text));
	lines.most = MOST_INFO;
	while (snap_lines_next(&lines, &line, &length) > 0)
		snap_parse_fdinfo_line(line, length, &info);
	info.watches_cut |= lines.limited;
	keep_info(looks, look, &info);
	if (look->uses & SNAP_WAIT_USE_LOCK)
		ask_mount(looks, look, info.mount);
}

static bool has_info(const struct look *look)
{
	switch (look->found.kind) {
	case SNAP_DESCRIPTOR_EVENTFD:
	case SNAP_DESCRIPTOR_EPOLL:
	case SNAP_DESCRIPTOR_TIMERFD:
	case SNAP_DESCRIPTOR_SIGNALFD:
	case SNAP_DESCRIPTOR_INOTIFY:
	case SNAP_DESCRIPTOR_FANOTIFY:
	case SNAP_DESCRIPTOR_PIDFD:
	case SNAP_DESCRIPTOR_IO_URING:
	case SNAP_DESCRIPTOR_USERFAULTFD:
		return true;
	default:
		return look->uses & SNAP_WAIT_USE_LOCK;
	}
}

/* Of what an epoll watches the kind alone counts, and what tells two of a kind apart. */
static void look_at_descriptor(void *context, uint32_t item)
{
	const struct looks *looks = context;
	struct look *look = &looks->list[item];
	bool is_watched = look->uses == SNAP_WAIT_USE_WATCH, is_path;
	char name[SNAP_WAIT_NAME];
	size_t length = 0;

	look->found = (struct snap_descriptor){ .number = look->number, .remaining_ns = -1 };
	snprintf(name, sizeof(name), "%d/fd/%d", (int)look->pid, (int)look->number);
	look->status = read_descriptor_link(looks, look, name, &length);
	if (look->status)
		return;
	look->found.kind = snap_parse_descriptor_link(look->found.link, length, &look->found.inode);
	is_path = look->found.kind == SNAP_DESCRIPTOR_FILE;
	if (is_path || (!is_watched && look->found.inode))
		ask_type(looks, look, name);
	if (look->found.kind == SNAP_DESCRIPTOR_FILE && look->uses & SNAP_WAIT_USE_MQUEUE)
		look->found.kind = SNAP_DESCRIPTOR_MQUEUE;
	if (is_watched)
		return;
	look->found.readable = look->found.writable = true;
	if (is_path || look->found.kind == SNAP_DESCRIPTOR_PIPE)
		ask_ends(looks, look, name);
	if (has_info(look))
		ask_info(looks, look);
}

/* Last: a pid that was given to another process meanwhile has another start. */
static void ask_identity(void *context, uint32_t item)
{
	const struct identities *identities = context;
	struct identity *identity = &identities->list[item];
	int root_fd = identities->memory->root_fd;
	char name[SNAP_WAIT_NAME], text[SNAP_WAIT_NAME];
	struct snap_stat stat;
	uint64_t inode;
	ssize_t length;

	snprintf(name, sizeof(name), "%d/ns/net", (int)identity->pid);
	length = snap_procfs_link(root_fd, name, text, sizeof(text));
	if (length > 0 && snap_parse_namespace(text, (size_t)length, &inode))
		identity->namespace = inode;
	identity->status = snap_procfs_task_stat(root_fd, identity->pid, &stat);
	identity->start_ticks = identity->status ? 0 : stat.start_ticks;
}

/* ---- the asking side ---- */

static void note_failure(struct snap_wait_resolver *resolver, int status)
{
	if (status == -EACCES || status == -EPERM)
		resolver->facts->lacks |= SNAP_LACK_RIGHTS;
	else if (status == -ENOMEM)
		resolver->facts->lacks |= SNAP_LACK_CUT;
}

static struct stacksnap_error *keep_descriptor(struct snap_wait_resolver *resolver,
					       const struct look *look)
{
	struct snap_process *process = snap_wait_process(resolver, look->process);
	struct snap_descriptor *kept = &process->descriptors[process->descriptor_count];

	*kept = look->found;
	kept->link = snap_arena_strdup(&resolver->capture->arena, look->found.link);
	SNAP_TRY(snap_no_memory_unless(kept->link));
	process->descriptor_count++;
	return NULL;
}

/* Both stand in the order of process and number: < 0, 0, > 0. */
static int compare_look(const struct look *look, const struct snap_wait_want *want)
{
	if (look->process != want->process)
		return look->process < want->process ? -1 : 1;
	return (look->number > want->number) - (look->number < want->number);
}

/* A list of questions: those wants that `old`, in the same order, has not; NULL: no memory. */
static struct looks *make_looks(struct snap_wait_resolver *resolver, const struct looks *old)
{
	struct looks *looks = snap_wait_asker_new_array(resolver->asker, 1, struct looks);
	size_t at = 0;

	if (!looks)
		return NULL;
	looks->memory = resolver->asker->memory;
	looks->list = snap_wait_asker_new_array(resolver->asker, resolver->want_count, struct look);
	for (size_t i = 0; looks->list && i < resolver->want_count; i++) {
		const struct snap_wait_want *want = &resolver->wants[i];

		while (old && at < old->count && compare_look(&old->list[at], want) < 0)
			at++;
		if (old && at < old->count && compare_look(&old->list[at], want) == 0)
			continue;
		looks->list[looks->count++] = (struct look){
			.process = want->process,
			.pid = snap_wait_process(resolver, want->process)->pid,
			.number = want->number,
			.uses = want->uses,
		};
	}
	return looks->list ? looks : NULL;
}

static void run_looks(struct snap_wait_resolver *resolver, struct looks *looks)
{
	const uint8_t *marks;

	if (!looks->count)
		return;
	marks = snap_wait_asker_run(resolver->asker, look_at_descriptor, looks, looks->count,
				    resolver->until_ns);
	/* One that was given up may still be written to. */
	for (size_t i = 0; i < looks->count; i++)
		looks->list[i].done = marks && marks[i] == SNAP_ITEM_DONE;
}

static struct stacksnap_error *want_watched(struct snap_wait_resolver *resolver,
					    const struct looks *looks)
{
	struct stacksnap_error *err = NULL;

	for (size_t i = 0; i < looks->count; i++) {
		const struct look *look = &looks->list[i];

		for (size_t k = 0; look->done && k < look->watched_count && !err; k++)
			err = snap_wait_add_want(resolver, look->process, look->watched[k].number,
						 SNAP_WAIT_USE_WATCH);
		if (err)
			return err;
	}
	snap_wait_settle_wants(resolver);
	return NULL;
}

/* The next of two lists in the same order; NULL: both are over. */
static const struct look *next_look(const struct looks *const lists[2], size_t at[2])
{
	const struct look *first = at[0] < lists[0]->count ? &lists[0]->list[at[0]] : NULL;
	const struct look *second = at[1] < lists[1]->count ? &lists[1]->list[at[1]] : NULL;
	bool is_second;

	if (!first && !second)
		return NULL;
	is_second =
		!first ||
		(second && (second->process < first->process ||
			    (second->process == first->process && second->number < first->number)));
	at[is_second]++;
	return is_second ? second : first;
}

/* Makes process->descriptors of all answers. */
static struct stacksnap_error *keep_looks(struct snap_wait_resolver *resolver,
					  const struct looks *const lists[2])
{
	const struct look *look;
	size_t at[2] = { 0, 0 };

	while ((look = next_look(lists, at)))
		snap_wait_process(resolver, look->process)->descriptor_count++;
	at[0] = at[1] = 0;
	while ((look = next_look(lists, at))) {
		struct snap_process *process = snap_wait_process(resolver, look->process);
		struct stacksnap_error *err = NULL;

		if (!process->descriptors) {
			process->descriptors = snap_arena_new_array(&resolver->capture->arena,
								    process->descriptor_count,
								    struct snap_descriptor);
			process->descriptor_count = 0;
		}
		SNAP_TRY(snap_no_memory_unless(process->descriptors));
		if (look->done && look->status == 0)
			err = keep_descriptor(resolver, look);
		else if (look->done)
			note_failure(resolver, look->status);
		if (err)
			return err;
	}
	return NULL;
}

/* The number was given to another file since it was added, or belongs to another process. */
static bool is_still(const struct look *look, const struct snap_epoll_watch *watch,
		     const struct snap_descriptor *descriptor)
{
	switch (descriptor->kind) {
	case SNAP_DESCRIPTOR_EVENTFD:
	case SNAP_DESCRIPTOR_TIMERFD:
	case SNAP_DESCRIPTOR_SIGNALFD:
	case SNAP_DESCRIPTOR_EPOLL:
		/* All of these share one inode with the epoll itself. */
		return !watch->inode || watch->inode == look->own_inode;
	default:
		return !watch->inode || !descriptor->inode || watch->inode == descriptor->inode;
	}
}

static struct stacksnap_error *keep_watches(struct snap_wait_resolver *resolver,
					    const struct look *look)
{
	struct snap_process *process = snap_wait_process(resolver, look->process);
	struct snap_descriptor *epoll = snap_wait_find_descriptor(process, look->number);

	if (!epoll || !look->watched_count)
		return NULL;
	epoll->watched =
		snap_arena_new_array(&resolver->capture->arena, look->watched_count, int32_t);
	SNAP_TRY(snap_no_memory_unless(epoll->watched));
	for (size_t i = 0; i < look->watched_count; i++) {
		const struct snap_epoll_watch *watch = &look->watched[i];
		const struct snap_descriptor *descriptor =
			snap_wait_find_descriptor(process, watch->number);

		if (descriptor && is_still(look, watch, descriptor))
			epoll->watched[epoll->watched_count++] = watch->number;
	}
	return NULL;
}

static void forget_process(struct snap_wait_resolver *resolver, size_t index)
{
	struct snap_process *process = snap_wait_process(resolver, index);

	process->descriptors = NULL;
	process->descriptor_count = 0;
	for (size_t i = 0; i < process->thread_count; i++)
		process->threads[i].call_confirmed = false;
}

struct stacksnap_error *snap_wait_identify(struct snap_wait_resolver *resolver)
{
	struct identities *identities =
		snap_wait_asker_new_array(resolver->asker, 1, struct identities);
	_cleanup_free_ size_t *processes = calloc(resolver->caller_count + 1, sizeof(size_t));
	const uint8_t *marks;
	size_t count = 0;

	SNAP_TRY(snap_no_memory_unless(identities && processes));
	identities->memory = resolver->asker->memory;
	for (size_t i = 0; i < resolver->caller_count; i++)
		if (!count || processes[count - 1] != resolver->callers[i].process)
			processes[count++] = resolver->callers[i].process;
	identities->list = snap_wait_asker_new_array(resolver->asker, count, struct identity);
	SNAP_TRY(snap_no_memory_unless(identities->list));
	for (size_t i = 0; i < count; i++)
		identities->list[i].pid = snap_wait_process(resolver, processes[i])->pid;
	marks = snap_wait_asker_run(resolver->asker, ask_identity, identities, count,
				    resolver->until_ns);
	for (size_t i = 0; i < count; i++) {
		struct snap_process *process = snap_wait_process(resolver, processes[i]);
		const struct identity *identity = &identities->list[i];

		if (!marks || marks[i] != SNAP_ITEM_DONE ||
		    identity->start_ticks != process->start_ticks)
			forget_process(resolver, processes[i]);
		else
			process->net_namespace = identity->namespace;
	}
	return NULL;
}

struct stacksnap_error *snap_wait_ask_descriptors(struct snap_wait_resolver *resolver)
{
	struct looks *looks = make_looks(resolver, NULL), *watched = NULL;
	struct stacksnap_error *err = NULL;

	SNAP_TRY(snap_no_memory_unless(looks));
	run_looks(resolver, looks);
	SNAP_TRY(want_watched(resolver, looks));
	watched = make_looks(resolver, looks);
	SNAP_TRY(snap_no_memory_unless(watched));
	run_looks(resolver, watched);
	err = keep_looks(resolver, (const struct looks *const[2]){ looks, watched });
	for (size_t i = 0; i < looks->count && !err; i++)
		if (looks->list[i].done)
			err = keep_watches(resolver, &looks->list[i]);
	return err;
}
