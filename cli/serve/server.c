/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The server: see server.h. */
#include "serve/server.h"

#include "message.h"
#include "serve/body.h"
#include "serve/heads.h"
#include "serve/http.h"
#include "serve/library.h"
#include "serve/look.h"
#include "serve/pages.h"
#include "serve/query.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MOST_CONNECTIONS = 64,    /* with a request */
	PATIENCE_S = 30,          /* for an answer to be read, and then to go */
	MALFORMED_PATIENCE_S = 1, /* for what can become no request of ours */
	READING_S = 5,            /* what an answer may be read for where memory is scarce */
	ENDING_PATIENCE_S = 5,    /* for answers that are being read, once it has to end */
	REST_S = 1,               /* without new clients, where there are no descriptors */
};

/* A request and its answer. */
struct exchange {
	struct snap_serve_query query;
	struct snap_serve_order order; /* its texts are the query's */
	bool is_wellformed;            /* `query` is there */
	bool is_answered;
	struct snap_serve_look *look; /* that it waits for, or whose answer is read; NULL: none */
	bool is_gone;                 /* the client went away while it waited */
	bool is_resumed;              /* its connection goes on, which may be said once */
};

struct connection {
	struct connection *next, **link; /* link: where the pointer to this one stands */
	struct MHD_Connection *mhd;
	int fd;
	int64_t deadline_ns;       /* CLOCK_MONOTONIC; 0: none */
	struct exchange *exchange; /* the current one, NULL: none */
};

struct snap_serve_server {
	const struct snap_serve_guard *guard;
	struct MHD_Daemon *daemon;
	volatile sig_atomic_t is_told_to_stop;
	int64_t ending_ns; /* when it ends whatever is going on; 0: it is not to end */
	int listener;      /* -1: no more clients are accepted */
	int64_t accept_ns; /* not before that */
	struct snap_serve_heads heads;
	struct connection *connections; /* with a request */
	unsigned connection_count;
	struct snap_serve_metrics metrics;
	struct snap_serve_looks looks;
	struct stacksnap_snapshot *seen; /* the targets at the start; NULL: no pids */
};

static int64_t in_seconds(unsigned seconds)
{
	return snap_serve_now_ns() + (int64_t)seconds * 1000000000;
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
	if (snap_cli_request_has(server->looks.common.request, "verbose"))
		snap_cli_message("%u %s", response->status,
				 exchange->is_wellformed ? exchange->query.path : "?");
	return snap_serve_http_respond(connection->mhd, response) ? MHD_YES : MHD_NO;
}

/* `retry_s`: in how many seconds to ask again; 0: it is not said. */
static enum MHD_Result refuse(struct snap_serve_server *server, struct connection *connection,
			      unsigned status, const char *why, unsigned retry_s)
{
	snap_serve_metrics_add_refusal(&server->metrics, status);
	return respond(
		server, connection,
		&(struct snap_serve_response){
			.status = status, .fd = -1, .message = why, .retry_after_s = retry_s });
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
		response.type = order->type;
		server->metrics.running = server->looks.captures + server->looks.lists;
		snap_serve_metrics_print(&server->metrics,
					 strcmp(order->format, "openmetrics") == 0, out);
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

/* Each client reads by itself what all have in common. */
static enum MHD_Result respond_with_look(struct snap_serve_server *server,
					 struct connection *connection)
{
	const struct snap_serve_look *look = connection->exchange->look;
	const struct snap_serve_answer *answer = &look->answer;
	struct snap_serve_response response = { .status = answer->status,
						.fd = -1,
						.message = answer->message };

	if (answer->fd >= 0) {
		response.fd = fcntl(answer->fd, F_DUPFD_CLOEXEC, 0);
		if (response.fd < 0)
			return refuse(server, connection, 500, strerror(errno), 0);
		response.type = answer->type;
		response.size = answer->size;
		if (snap_serve_look_is_capture(&look->order))
			response.outcome = answer->work.is_partial ? "partial" : "whole";
	} else if (look->is_late) {
		response.status = 504;
		response.message = "took too long";
	} else if (answer->status == 503 && !server->ending_ns) {
		response.retry_after_s = READING_S;
	}
	return respond(server, connection, &response);
}

/* ---- looks ---- */

/* A request that libmicrohttpd does not go on with is answered past it. */
static void cut_connection(struct snap_serve_server *server, struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;
	bool is_open = exchange && !exchange->is_answered;
	bool is_bad = is_open && !exchange->is_wellformed;

	if (is_bad)
		snap_serve_metrics_add_refusal(&server->metrics, 400);
	else
		server->metrics.cut += exchange && !server->ending_ns;
	if (is_open)
		snap_serve_http_give_up(connection->fd, is_bad ? 400 : 408);
	shutdown(connection->fd, SHUT_RDWR);
	/* libmicrohttpd sees an end of file, and closes it; on_connection() is called. */
	connection->deadline_ns = in_seconds(PATIENCE_S);
}

/* Clients that read for long give way where answers take half of the memory that they may have. */
static void make_room(struct snap_serve_server *server)
{
	int64_t since_ns = in_seconds(PATIENCE_S - READING_S);

	if (atomic_load(&server->looks.common.bodies) < SNAP_SERVE_MOST_BODIES / 2)
		return;
	for (struct connection *c = server->connections; c; c = c->next)
		if (c->exchange && c->exchange->is_answered && c->exchange->look &&
		    c->deadline_ns < since_ns)
			cut_connection(server, c);
}

static enum MHD_Result join_look(struct snap_serve_server *server, struct connection *connection)
{
	struct exchange *exchange = connection->exchange;
	const char *why;
	unsigned status, retry_s;

	make_room(server);
	exchange->look =
		snap_serve_looks_join(&server->looks, &exchange->order, &status, &why, &retry_s);
	if (!exchange->look)
		return refuse(server, connection, status, why, retry_s);
	if (exchange->look->is_done)
		return respond_with_look(server, connection);
	connection->deadline_ns = 0; /* the look has one */
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
		return refuse(server, connection, status, why, 0);
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
	return join_look(server, connection);
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
	if (exchange->is_gone)
		return MHD_NO;
	if (exchange->look)
		return respond_with_look(server, connection);
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

/* Takes NULL. */
static void drop_exchange(struct exchange *exchange)
{
	if (exchange && exchange->look)
		snap_serve_look_leave(exchange->look);
	free(exchange);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **exchange_place,
			 enum MHD_RequestTerminationCode code)
{
	struct snap_serve_server *server = context;
	struct connection *connection = connection_of(mhd);
	struct exchange *exchange = *exchange_place;

	(void)code;
	drop_exchange(exchange);
	*exchange_place = NULL;
	if (!connection)
		return;
	connection->exchange = NULL;
	connection->deadline_ns = server->ending_ns ? snap_serve_now_ns() : in_seconds(PATIENCE_S);
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
		connection->fd = snap_serve_http_descriptor(mhd);
		/* Its head is there. libmicrohttpd may still wait for more, and 0.9 forgets to go
		 * on where parameters are too many for its memory. */
		connection->deadline_ns = in_seconds(MALFORMED_PATIENCE_S);
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
		/* libmicrohttpd 0.9 may not report the end of one with too many parameters. */
		drop_exchange(connection->exchange);
		free(connection);
	}
}

/* ---- the loop ---- */

static bool waits_for_look(const struct connection *connection)
{
	const struct exchange *exchange = connection->exchange;

	return exchange && exchange->look && !exchange->is_answered;
}

static void resume(struct connection *connection)
{
	if (!connection->exchange->is_resumed)
		MHD_resume_connection(connection->mhd);
	connection->exchange->is_resumed = true;
}

/* The client sends no more: it waits for no look. */
static void note_end(struct connection *connection)
{
	struct exchange *exchange = connection->exchange;

	snap_serve_look_leave(exchange->look);
	exchange->look = NULL;
	exchange->is_gone = true;
	connection->deadline_ns = in_seconds(MALFORMED_PATIENCE_S);
	resume(connection);
}

/* For one more request: else clients without one are neither looked at nor accepted. */
static bool has_place(const struct snap_serve_server *server)
{
	return server->connection_count < MOST_CONNECTIONS;
}

/* When another client is accepted; INT64_MAX: not before one goes. */
static int64_t accepts_at(const struct snap_serve_server *server)
{
	int64_t room_ns = snap_serve_heads_room_at(&server->heads);

	if (server->listener < 0 || !has_place(server))
		return INT64_MAX;
	return room_ns > server->accept_ns ? room_ns : server->accept_ns;
}

/* How long to sleep, in milliseconds; -1: until something happens. */
static int time_to_sleep(struct snap_serve_server *server, int64_t accept_ns)
{
	/* Jobs are waited for longer, and wake the loop themselves. */
	bool can_end = server->ending_ns && server->looks.captures + server->looks.lists == 0;
	int64_t first = snap_serve_looks_due(&server->looks), left;
	MHD_UNSIGNED_LONG_LONG most;
	int sleep_ms = -1;

	if (can_end && server->ending_ns < first)
		first = server->ending_ns;
	if (accept_ns < first)
		first = accept_ns;
	if (has_place(server) && server->heads.count && server->heads.heads[0].deadline_ns < first)
		first = server->heads.heads[0].deadline_ns;
	for (const struct connection *c = server->connections; c; c = c->next)
		if (c->deadline_ns && c->deadline_ns < first)
			first = c->deadline_ns;
	if (first != INT64_MAX) {
		left = first - snap_serve_now_ns();
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
	enum { OWN = 4, ALL = OWN + MOST_CONNECTIONS };
	struct pollfd polled[ALL];
	struct connection *clients[ALL];
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	nfds_t count = OWN;
	int64_t accept_ns = accepts_at(server);
	bool accepts = accept_ns <= snap_serve_now_ns();
	uint64_t drained;

	polled[0] = (struct pollfd){ .fd = server->looks.common.wake, .events = POLLIN };
	polled[1] = (struct pollfd){ .fd = info->epoll_fd, .events = POLLIN };
	polled[2] = (struct pollfd){ .fd = has_place(server) ? server->heads.news : -1,
				     .events = POLLIN };
	polled[3] = (struct pollfd){ .fd = accepts ? server->listener : -1, .events = POLLIN };
	/* libmicrohttpd does not look at connections whose answer is being made. */
	for (struct connection *c = server->connections; c && count < ALL; c = c->next) {
		if (!waits_for_look(c))
			continue;
		clients[count] = c;
		polled[count++] = (struct pollfd){ .fd = c->fd, .events = POLLRDHUP };
	}
	if (poll(polled, count, time_to_sleep(server, accepts ? INT64_MAX : accept_ns)) < 0)
		return errno == EINTR || snap_cli_message("cannot wait: %s", strerror(errno));
	if (polled[0].revents && read(server->looks.common.wake, &drained, sizeof(drained)) < 0 &&
	    errno != EAGAIN && errno != EINTR)
		return snap_cli_message("cannot wait: %s", strerror(errno));
	for (nfds_t i = OWN; i < count; i++) {
		if (polled[i].revents)
			note_end(clients[i]);
	}
	return true;
}

static void look_after_connections(struct snap_serve_server *server)
{
	for (struct connection *c = server->connections; c; c = c->next) {
		if (waits_for_look(c) && c->exchange->look->is_done)
			resume(c);
		else if (c->deadline_ns && snap_serve_now_ns() >= c->deadline_ns)
			cut_connection(server, c);
	}
}

/* Those that have a whole head go to libmicrohttpd. */
static void hand_over(struct snap_serve_server *server)
{
	struct sockaddr_storage address;
	int fd;

	while (has_place(server) && (fd = snap_serve_heads_take(&server->heads)) >= 0) {
		socklen_t size = sizeof(address);

		if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
			close(fd);
		else /* which closes it where it fails */
			MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, size);
	}
}

static void look_after_clients(struct snap_serve_server *server)
{
	hand_over(server);
	for (unsigned n = 0; n < MOST_CONNECTIONS; n++) {
		int fd;

		if (accepts_at(server) > snap_serve_now_ns())
			return;
		fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		server->accept_ns = 0;
		if (fd < 0) {
			/* Without descriptors or memory it would be asked for again and again. */
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				server->accept_ns = in_seconds(REST_S);
			return;
		}
		snap_serve_heads_add(&server->heads, fd);
		hand_over(server);
	}
}

/*
 * No more clients are accepted; present ones are answered: jobs are asked to end, idle clients go.
 */
static void begin_to_end(struct snap_serve_server *server)
{
	server->ending_ns = in_seconds(ENDING_PATIENCE_S);
	server->listener = -1;
	snap_serve_heads_deinit(&server->heads);
	snap_serve_looks_cancel(&server->looks);
}

static bool is_over(const struct snap_serve_server *server)
{
	if (!server->ending_ns)
		return false;
	if (!server->connections)
		return true;
	/* Jobs are waited for: they were asked to end, and their threads use what is released. */
	return snap_serve_now_ns() >= server->ending_ns &&
	       server->looks.captures + server->looks.lists == 0;
}

bool snap_serve_server_run(struct snap_serve_server *server)
{
	bool fine = true;

	while (fine && !is_over(server)) {
		fine = wait_for_something(server);
		if (server->is_told_to_stop && !server->ending_ns)
			begin_to_end(server);
		snap_serve_looks_go_on(&server->looks);
		look_after_connections(server);
		look_after_clients(server);
		if (MHD_run(server->daemon) != MHD_YES)
			fine = snap_cli_message("cannot serve: %s", strerror(errno));
	}
	return fine;
}

void snap_serve_server_stop(struct snap_serve_server *server)
{
	const uint64_t one = 1;

	server->is_told_to_stop = 1;
	/* It fails only where the loop is awake already. */
	if (write(server->looks.common.wake, &one, sizeof(one)) < 0)
		return;
}

/* ---- its life ---- */

static struct MHD_Daemon *start_daemon(struct snap_serve_server *server)
{
	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET,
				0, NULL, NULL, on_request, server, MHD_OPTION_CONNECTION_LIMIT,
				(unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)SNAP_SERVE_HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, 0u,
				MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK,
				on_target, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
				server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
				MHD_OPTION_END);
}

/* What a target may be stopped for, by --max-stopped, which the library has checked. */
static double share_of_time(const struct snap_cli_request *request)
{
	const char *percent = "3";

	for (size_t i = 0; i < request->setting_count; i++)
		if (strcmp(request->settings[i].name, "max-stopped") == 0)
			percent = request->settings[i].value;
	return strtod(percent, NULL) / 100;
}

struct snap_serve_server *snap_serve_server_create(const struct snap_cli_request *request,
						   const struct snap_serve_guard *guard, int fd)
{
	struct snap_serve_server *server;
	struct stacksnap_error *err;

	if (!snap_serve_library_load())
		return NULL;
	server = calloc(1, sizeof(*server));
	if (!server) {
		snap_cli_message("out of memory");
		return NULL;
	}
	server->looks.common.request = request;
	server->looks.common.wake = server->heads.news = -1;
	server->listener = fd;
	err = snap_cli_request_look(request, &server->seen);
	if (err) {
		snap_cli_message("cannot serve: %s", stacksnap_error_message(err));
		stacksnap_error_destroy(err);
		snap_serve_server_destroy(server);
		return NULL;
	}
	server->looks.common.seen = server->seen;
	server->looks.metrics = &server->metrics;
	server->looks.ledger.share = share_of_time(request);
	server->guard = guard;
	server->looks.common.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->looks.common.wake >= 0 &&
	    snap_serve_heads_init(&server->heads, &server->metrics))
		server->daemon = start_daemon(server);
	if (server->daemon)
		return server;
	snap_cli_message("cannot serve: %s", strerror(errno));
	snap_serve_server_destroy(server);
	return NULL;
}

/* What a failed loop left behind is ended: its connections must go on to be closed. */
static void end_looks(struct snap_serve_server *server)
{
	snap_serve_looks_finish(&server->looks);
	for (struct connection *c = server->connections; c; c = c->next) {
		if (!waits_for_look(c))
			continue;
		c->exchange->is_answered = true;
		resume(c);
	}
}

void snap_serve_server_destroy(struct snap_serve_server *server)
{
	if (!server)
		return;
	if (server->daemon) {
		end_looks(server);
		MHD_stop_daemon(server->daemon);
	}
	snap_serve_heads_deinit(&server->heads);
	snap_serve_looks_deinit(&server->looks);
	stacksnap_snapshot_destroy(server->seen);
	if (server->looks.common.wake >= 0)
		close(server->looks.common.wake);
	free(server);
}
