/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests for files between processes: see broker.h. */
#include "roles/broker.h"

#include "roles/role.h"

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

static struct stacksnap_error *
answer_locally(void *context, const struct snap_broker_request *request, int *fd_ret)
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
	return local->finder.find(local->finder.context, &asked, fd_ret);
}

struct snap_broker snap_local_broker(struct snap_local_broker *local)
{
	return (struct snap_broker){ .answer = answer_locally, .context = local };
}

/* ---- the parser's side ---- */

/* False: no such file can be named, so there is none. */
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

/* One that is not there any more has no files; whatever else was wrong is told. */
static struct stacksnap_error *exchange(const struct snap_remote_finder *remote,
					const struct snap_broker_request *request,
					struct snap_wire_error *answer, int *fd_ret)
{
	struct stacksnap_error *err =
		snap_wire_send(remote->channel, request, sizeof(*request), -1);
	size_t size = 0;

	if (!err)
		err = snap_wire_receive(remote->channel, answer, sizeof(*answer), &size, fd_ret);
	if (err && snap_error_errno(err) != EPIPE && snap_error_errno(err) != ECONNRESET)
		return err;
	if (!err && size == sizeof(*answer))
		return NULL;
	snap_error_destroy(err);
	return snap_error_not_found();
}

static struct stacksnap_error *ask(void *context, const struct snap_file_request *request,
				   int *fd_ret)
{
	struct snap_remote_finder *remote = context;
	struct snap_broker_request packed;
	struct snap_wire_error answer;
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;

	note(context, request);
	if (remote->out_of_step)
		return snap_error_format(SNAP_ERROR_OTHER, "cannot receive from the file broker");
	if (!pack(remote, request, &packed))
		return snap_error_not_found();
	err = exchange(remote, &packed, &answer, &fd);
	/* An answer that is still on its way would be taken for that to the next question. */
	remote->out_of_step = err && snap_error_code(err) != SNAP_ERROR_NOT_FOUND;
	if (err)
		return err;
	err = snap_wire_unpack_error(&answer);
	if (!err && fd < 0)
		err = snap_error_not_found();
	if (!err)
		*fd_ret = snap_take_fd(&fd);
	return err;
}

struct snap_file_finder snap_remote_finder(struct snap_remote_finder *remote)
{
	return (struct snap_file_finder){ .find = ask, .note = note, .context = remote };
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

static struct stacksnap_error *refuse(void *context, const struct snap_broker_request *request,
				      int *fd_ret)
{
	(void)context;
	(void)request;
	(void)fd_ret;
	return snap_error_not_found();
}

struct snap_broker snap_no_broker(void)
{
	return (struct snap_broker){ .answer = refuse };
}

/* ---- the other side ---- */

struct stacksnap_error *snap_broker_serve(const struct snap_broker *broker, int channel,
					  bool *gone_ret)
{
	struct snap_broker_request request;
	struct snap_wire_error answer;
	_cleanup_fd_ int fd = -1;
	struct stacksnap_error *err;
	size_t size;

	err = snap_wire_receive(channel, &request, sizeof(request), &size, NULL);
	if (err)
		return err;
	*gone_ret = size == 0;
	if (size == 0)
		return NULL;
	if (size != sizeof(request) || !snap_broker_is_valid(&request))
		return snap_error_format(SNAP_ERROR_FORMAT, "invalid request for a file");
	err = broker->answer(broker->context, &request, &fd);
	if (!err)
		err = snap_broker_check(fd);
	if (err)
		snap_close(&fd);
	snap_wire_pack_error(err, &answer);
	snap_error_destroy(err);
	err = snap_wire_send(channel, &answer, sizeof(answer), fd);
	if (err && snap_error_errno(err) == EPIPE) {
		*gone_ret = true;
		snap_error_destroy(err);
		err = NULL;
	}
	return err;
}
