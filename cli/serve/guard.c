/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which requests are accepted: see guard.h. */
#include "serve/guard.h"

#include "message.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HOST = 255 /* bytes of a name */ };

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
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got;
	bool fine;

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
static bool cut_port(const char *host, char name[MOST_HOST + 1])
{
	const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
	const char *from = host[0] == '[' ? host + 1 : host;
	size_t length = end ? (size_t)(end - from) : 0;

	if (length == 0 || length > MOST_HOST)
		return false;
	memcpy(name, from, length);
	name[length] = '\0';
	end += *end == ']';
	return *end == '\0' || (*end == ':' && end[1] && strlen(end + 1) <= 5 &&
				strspn(end + 1, "0123456789") == strlen(end + 1));
}

static bool is_address(const char *name)
{
	unsigned char bytes[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* "web-1" or "web-1.example.org", where this host is called either of them. */
static bool is_own_name(const char *name)
{
	char own[HOST_NAME_MAX + 1] = "";
	size_t length;

	if (gethostname(own, sizeof(own)) < 0)
		return false;
	own[sizeof(own) - 1] = '\0';
	length = strcspn(own, ".");
	return length && strncasecmp(name, own, length) == 0 &&
	       (name[length] == '\0' || name[length] == '.');
}

static unsigned check_host(const struct snap_serve_guard *guard, const char *host,
			   const char **why_ret)
{
	char name[MOST_HOST + 1];

	if (!host || !cut_port(host, name))
		return refuse(400, "Host: is missing or malformed", why_ret);
	/* An address has no name that another site could lead here. */
	if (guard->any_host || is_address(name) || strcasecmp(name, "localhost") == 0 ||
	    (guard->own_name && is_own_name(name)))
		return 0;
	return refuse(421, "Host: this server is not called so", why_ret);
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
	unsigned status = check_host(guard, headers->host, why_ret);

	if (status)
		return status;
	if (is_of_other_site(headers))
		return refuse(403, "asked for by a page of another site", why_ret);
	if (!is_authorized(guard, headers->authorization))
		return refuse(401, "needs the token: Authorization: Bearer TOKEN", why_ret);
	return 0;
}
