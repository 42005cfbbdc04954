/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Listening sockets: see listen.h. */
#include "serve/listen.h"

#include "commands.h"
#include "message.h"
#include "output_location.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The backlog holds more clients than come at once: one that finds no room there waits a second. */
enum { BACKLOG = 1024, FIRST_PASSED_FD = 3 /* sd_listen_fds(3) */ };

static const char usual[] = "127.0.0.1:6099";

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_un path;
	struct sockaddr_storage room;
};

static int refuse_usage(const char *where)
{
	snap_cli_message("--listen: '%s' is no ADDRESS:PORT, as 127.0.0.1:6099 or [::1]:6099, "
			 "and no unix:PATH",
			 where);
	return SNAP_CLI_USAGE;
}

static int refuse(const char *where)
{
	snap_cli_message("cannot listen on %s: %s%s", where, strerror(errno),
			 errno == EADDRINUSE ? " (see 'ss -lp' for the process)" : "");
	return SNAP_CLI_TROUBLE;
}

/* ---- what a socket is ---- */

static bool is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET)
		return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
	return address->any.sa_family == AF_UNIX;
}

/* Fills in what is known of the descriptor, whichever process opened it. */
static bool describe(struct snap_serve_listener *listener)
{
	union address address = { .any.sa_family = AF_UNSPEC };
	socklen_t length = sizeof(address);
	char text[INET6_ADDRSTRLEN] = "?";

	if (getsockname(listener->fd, &address.any, &length) < 0)
		return false;
	listener->is_loopback = is_loopback(&address);
	/* As it was given, where it was made here: the socket itself knows the name alone. */
	if (listener->url[0])
		return true;
	if (address.any.sa_family == AF_UNIX) {
		snprintf(listener->url, sizeof(listener->url), "unix:%.*s",
			 (int)sizeof(address.path.sun_path), address.path.sun_path);
	} else if (address.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof(text));
		snprintf(listener->url, sizeof(listener->url), "http://%s:%u/", text,
			 ntohs(address.v4.sin_port));
	} else {
		inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof(text));
		snprintf(listener->url, sizeof(listener->url), "http://[%s]:%u/", text,
			 ntohs(address.v6.sin6_port));
	}
	return true;
}

static int open_socket(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* ---- an address ---- */

/* "127.0.0.1:80", "localhost:80", "[::1]:80"; false: it is none of these. */
static bool parse_address(const char *where, union address *ret)
{
	const char *colon = strrchr(where, ':');
	size_t length = colon ? (size_t)(colon - where) : 0;
	char host[64];
	unsigned long port;

	if (length == 0 || length >= sizeof(host) || !colon[1] || strlen(colon + 1) > 5 ||
	    strspn(colon + 1, "0123456789") != strlen(colon + 1))
		return false;
	memcpy(host, where, length);
	host[length] = '\0';
	port = strtoul(colon + 1, NULL, 10);
	if (port > 65535)
		return false;
	*ret = (union address){ .any.sa_family = AF_UNSPEC };
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &ret->v6.sin6_addr) == 1;
	}
	ret->v4.sin_family = AF_INET;
	ret->v4.sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
			 &ret->v4.sin_addr) == 1;
}

static int listen_on_address(struct snap_serve_listener *listener, const char *where)
{
	union address address;
	socklen_t length;
	int on = 1;

	if (!parse_address(where, &address))
		return refuse_usage(where);
	length = address.any.sa_family == AF_INET ? sizeof(address.v4) : sizeof(address.v6);
	listener->fd = open_socket(address.any.sa_family);
	/* Connections of a server that has ended are no reason to wait a minute. */
	if (listener->fd < 0 ||
	    setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    (address.any.sa_family == AF_INET6 &&
	     setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    bind(listener->fd, &address.any, length) < 0 || listen(listener->fd, BACKLOG) < 0)
		return refuse(where);
	return SNAP_CLI_WHOLE;
}

/* ---- a path ---- */

/* No process listens there any more: a connection is refused, by a socket. */
static bool is_left_over(const union address *address)
{
	struct stat status;
	int fd, got;

	if (lstat(address->path.sun_path, &status) < 0 || !S_ISSOCK(status.st_mode))
		return false;
	fd = open_socket(AF_UNIX);
	got = fd < 0 ? 0 : connect(fd, &address->any, sizeof(address->path));
	got = got < 0 && errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return got;
}

/* With its mode from the first moment: write permission allows requests. */
static bool bind_privately(int fd, const union address *address)
{
	mode_t before = umask(S_IRWXG | S_IRWXO | S_IXUSR);
	bool fine = bind(fd, &address->any, sizeof(address->path)) == 0;

	if (!fine && errno == EADDRINUSE) {
		if (is_left_over(address) && unlink(address->path.sun_path) == 0)
			fine = bind(fd, &address->any, sizeof(address->path)) == 0;
		else
			errno = EADDRINUSE;
	}
	umask(before);
	return fine;
}

/* So that the name goes away at the end, even by a second signal. */
static void note_name(struct snap_serve_listener *listener)
{
	if (fstatat(listener->folder, listener->name, &listener->made, AT_SYMLINK_NOFOLLOW) < 0)
		listener->made = (struct stat){ .st_ino = 0 };
	listener->leftover =
		(struct snap_cli_leftover){ .folder = listener->folder, .name = listener->name };
	snap_cli_signals_add_leftover(&listener->leftover);
}

/* bind() takes a path alone: from within the folder, so that no link on the way to it is followed. */
static bool bind_in_folder(int fd, int folder, const union address *address)
{
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), os_errno;
	bool fine = here >= 0 && fchdir(folder) == 0 && bind_privately(fd, address);

	os_errno = errno;
	if (here >= 0) {
		fine = fchdir(here) == 0 && fine;
		close(here);
	}
	errno = os_errno;
	return fine;
}

static int listen_on_path(struct snap_serve_listener *listener, const char *where, const char *path)
{
	union address address = { .path.sun_family = AF_UNIX };
	struct snap_cli_location at;

	if (!path[0] || strlen(path) >= sizeof(address.path.sun_path))
		return refuse_usage(where);
	if (!snap_cli_locate(path, "listen on", &at))
		return SNAP_CLI_TROUBLE;
	listener->folder = at.folder;
	if (strlen(at.name) >= sizeof(address.path.sun_path)) {
		errno = ENAMETOOLONG;
		return refuse(where);
	}
	strcpy(address.path.sun_path, at.name);
	strcpy(listener->name, at.name);
	snprintf(listener->url, sizeof(listener->url), "unix:%s", path);
	listener->fd = open_socket(AF_UNIX);
	if (listener->fd < 0 || !bind_in_folder(listener->fd, listener->folder, &address))
		return refuse(where);
	note_name(listener);
	return listen(listener->fd, BACKLOG) < 0 ? refuse(where) : SNAP_CLI_WHOLE;
}

/* ---- a service manager ---- */

/* A decimal number of the environment, which is then forgotten; -1: it is not there. */
static long take_number(const char *name)
{
	const char *text = getenv(name);
	long number = text && *text ? strtol(text, NULL, 10) : -1;

	unsetenv(name);
	return number;
}

/* Whether there is one for this process, and then *status_ret. */
static bool take_passed(struct snap_serve_listener *listener, int *status_ret)
{
	long pid = take_number("LISTEN_PID"), count = take_number("LISTEN_FDS");
	int listening = 0, type = 0;
	socklen_t size = sizeof(listening);

	unsetenv("LISTEN_FDNAMES");
	if (pid != getpid() || count <= 0)
		return false;
	*status_ret = SNAP_CLI_TROUBLE;
	if (count > 1) {
		snap_cli_message("cannot listen on %ld sockets: the unit must have one", count);
		return true;
	}
	listener->fd = FIRST_PASSED_FD;
	if (getsockopt(listener->fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 ||
	    getsockopt(listener->fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || !listening ||
	    type != SOCK_STREAM) {
		snap_cli_message("what the service manager passed is no listening socket");
		return true;
	}
	*status_ret = SNAP_CLI_WHOLE;
	if (fcntl(listener->fd, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(listener->fd, F_SETFL, fcntl(listener->fd, F_GETFL) | O_NONBLOCK) < 0)
		*status_ret = refuse("the passed socket");
	return true;
}

int snap_serve_listen(struct snap_serve_listener *listener, const char *where)
{
	int status = SNAP_CLI_WHOLE;

	*listener = (struct snap_serve_listener){ .fd = -1, .folder = -1 };
	if (where && strncmp(where, "unix:", 5) == 0)
		status = listen_on_path(listener, where, where + 5);
	else if (where)
		status = listen_on_address(listener, where);
	else if (!take_passed(listener, &status))
		status = listen_on_address(listener, usual);
	if (status == SNAP_CLI_WHOLE && !describe(listener))
		status = refuse("its socket");
	return status;
}

void snap_serve_listener_close(struct snap_serve_listener *listener)
{
	struct stat status;

	if (listener->folder >= 0) {
		snap_cli_signals_remove_leftover(&listener->leftover);
		if (fstatat(listener->folder, listener->name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    status.st_ino == listener->made.st_ino &&
		    status.st_dev == listener->made.st_dev)
			unlinkat(listener->folder, listener->name, 0);
		close(listener->folder);
	}
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = listener->folder = -1;
}
