/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which requests are accepted: see guard.h. */
#include "serve/guard.h"

#include "message.h"
#include "output_location.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned refuse(unsigned status, const char *why, const char **why_ret)
{
	*why_ret = why;
	return status;
}

/* ---- the token ---- */

static bool check_token_file(int fd, const char *path)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return snap_cli_message("cannot read %s: %s", path, strerror(errno));
	if (!S_ISREG(status.st_mode))
		return snap_cli_message("--token-file: %s is no regular file", path);
	if (status.st_uid != 0 && status.st_uid != geteuid())
		return snap_cli_message("--token-file: %s belongs to another user", path);
	if (status.st_mode & (S_IRWXG | S_IRWXO))
		return snap_cli_message(
			"--token-file: others may read or write %s: chmod 600 makes it secret",
			path);
	return true;
}

/* Letters, digits and signs: what a header can carry. */
static bool check_token(struct snap_serve_guard *guard, const char *path)
{
	size_t length = guard->token_length;

	if (length && guard->token[length - 1] == '\n')
		length--;
	for (size_t i = 0; i < length; i++)
		if (guard->token[i] <= ' ' || guard->token[i] > '~')
			return snap_cli_message(
				"--token-file: %s: a token is one line of ASCII without spaces",
				path);
	if (length < SNAP_SERVE_MIN_TOKEN || length > SNAP_SERVE_MAX_TOKEN)
		return snap_cli_message("--token-file: %s: a token has %d to %d characters", path,
					SNAP_SERVE_MIN_TOKEN, SNAP_SERVE_MAX_TOKEN);
	guard->token_length = length;
	guard->has_token = true;
	return true;
}

bool snap_serve_guard_read_token(struct snap_serve_guard *guard, const char *path)
{
	/* A FIFO must not hold up the start. */
	int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, fd;
	struct snap_cli_location at;
	ssize_t got;
	bool fine;

	if (!snap_cli_locate(path, "read", &at))
		return false;
	fd = openat(at.folder, at.name, flags | (at.is_open_file ? 0 : O_NOFOLLOW));
	close(at.folder);
	if (fd < 0)
		return snap_cli_message("cannot read %s: %s", path, strerror(errno));
	fine = check_token_file(fd, path);
	if (fine) {
		got = read(fd, guard->token, sizeof(guard->token));
		guard->token_length = got > 0 ? (size_t)got : 0;
		fine = check_token(guard, path);
	}
	close(fd);
	return fine;
}

/* In a time that says nothing of where a guess goes wrong. */
static bool is_token(const struct snap_serve_guard *guard, const char *text)
{
	size_t length = strnlen(text, SNAP_SERVE_MAX_TOKEN + 1);
	volatile unsigned char difference = length != guard->token_length;

	for (size_t i = 0; i < guard->token_length; i++)
		difference |= (unsigned char)(guard->token[i] ^ (i < length ? text[i] : 0));
	return difference == 0;
}

static bool is_authorized(const struct snap_serve_guard *guard, const char *authorization)
{
	static const char scheme[] = "Bearer ";

	if (!guard->has_token)
		return true;
	return authorization && strncasecmp(authorization, scheme, strlen(scheme)) == 0 &&
	       is_token(guard, authorization + strlen(scheme));
}

/* ---- names ---- */

/* "name", "name:80", "[::1]:80" without the port; false: it is none of these. */
static bool cut_port(const char *host, char name[SNAP_SERVE_MAX_HOST + 1])
{
	const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
	const char *from = host[0] == '[' ? host + 1 : host;
	size_t length = end ? (size_t)(end - from) : 0;

	if (length == 0 || length > SNAP_SERVE_MAX_HOST)
		return false;
	memcpy(name, from, length);
	name[length] = '\0';
	end += *end == ']';
	return *end == '\0' || (*end == ':' && end[1] && strlen(end + 1) <= 5 &&
				strspn(end + 1, "0123456789") == strlen(end + 1));
}

/* Of a text or of a socket, an IPv4 one as IPv6 maps it. False: it is none. */
static bool parse_address(const char *text, struct in6_addr *ret)
{
	struct in_addr v4;
	char mapped[sizeof("::ffff:") + INET_ADDRSTRLEN];

	if (inet_pton(AF_INET, text, &v4) != 1)
		return inet_pton(AF_INET6, text, ret) == 1;
	snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
	return inet_pton(AF_INET6, mapped, ret) == 1;
}

static bool is_loopback(const struct in6_addr *address)
{
	return IN6_IS_ADDR_LOOPBACK(address) ||
	       (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

static bool is_loopback_name(const char *name)
{
	return strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
	       strcmp(name, "::1") == 0;
}

/* The address that the client connected to; false: a path, or it is not known. */
static bool own_address(const struct sockaddr_storage *own, struct in6_addr *ret)
{
	const struct sockaddr_in *v4 = (const void *)own;
	const struct sockaddr_in6 *v6 = (const void *)own;
	char text[INET_ADDRSTRLEN];

	if (own->ss_family == AF_INET)
		return inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text)) &&
		       parse_address(text, ret);
	*ret = v6->sin6_addr;
	return own->ss_family == AF_INET6;
}

static bool is_own_name(const struct snap_serve_guard *guard, const char *name,
			const struct sockaddr_storage *own)
{
	struct in6_addr here, wanted;

	for (size_t i = 0; i < guard->host_count; i++)
		if (strcasecmp(guard->hosts[i], name) == 0)
			return true;
	if (!own_address(own, &here))
		return false;
	return (parse_address(name, &wanted) && IN6_ARE_ADDR_EQUAL(&here, &wanted)) ||
	       (is_loopback(&here) && is_loopback_name(name));
}

bool snap_serve_guard_add_host(struct snap_serve_guard *guard, const char *text)
{
	if (guard->host_count == SNAP_SERVE_MAX_HOSTS)
		return snap_cli_message("--host: at most %d names", SNAP_SERVE_MAX_HOSTS);
	if (!cut_port(text, guard->hosts[guard->host_count]))
		return snap_cli_message("--host: '%s' is no name as a request's Host has it", text);
	guard->host_count++;
	return true;
}

static unsigned check_host(const struct snap_serve_guard *guard,
			   const struct snap_serve_headers *headers, const char **why_ret)
{
	char name[SNAP_SERVE_MAX_HOST + 1];

	if (!headers->host || !cut_port(headers->host, name))
		return refuse(400, "Host: is missing or malformed", why_ret);
	/* No browser comes to a path, whatever it is called. */
	if (headers->own.ss_family == AF_UNIX || is_own_name(guard, name, &headers->own))
		return 0;
	return refuse(421, "Host: not the address of this server, see --host", why_ret);
}

/* What browsers say of the page that asks; "none" is the user, who typed the address. */
static bool is_of_other_site(const struct snap_serve_headers *headers)
{
	const char *site = headers->fetch_site;

	return headers->origin ||
	       (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0);
}

unsigned snap_serve_guard_check(const struct snap_serve_guard *guard,
				const struct snap_serve_headers *headers, const char **why_ret)
{
	unsigned status = check_host(guard, headers, why_ret);

	if (status)
		return status;
	if (is_of_other_site(headers))
		return refuse(403, "asked for by a page of another site", why_ret);
	if (!is_authorized(guard, headers->authorization))
		return refuse(401, "needs the token: Authorization: Bearer TOKEN", why_ret);
	return 0;
}
