/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The opener itself: see opener.h. It waits for file systems without a limit. It closes each file
 * before it answers, so a close that blocks is put down to that file, not to the next one.
 */
#include "base/reopen.h"
#include "files/files.h"
#include "proc/credentials.h"
#include "roles/file_opener/file_opener.h"
#include "roles/file_opener/message.h"
#include "roles/file_opener/silent.h"
#include "store/capture/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

enum { MOST_COPIED = 32 << 20 }; /* bytes of a file */

struct server {
	int channel;
	struct snap_options options; /* its own: rules for opening files */
	struct snap_arena arena;     /* of the directories */
	struct snap_capture *capture;
	struct snap_silent silent;
	struct snap_files *files; /* NULL: to be made under the options as they are now */
	int given[SNAP_FILE_OPENER_DESCRIPTOR_COUNT];
	struct snap_broker_request skipped[SNAP_FILE_OPENER_MOST_SKIPPED];
	size_t skipped_count;
	/* a capture of the described process, with one mapping */
	struct snap_capture described;
	struct snap_process process;
	struct snap_live live;
	struct snap_map map;
	struct snap_piece head;
	char path[SNAP_MAX_PATH + 1];
};

static void forget_files(struct server *server)
{
	snap_files_destroy(server->files);
	server->files = NULL;
}

static bool begin_opened_process(void *context, pid_t pid)
{
	struct server *server = context;

	return snap_silent_begin_process(&server->silent, pid);
}

static bool begin_device(void *context, dev_t device)
{
	struct server *server = context;

	return snap_silent_begin_device(&server->silent, device);
}

static bool is_unchanged(const struct snap_process *process, int process_fd)
{
	return snap_credentials_hold(process_fd, &process->credentials);
}

static struct stacksnap_error *need_files(struct server *server)
{
	const struct snap_files_watch watch = { begin_opened_process, begin_device, is_unchanged,
						server };

	if (server->files)
		return NULL;
	SNAP_TRY(snap_files_create(&server->options, server->capture, &server->files));
	snap_files_watch(server->files, &watch);
	return NULL;
}

/* ---- rules ---- */

static void set_rules(struct server *server, uint32_t perf_map)
{
	forget_files(server);
	server->options.perf_map = (enum snap_perf_map)perf_map;
	server->options.debug_dirs = NULL;
	server->options.debug_dir_count = server->options.debug_dir_capacity = 0;
}

/* If memory is used up, the directory is left out. */
static void add_directory(struct server *server, const char *path)
{
	struct snap_options *options = &server->options;
	size_t count = options->debug_dir_count;
	const char **grown = snap_arena_new_array(&server->arena, count + 1, const char *);

	forget_files(server);
	if (!grown)
		return;
	if (count)
		memcpy(grown, options->debug_dirs, count * sizeof(*grown));
	grown[count] = snap_arena_strdup(&server->arena, path);
	if (!grown[count])
		return;
	options->debug_dirs = grown;
	options->debug_dir_count = count + 1;
}

/* ---- processes ---- */

static void describe_opened_file(struct server *server,
				 const struct snap_file_opener_message *message)
{
	const struct snap_file_opener_facts *facts = &message->facts;
	struct snap_process *process = &server->process;

	forget_files(server);
	snap_live_close(&server->live);
	server->live = (struct snap_live){ .pidfd = -1,
					   .proc_fd = server->given[SNAP_FILE_OPENER_PROC],
					   .root_fd = server->given[SNAP_FILE_OPENER_ROOT],
					   .exe_fd = server->given[SNAP_FILE_OPENER_EXE],
					   .files_fd = server->given[SNAP_FILE_OPENER_FILES] };
	for (int i = SNAP_FILE_OPENER_PROC; i <= SNAP_FILE_OPENER_FILES; i++)
		server->given[i] = -1;
	strcpy(server->path, message->path);
	server->map = facts->map;
	server->map.path = server->path[0] ? server->path : NULL;
	server->head = (struct snap_piece){ .address = facts->map.start };
	*process = (struct snap_process){ .pid = facts->pid,
					  .ns_pid = facts->ns_pid,
					  .uid = facts->uid,
					  .arch = facts->arch,
					  .credentials = facts->credentials,
					  .exe = facts->is_program ? server->path : NULL,
					  .maps = &server->map,
					  .map_count = facts->has_map,
					  .pieces = &server->head,
					  .piece_count = facts->has_head };
	server->described.processes = process;
	server->described.process_count = 1;
	server->described.live = facts->is_live ? &server->live : NULL;
}

/* ---- files ---- */

static bool is_root(const struct snap_process *process)
{
	const struct snap_credentials *credentials = &process->credentials;

	return credentials->known && !credentials->is_confined && credentials->uid == 0;
}

/*
 * Whether a user's program may serve the bytes of the file: then they are read here. A file system
 * over others may have one of these below it; those of root are trusted.
 */
static bool is_served_by_a_program(int fd, const struct snap_process *process)
{
	struct statfs info;

	/* A program answers that question, too, and may fail to. */
	return fstatfs(fd, &info) != 0 || info.f_type == FUSE_SUPER_MAGIC ||
	       (info.f_type == OVERLAYFS_SUPER_MAGIC && !is_root(process));
}

static struct stacksnap_error *copy_bytes(int from, int to, size_t size)
{
	size_t done = 0;

	if (ftruncate(to, (off_t)size) < 0)
		return snap_error_os(errno, "cannot copy a file");
	while (done < size) {
		uint8_t block[1 << 15];
		size_t want = size - done < sizeof(block) ? size - done : sizeof(block);
		ssize_t n = pread(from, block, want, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return snap_error_os(errno, "cannot copy a file");
		if (n == 0)
			return NULL; /* shorter than it said */
		if (pwrite(to, block, (size_t)n, (off_t)done) != n)
			return snap_error_os(EIO, "cannot copy a file");
		done += (size_t)n;
	}
	return NULL;
}

/*
 * Replaces a file that a program serves by a copy; a file that is too large is passed on as it is.
 */
static struct stacksnap_error *copy_served(const struct server *server,
					   const struct snap_file_opener_message *message, int *fd,
					   struct snap_file_identity *identity,
					   uint32_t *copied_ret)
{
	const struct snap_process *process = &server->capture->processes[message->request.process];
	const struct snap_file_opener_answer word = { .is_on_its_way = 1 };
	_cleanup_fd_ int memory = -1;
	struct stat info;

	if (!is_served_by_a_program(*fd, process))
		return NULL;
	if (fstat(*fd, &info) < 0)
		return snap_error_os(errno, "cannot stat the file");
	if (info.st_size <= 0 || info.st_size > MOST_COPIED ||
	    (uint64_t)info.st_size > message->number)
		return NULL;
	memory = memfd_create("stacksnap-file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memory < 0)
		return snap_error_os(errno, "cannot create a file in memory");
	SNAP_TRY(snap_wire_send(server->channel, &word, sizeof(word), -1));
	SNAP_TRY(copy_bytes(*fd, memory, (size_t)info.st_size));
	*identity = (struct snap_file_identity){ true, info.st_dev, info.st_ino };
	*copied_ret = (uint32_t)info.st_size;
	snap_close(fd);
	/* The copy cannot be changed any more, and its descriptor only reads. */
	if (fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return snap_error_os(errno, "cannot copy a file");
	return snap_reopen_regular(memory, fd);
}

static struct stacksnap_error *
find_opened_file(struct server *server, const struct snap_broker_request *request, int *fd_ret)
{
	struct snap_local_broker local = { .capture = server->capture };
	struct snap_broker broker = snap_local_broker(&local);
	struct snap_broker_reply reply = SNAP_BROKER_REPLY(-1);
	struct stacksnap_error *err;

	SNAP_TRY(need_files(server));
	local.finder = snap_files_finder(server->files);
	err = broker.answer(broker.context, request, &reply);
	*fd_ret = reply.fd;
	return err ? err : snap_broker_check(reply.fd);
}

/* Opens the file and sends it straight to the parser, if there is one. */
static struct stacksnap_error *open_file(struct server *server,
					 const struct snap_file_opener_message *message,
					 uint32_t *copied_ret)
{
	const struct snap_broker_request *request = &message->request;
	struct snap_file_identity identity = { .is_copy = false };
	_cleanup_fd_ int reply = snap_take_fd(&server->given[SNAP_FILE_OPENER_REPLY]);
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err = find_opened_file(server, request, &fd);

	if (err || reply < 0)
		return err;
	return copy_served(server, message, &fd, &identity, copied_ret)
		       ?: snap_broker_send(reply, request->sequence, NULL, fd, &identity);
}

/* ---- a whole capture ---- */

/* Says which file comes next, so that the waiting process knows which file blocked this one. */
static bool begin_file(void *context, const struct snap_file_request *asked)
{
	const struct server *server = context;
	struct snap_file_opener_answer word = { .is_on_its_way = 1 };
	unsigned of_process = 0;

	word.touching.kind = asked->kind;
	word.touching.process = (uint32_t)(asked->process - server->capture->processes);
	word.touching.map = (uint32_t)asked->map;
	for (size_t i = 0; i < server->skipped_count; i++) {
		if (snap_broker_file_id(&server->skipped[i]) == snap_broker_file_id(&word.touching))
			return false;
		of_process += server->skipped[i].process == word.touching.process;
	}
	return of_process < SNAP_FILE_OPENER_MOST_OF_PROCESS &&
	       !snap_error_ignore(snap_wire_send(server->channel, &word, sizeof(word), -1));
}

static struct stacksnap_error *save(struct server *server, int fd)
{
	const struct snap_embed_watch watch = { begin_file, server };
	struct snap_file_opener_answer word = { .is_on_its_way = 1, .is_writing = 1 };

	SNAP_TRY(need_files(server));
	SNAP_TRY(snap_files_embed(server->files, server->capture, &watch));
	SNAP_TRY(snap_wire_send(server->channel, &word, sizeof(word), -1));
	return snap_capture_write(server->capture, fd);
}

/* ---- all together ---- */

static struct stacksnap_error *answer_opener_client(const struct server *server,
						    struct stacksnap_error *error, uint32_t copied)
{
	struct snap_file_opener_answer word = { .copied = copied };

	snap_wire_pack_error(error, &word.error);
	snap_error_destroy(error);
	return snap_wire_send(server->channel, &word, sizeof(word), -1);
}

/* Handles one message; an error when the other end has gone. */
static struct stacksnap_error *
take_opener_request(struct server *server, struct snap_file_opener_message *message, int *fd)
{
	struct stacksnap_error *err;
	uint32_t copied = 0;

	switch ((enum snap_file_opener_word)message->word) {
	case SNAP_FILE_OPENER_RULES:
		set_rules(server, message->number);
		return NULL;
	case SNAP_FILE_OPENER_DIRECTORY:
		add_directory(server, message->path);
		return NULL;
	case SNAP_FILE_OPENER_DESCRIPTOR:
		if (message->number >= SNAP_FILE_OPENER_DESCRIPTOR_COUNT)
			break;
		snap_close(&server->given[message->number]);
		server->given[message->number] = snap_take_fd(fd);
		return NULL;
	case SNAP_FILE_OPENER_PROCESS:
		describe_opened_file(server, message);
		return NULL;
	case SNAP_FILE_OPENER_FILE:
		err = open_file(server, message, &copied);
		snap_silent_end(&server->silent);
		return answer_opener_client(server, err, copied);
	case SNAP_FILE_OPENER_SKIP:
		if (server->skipped_count < SNAP_FILE_OPENER_MOST_SKIPPED)
			server->skipped[server->skipped_count++] = message->request;
		return NULL;
	case SNAP_FILE_OPENER_SAVE:
		err = save(server, *fd);
		snap_silent_end(&server->silent);
		return answer_opener_client(server, err, 0);
	}
	return snap_error_format(SNAP_ERROR_FORMAT, "invalid request");
}

void snap_file_opener_serve(const struct snap_options *options, struct snap_capture *capture,
			    int channel)
{
	struct server server = {
		.channel = channel,
		.options = *options,
		.live = { .pidfd = -1, .proc_fd = -1, .root_fd = -1, .exe_fd = -1, .files_fd = -1 },
		.given = { -1, -1, -1, -1, -1 },
	};

	/* The asking process downloads itself. */
	server.options.debuginfod = false;
	server.options.progress = NULL;
	server.capture = capture ? capture : &server.described;
	snap_arena_init(&server.arena);
	snap_silent_init(&server.silent);
	for (;;) {
		struct snap_file_opener_message message;
		_cleanup_fd_ int fd = -1;
		size_t size;

		if (snap_error_ignore(
			    snap_wire_receive(channel, &message, sizeof(message), &size, &fd)) ||
		    size <= offsetof(struct snap_file_opener_message, path) ||
		    ((char *)&message)[size - 1] != '\0')
			return;
		if (snap_error_ignore(take_opener_request(&server, &message, &fd)))
			return;
	}
}
