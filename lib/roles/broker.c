/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests for files between processes: see broker.h. */
#include "roles/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

bool snap_broker_is_valid(const struct snap_broker_request *request)
{
	const char *name = request->name;

	if (request->kind > SNAP_FILE_PERF_MAP || request->build_id_size > SNAP_BROKER_BUILD_ID ||
	    !memchr(name, '\0', sizeof(request->name)))
		return false;
	return !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

uint64_t snap_broker_file_id(const struct snap_broker_request *request)
{
	uint64_t map = request->kind == SNAP_FILE_PERF_MAP ? UINT32_MAX : request->map;

	return ((uint64_t)request->process << 32 | map) + 1;
}

struct stacksnap_error *snap_broker_check(int fd)
{
	struct stat info;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &info) < 0)
		return snap_error_os(errno, "cannot stat the file");
	if (!S_ISREG(info.st_mode) || (flags & O_ACCMODE) != O_RDONLY || flags & O_PATH)
		return snap_error_format(SNAP_ERROR_FORMAT, "not a regular file, or not read-only");
	return NULL;
}

/* ---- a broker that has the capture ---- */

static struct stacksnap_error *answer_locally(void *context,
					      const struct snap_broker_request *request,
					      struct snap_broker_reply *reply)
{
	const struct snap_local_broker *local = context;
	const struct snap_capture *capture = local->capture;
	struct snap_file_request asked = {
		.kind = (enum snap_file_kind)request->kind,
		.map = request->map,
		.build_id = request->build_id_size ? request->build_id : NULL,
		.build_id_size = request->build_id_size,
		.name = request->name[0] ? request->name : NULL,
		.attempt = request->attempt,
	};

	if (!snap_broker_is_valid(request) || request->process >= capture->process_count)
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	asked.process = &capture->processes[request->process];
	if (asked.kind != SNAP_FILE_PERF_MAP && asked.map >= asked.process->map_count)
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	return local->finder.find(local->finder.context, &asked, &reply->fd);
}

struct snap_broker snap_local_broker(struct snap_local_broker *local)
{
	return (struct snap_broker){ .answer = answer_locally, .context = local };
}

/* ---- the parser's side ---- */

/* False: the request cannot name such a file, so there is none. */
static bool pack(const struct snap_remote_finder *remote, const struct snap_file_request *request,
		 struct snap_broker_request *ret)
{
	size_t process = (size_t)(request->process - remote->capture->processes);

	*ret = (struct snap_broker_request){
		.kind = request->kind,
		.process = (uint32_t)process,
		.map = (uint32_t)request->map,
		.attempt = request->attempt,
		.build_id_size = (uint32_t)request->build_id_size,
	};
	if (request->build_id_size > sizeof(ret->build_id) || process > UINT32_MAX ||
	    request->map > UINT32_MAX ||
	    (request->name && strlen(request->name) >= sizeof(ret->name)))
		return false;
	if (request->build_id_size)
		memcpy(ret->build_id, request->build_id, request->build_id_size);
	if (request->name)
		memcpy(ret->name, request->name, strlen(request->name));
	return true;
}

static void note(void *context, const struct snap_file_request *request)
{
	const struct snap_remote_finder *remote = context;
	struct snap_broker_request packed;

	if (remote->file_id && pack(remote, request, &packed))
		*(volatile uint64_t *)remote->file_id = snap_broker_file_id(&packed);
}

static void note_runtimes(void *context, const struct snap_process *process)
{
	const struct snap_remote_finder *remote = context;

	if (remote->runtimes_of)
		*(volatile uint64_t *)remote->runtimes_of =
			process ? (uint64_t)(process - remote->capture->processes) + 1 : 0;
}

/* Answers to earlier requests came too late for the process that relayed them; they are dropped. */
static struct stacksnap_error *receive_broker_answer(const struct snap_remote_finder *remote,
						     struct snap_broker_answer *answer, int *fd_ret)
{
	for (;;) {
		_cleanup_fd_ int fd = -1;
		size_t size;

		SNAP_TRY(snap_wire_receive(remote->channel, answer, sizeof(*answer), &size, &fd));
		if (size != sizeof(*answer))
			return snap_error_not_found();
		if (answer->sequence != remote->sequence)
			continue;
		*fd_ret = snap_take_fd(&fd);
		return NULL;
	}
}

/* A broker that has gone has no files; every other error is returned. */
static struct stacksnap_error *exchange(const struct snap_remote_finder *remote,
					const struct snap_broker_request *request,
					struct snap_broker_answer *answer, int *fd_ret)
{
	struct stacksnap_error *err =
		snap_wire_send(remote->channel, request, sizeof(*request), -1);

	err = err ?: receive_broker_answer(remote, answer, fd_ret);
	if (!err || (snap_error_errno(err) != EPIPE && snap_error_errno(err) != ECONNRESET))
		return err;
	snap_error_destroy(err);
	return snap_error_not_found();
}

static struct stacksnap_error *ask_broker(void *context, const struct snap_file_request *request,
					  int *fd_ret)
{
	struct snap_remote_finder *remote = context;
	struct snap_broker_request packed;
	struct snap_broker_answer answer;
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;

	note(context, request);
	if (remote->out_of_step)
		return snap_error_format(SNAP_ERROR_OTHER, "cannot receive from the file broker");
	if (!pack(remote, request, &packed))
		return snap_error_not_found();
	packed.sequence = ++remote->sequence;
	err = exchange(remote, &packed, &answer, &fd);
	/* After a missing answer the two sides would be out of step. */
	remote->out_of_step = err && snap_error_code(err) != SNAP_ERROR_NOT_FOUND;
	err = err ?: snap_wire_unpack_error(&answer.error);
	if (!err && fd < 0)
		err = snap_error_not_found();
	if (err)
		return err;
	if (request->identity_ret)
		*request->identity_ret = (struct snap_file_identity){ answer.is_copy != 0,
								      answer.dev, answer.inode };
	*fd_ret = snap_take_fd(&fd);
	return NULL;
}

struct snap_file_finder snap_remote_finder(struct snap_remote_finder *remote)
{
	return (struct snap_file_finder){
		.find = ask_broker, .note = note, .note_runtimes = note_runtimes, .context = remote
	};
}

static struct stacksnap_error *find_nothing(void *context, const struct snap_file_request *request,
					    int *fd_ret)
{
	(void)context;
	(void)request;
	(void)fd_ret;
	return snap_error_not_found();
}

struct snap_file_finder snap_no_files(void)
{
	return (struct snap_file_finder){ .find = find_nothing };
}

static struct stacksnap_error *refuse_broker_request(void *context,
						     const struct snap_broker_request *request,
						     struct snap_broker_reply *reply)
{
	(void)context;
	(void)request;
	(void)reply;
	return snap_error_not_found();
}

struct snap_broker snap_no_broker(void)
{
	return (struct snap_broker){ .answer = refuse_broker_request };
}

/* ---- the other side ---- */

struct stacksnap_error *snap_broker_send(int channel, uint32_t sequence,
					 struct stacksnap_error *error, int fd,
					 const struct snap_file_identity *identity)
{
	struct snap_broker_answer answer = { .sequence = sequence };

	if (identity && identity->is_copy) {
		answer.is_copy = 1;
		answer.dev = identity->dev;
		answer.inode = identity->inode;
	}
	snap_wire_pack_error(error, &answer.error);
	snap_error_destroy(error);
	return snap_wire_send(channel, &answer, sizeof(answer), fd);
}

/* Sends what the opener did not send itself: errors, and files that this process made. */
static struct stacksnap_error *send_rest(const struct snap_broker_reply *reply,
					 const struct snap_broker_request *request,
					 struct stacksnap_error *err)
{
	int fd = err ? -1 : reply->fd;

	if (!err && reply->is_sent)
		return NULL;
	err = err ?: snap_broker_check(fd);
	return snap_broker_send(reply->channel, request->sequence, err, err ? -1 : fd, NULL);
}

struct stacksnap_error *snap_broker_serve_request(const struct snap_broker *broker, int channel,
						  const struct snap_broker_request *request,
						  bool *gone_ret)
{
	struct snap_broker_reply reply = SNAP_BROKER_REPLY(channel);
	struct stacksnap_error *err;

	if (!snap_broker_is_valid(request))
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	reply.until_ns = broker->until_ns;
	err = broker->answer(broker->context, request, &reply);
	err = send_rest(&reply, request, err);
	snap_close(&reply.fd);
	if (err && snap_error_errno(err) == EPIPE) {
		*gone_ret = true;
		snap_error_destroy(err);
		err = NULL;
	}
	return err;
}

struct stacksnap_error *snap_broker_serve(const struct snap_broker *broker, int channel,
					  bool *gone_ret)
{
	struct snap_broker_request request;
	size_t size;

	SNAP_TRY(snap_wire_receive(channel, &request, sizeof(request), &size, NULL));
	*gone_ret = size == 0;
	if (size == 0)
		return NULL;
	if (size != sizeof(request))
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	return snap_broker_serve_request(broker, channel, &request, gone_ret);
}
