/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The server: see server.h. */
#include "serve/server.h"

#include "message.h"
#include "serve/http.h"
#include "serve/job.h"
#include "serve/library.h"
#include "serve/metrics.h"
#include "serve/pages.h"
#include "serve/query.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	MOST_CONNECTIONS = 64,
	MOST_CAPTURES = 4, /* snapshots and recordings at one time */
	MOST_LISTS = 4,
	/* for a request to come, for an answer to be read, and then to go */
	PATIENCE_S = 30,
	JOB_PATIENCE_S = 60,   /* beyond the length of a recording */
	ENDING_PATIENCE_S = 5, /* for answers that are being read, once it has to end */
	HEAD_BYTES = 16 << 10, /* of a request */
};

/* A request and its answer. */
struct exchange {
	struct snap_serve_query query;
	struct snap_serve_order order; /* its texts are the query's */
	bool is_wellformed;            /* `query` is there */
	bool is_answered;
	struct snap_serve_job *job; /* NULL: none is running */
	bool is_gone, is_late;      /* the client went away; the job took too long */
	bool is_resumed;            /* its connection goes on, which may be said once */
	int64_t job_ends_ns;        /* about, CLOCK_MONOTONIC */
};

struct connection {
	struct connection *next, **link; /* link: where the pointer to this one stands */
	struct MHD_Connection *mhd;
	int fd;
	int64_t deadline_ns;       /* CLOCK_MONOTONIC; 0: none */
	struct exchange *exchange; /* the current one, NULL: none */
};

struct snap_serve_server {
	const struct snap_cli_request *request;
	const struct snap_serve_guard *guard;
	struct MHD_Daemon *daemon;
	int wake; /* eventfd: of jobs that are done, and of stop */
	volatile sig_atomic_t is_told_to_stop;
	int64_t ending_ns; /* when it ends whatever is going on; 0: it is not to end */
	struct connection *connections;
	unsigned connection_count;
	struct snap_serve_metrics metrics;
	unsigned captures, lists; /* jobs */
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t in_seconds(unsigned seconds)
{
	return now_ns() + (int64_t)seconds * 1000000000;
}

static struct connection *connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* ---- answers ---- */

static enum MHD_Result respond(struct snap_serve_server *server, struct connection *connection,
			       const struct snap_serve_response *response)
{
	struct exchange *exchange = connection->exchange;

	exchange->is_answered = true;
	connection->deadline_ns = in_seconds(PATIENCE_S);
	if (snap_cli_request_has(server->request, "verbose"))
		snap_cli_message("%u %s", response->status,
				 exchange->is_wellformed ? exchange->query.path : "?");
	return snap_serve_http_respond(connection->mhd, response) ? MHD_YES : MHD_NO;
}

static enum MHD_Result refuse(struct snap_serve_server *server, struct connection *connection,
			      unsigned status, const char *why)
{
	snap_serve_metrics_add_refusal(&server->metrics, status);
	return respond(server, connection,
		       &(struct snap_serve_response){ .status = status, .fd = -1, .message = why });
}

/* What is known at once. */
static enum MHD_Result respond_at_once(struct snap_serve_server *server,
				       struct connection *connection)
{
	const struct snap_serve_order *order = &connection->exchange->order;
	struct snap_serve_response response = { .status = 200, .fd = -1 };
	FILE *out = open_memstream(&response.text, &response.size);

	if (!out)
		return MHD_NO;
	if (order->page == SNAP_SERVE_METRICS) {
		response.type = snap_serve_metrics_type;
		server->metrics.running = server->captures + server->lists;
		snap_serve_metrics_print(&server->metrics, out);
	} else if (order->page == SNAP_SERVE_PPROF_REDIRECT) {
		response.status = MHD_HTTP_MOVED_PERMANENTLY;
		fputs("/debug/pprof/\n", out);
	} else {
		response.type = "text/html; charset=utf-8";
		snap_serve_put_pprof_index(order->target, out);
	}
	if (fclose(out) != 0) {
		free(response.text);
		return MHD_NO;
	}
	return respond(server, connection, &response);
}

static const char *message_of(const struct exchange *exchange,
			      const struct snap_serve_answer *answer)
{
	return exchange->is_late ? "took too long" : answer->message;
}

/* Takes the answer of the job, and its place is free. Whether it was a capture. */
static bool end_job(struct snap_serve_server *server, struct exchange *exchange,
		    struct snap_serve_answer *ret)
{
	bool is_capture = exchange->order.page == SNAP_SERVE_SNAPSHOT ||
			  exchange->order.page == SNAP_SERVE_RECORDING;

	snap_serve_job_finish(exchange->job, ret);
	exchange->job = NULL;
	if (is_capture)
		server->captures--;
	else
		server->lists--;
	if (exchange->is_gone && is_capture)
		server->metrics.cancelled++;
	else
		snap_serve_metrics_add_work(&server->metrics, &ret->work);
	return is_capture;
}

/* Of the job that is done. */
static enum MHD_Result respond_with_job(struct snap_serve_server *server,
					struct connection *connection)
{
	struct exchange *exchange = connection->exchange;
	struct snap_serve_answer answer;
	bool is_capture = end_job(server, exchange, &answer);

	return respond(server, connection,
		       &(struct snap_serve_response){
			       .status = exchange->is_late && answer.fd < 0 ? 504 : answer.status,
			       .type = answer.fd >= 0 ? answer.type : NULL,
			       .fd = answer.fd,
			       .size = answer.size,
			       .message = message_of(exchange, &answer),
			       .outcome = answer.fd < 0 || !is_capture ? NULL
					  : answer.work.is_partial     ? "partial"
								       : "whole",
		       });
}

/* ---- jobs ---- */

/* When the first of the running jobs is likely to be done, in seconds, at least one. */
static unsigned seconds_until_free(const struct snap_serve_server *server)
{
	int64_t now = now_ns(), first = INT64_MAX;

	for (const struct connection *c = server->connections; c; c = c->next)
		if (c->exchange && c->exchange->job && c->exchange->job_ends_ns < first)
			first = c->exchange->job_ends_ns;
	return first == INT64_MAX || first < now ? 1 : (unsigned)((first - now) / 1000000000) + 1;
}

static enum MHD_Result refuse_for_now(struct snap_serve_server *server,
				      struct connection *connection)
{
	const struct snap_serve_response response = {
		.status = MHD_HTTP_TOO_MANY_REQUESTS,
		.fd = -1,
		.message = "too many at once",
		.retry_after_s = seconds_until_free(server),
	};

	snap_serve_metrics_add_refusal(&server->metrics, response.status);
	return respond(server, connection, &response);
}

static enum MHD_Result start_job(struct snap_serve_server *server, struct connection *connection)
{
	struct exchange *exchange = connection->exchange;
	bool is_recording = exchange->order.page == SNAP_SERVE_RECORDING;
	bool is_capture = is_recording || exchange->order.page == SNAP_SERVE_SNAPSHOT;
	unsigned *count = is_capture ? &server->captures : &server->lists;
	unsigned seconds = is_recording ? exchange->order.seconds : 0;

	if (server->ending_ns)
		return refuse(server, connection, 503, "the server is about to end");
	if (*count >= (is_capture ? MOST_CAPTURES : MOST_LISTS))
		return refuse_for_now(server, connection);
	exchange->job = snap_serve_job_start(server->request, &exchange->order, server->wake);
	if (!exchange->job)
		return refuse(server, connection, 500, strerror(errno));
	++*count;
	exchange->job_ends_ns = in_seconds(seconds);
	connection->deadline_ns = in_seconds(seconds + JOB_PATIENCE_S);
	MHD_suspend_connection(connection->mhd);
	return MHD_YES;
}

static enum MHD_Result begin(struct snap_serve_server *server, struct connection *connection,
			     const char *method, const char *version)
{
	struct exchange *exchange = connection->exchange;
	struct snap_serve_headers headers;
	const char *accept = NULL, *why = "malformed request";
	unsigned status =
		snap_serve_http_look(connection->mhd, method, version, &headers, &accept, &why);

	server->metrics.requests++;
	if (!status)
		status = snap_serve_guard_check(server->guard, &headers, &why);
	if (!status && !exchange->is_wellformed)
		status = MHD_HTTP_BAD_REQUEST;
	if (!status)
		status = snap_serve_route(&exchange->query, accept, &exchange->order, &why);
	if (status)
		return refuse(server, connection, status, why);
	switch (exchange->order.page) {
	case SNAP_SERVE_PPROF_INDEX:
	case SNAP_SERVE_PPROF_REDIRECT:
	case SNAP_SERVE_METRICS:
		return respond_at_once(server, connection);
	case SNAP_SERVE_HOME:
	case SNAP_SERVE_PROCESSES:
	case SNAP_SERVE_SNAPSHOT:
	case SNAP_SERVE_RECORDING:
		break;
	}
	return start_job(server, connection);
}

/* ---- what libmicrohttpd calls ---- */

static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **exchange_place)
{
	struct snap_serve_server *server = context;
	struct connection *connection = connection_of(mhd);
	const struct exchange *exchange = *exchange_place;

	(void)url; /* decoded, where a NUL would end it: see on_target() */
	(void)upload;
	if (!connection || !exchange || connection->exchange != exchange)
		return MHD_NO;
	*upload_size = 0;
	if (exchange->is_answered)
		return MHD_YES;
	if (exchange->job)
		return respond_with_job(server, connection);
	return begin(server, connection, method, version);
}

/* The first that is known of a request: its target, as it came. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
	struct connection *connection = connection_of(mhd);
	struct exchange *exchange = connection ? calloc(1, sizeof(*exchange)) : NULL;

	(void)context;
	if (!exchange)
		return NULL;
	/* NULL: a line of one word. */
	exchange->is_wellformed = target && snap_serve_query_parse(target, &exchange->query);
	connection->exchange = exchange;
	return exchange;
}

/* Its answer is not wanted any more. */
static void drop_job(struct snap_serve_server *server, struct exchange *exchange)
{
	struct snap_serve_answer answer;

	snap_serve_job_cancel(exchange->job);
	end_job(server, exchange, &answer);
	if (answer.fd >= 0)
		close(answer.fd);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **exchange_place,
			 enum MHD_RequestTerminationCode code)
{
	struct snap_serve_server *server = context;
	struct connection *connection = connection_of(mhd);
	struct exchange *exchange = *exchange_place;

	(void)code;
	/* A connection that goes on may be found closed before it is answered. */
	if (exchange && exchange->job)
		drop_job(server, exchange);
	free(exchange);
	*exchange_place = NULL;
	if (!connection)
		return;
	connection->exchange = NULL;
	connection->deadline_ns = server->ending_ns ? now_ns() : in_seconds(PATIENCE_S);
}

static int descriptor_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **place,
			  enum MHD_ConnectionNotificationCode code)
{
	struct snap_serve_server *server = context;
	struct connection *connection = *place;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		connection = calloc(1, sizeof(*connection));
		*place = connection; /* without memory its requests are not answered */
		if (!connection)
			return;
		connection->mhd = mhd;
		connection->fd = descriptor_of(mhd);
		connection->deadline_ns = in_seconds(PATIENCE_S);
		connection->next = server->connections;
		connection->link = &server->connections;
		if (connection->next)
			connection->next->link = &connection->next;
		server->connections = connection;
		server->connection_count++;
	} else if (connection) {
		server->connection_count--;
		*connection->link = connection->next;
		if (connection->next)
			connection->next->link = connection->link;
		*place = NULL;
		free(connection);
	}
}

/* ---- the loop ---- */

static bool has_running_job(const struct connection *connection)
{
	return connection->exchange && connection->exchange->job && !connection->exchange->is_gone;
}

/* How long to sleep, in milliseconds; -1: until something happens. */
static int time_to_sleep(const struct snap_serve_server *server)
{
	/* Jobs are waited for longer, and wake the loop themselves. */
	bool can_end = server->ending_ns && server->captures + server->lists == 0;
	int64_t first = can_end ? server->ending_ns : INT64_MAX, left;
	MHD_UNSIGNED_LONG_LONG most;
	int sleep_ms = -1;

	for (const struct connection *c = server->connections; c; c = c->next)
		if (c->deadline_ns && c->deadline_ns < first)
			first = c->deadline_ns;
	if (first != INT64_MAX) {
		left = first - now_ns();
		sleep_ms = left > 0 ? (int)(left / 1000000) + 1 : 0;
	}
	if (MHD_get_timeout(server->daemon, &most) == MHD_YES &&
	    (sleep_ms < 0 || most < (unsigned)sleep_ms))
		sleep_ms = (int)most;
	return sleep_ms;
}

/* Sleeps until there is something to do, and finds out which clients have gone away. */
static bool wait_for_something(struct snap_serve_server *server)
{
	enum { OWN = 2 };
	struct pollfd polled[OWN + MOST_CONNECTIONS];
	struct connection *clients[MOST_CONNECTIONS];
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	nfds_t count = OWN;
	uint64_t drained;

	polled[0] = (struct pollfd){ .fd = server->wake, .events = POLLIN };
	polled[1] = (struct pollfd){ .fd = info->epoll_fd, .events = POLLIN };
	/* libmicrohttpd does not look at connections whose answer is being made. */
	for (struct connection *c = server->connections; c && count < OWN + MOST_CONNECTIONS;
	     c = c->next) {
		if (!has_running_job(c))
			continue;
		clients[count - OWN] = c;
		polled[count++] = (struct pollfd){ .fd = c->fd, .events = POLLRDHUP };
	}
	if (poll(polled, count, time_to_sleep(server)) < 0)
		return errno == EINTR || snap_cli_message("cannot wait: %s", strerror(errno));
	if (polled[0].revents && read(server->wake, &drained, sizeof(drained)) < 0 &&
	    errno != EAGAIN && errno != EINTR)
		return snap_cli_message("cannot wait: %s", strerror(errno));
	for (nfds_t i = OWN; i < count; i++) {
		if (!polled[i].revents)
			continue;
		clients[i - OWN]->exchange->is_gone = true;
		snap_serve_job_cancel(clients[i - OWN]->exchange->job);
	}
	return true;
}

/* Too late: of a job, which is asked to end, or of a client, which is not served any more. */
static void enforce_deadline(struct snap_serve_server *server, struct connection *connection)
{
	if (!connection->deadline_ns || now_ns() < connection->deadline_ns)
		return;
	if (connection->exchange && connection->exchange->job) {
		connection->exchange->is_late = true;
		connection->deadline_ns = 0;
		snap_serve_job_cancel(connection->exchange->job);
		return;
	}
	server->metrics.cut += !server->ending_ns && connection->exchange;
	shutdown(connection->fd, SHUT_RDWR);
	/* libmicrohttpd sees an end of file, and closes it; on_connection() is called. */
	connection->deadline_ns = in_seconds(PATIENCE_S);
}

static void resume(struct connection *connection)
{
	if (!connection->exchange->is_resumed)
		MHD_resume_connection(connection->mhd);
	connection->exchange->is_resumed = true;
}

static void look_after_connections(struct snap_serve_server *server)
{
	for (struct connection *c = server->connections; c; c = c->next) {
		if (c->exchange && c->exchange->job && snap_serve_job_is_done(c->exchange->job))
			resume(c);
		else
			enforce_deadline(server, c);
	}
}

/*
 * No more clients are accepted; present ones are answered: jobs are asked to end, idle clients go.
 */
static void begin_to_end(struct snap_serve_server *server)
{
	server->ending_ns = in_seconds(ENDING_PATIENCE_S);
	MHD_quiesce_daemon(server->daemon);
	for (struct connection *c = server->connections; c; c = c->next) {
		if (has_running_job(c))
			snap_serve_job_cancel(c->exchange->job);
		else if (!c->exchange)
			c->deadline_ns = now_ns();
	}
}

static bool is_over(const struct snap_serve_server *server)
{
	if (!server->ending_ns)
		return false;
	if (!server->connections)
		return true;
	/* Jobs are waited for: they were asked to end, and their threads use what is released. */
	return now_ns() >= server->ending_ns && server->captures + server->lists == 0;
}

/*
 * Where connections were as many as there may be, and fewer are left, libmicrohttpd begins to
 * accept when it is run the next time: nothing else would wake it.
 */
static bool run_daemon(struct snap_serve_server *server)
{
	bool was_full = server->connection_count >= MOST_CONNECTIONS;

	if (MHD_run(server->daemon) == MHD_YES &&
	    (!was_full || server->connection_count >= MOST_CONNECTIONS ||
	     MHD_run(server->daemon) == MHD_YES))
		return true;
	return snap_cli_message("cannot serve: %s", strerror(errno));
}

bool snap_serve_server_run(struct snap_serve_server *server)
{
	bool fine = true;

	while (fine && !is_over(server)) {
		fine = wait_for_something(server);
		if (server->is_told_to_stop && !server->ending_ns)
			begin_to_end(server);
		look_after_connections(server);
		fine = run_daemon(server) && fine;
	}
	return fine;
}

void snap_serve_server_stop(struct snap_serve_server *server)
{
	const uint64_t one = 1;

	server->is_told_to_stop = 1;
	/* It fails only where the loop is awake already. */
	if (write(server->wake, &one, sizeof(one)) < 0)
		return;
}

/* ---- its life ---- */

static struct MHD_Daemon *start_daemon(struct snap_serve_server *server, int fd)
{
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
				server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
				(unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
				on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
				server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
				MHD_OPTION_END);
}

struct snap_serve_server *snap_serve_server_create(const struct snap_cli_request *request,
						   const struct snap_serve_guard *guard, int fd)
{
	struct snap_serve_server *server;

	if (!snap_serve_library_load())
		return NULL;
	server = calloc(1, sizeof(*server));
	if (!server) {
		snap_cli_message("out of memory");
		return NULL;
	}
	server->request = request;
	server->guard = guard;
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->wake >= 0)
		server->daemon = start_daemon(server, fd);
	if (server->daemon)
		return server;
	snap_cli_message("cannot serve: %s", strerror(errno));
	snap_serve_server_destroy(server);
	return NULL;
}

/* Jobs that a failed loop left behind are ended: their connections must go on to be closed. */
static void end_jobs(struct snap_serve_server *server)
{
	for (struct connection *c = server->connections; c; c = c->next) {
		if (!c->exchange || !c->exchange->job)
			continue;
		drop_job(server, c->exchange);
		c->exchange->is_answered = true;
		resume(c);
	}
}

void snap_serve_server_destroy(struct snap_serve_server *server)
{
	if (!server)
		return;
	if (server->daemon) {
		end_jobs(server);
		/* The socket is its opener's to close. */
		MHD_quiesce_daemon(server->daemon);
		MHD_stop_daemon(server->daemon);
	}
	if (server->wake >= 0)
		close(server->wake);
	free(server);
}
