/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors as values: see error.h. When there is no memory for an error, the error is that there is
 * no memory.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

struct stacksnap_error {
	enum snap_error_code code;
	int os_errno;
	char *message; /* owned; NULL for the shared ones, which have `text` */
	const char *text;
};

static struct stacksnap_error no_memory = { .code = SNAP_ERROR_NO_MEMORY, .text = "out of memory" };
static struct stacksnap_error not_found = { .code = SNAP_ERROR_NOT_FOUND, .text = "not found" };
static struct stacksnap_error cancelled = { .code = SNAP_ERROR_CANCELLED, .text = "cancelled" };

static struct stacksnap_error *create_error(enum snap_error_code code, int os_errno, char *message)
{
	struct stacksnap_error *error;

	if (!message)
		return &no_memory;
	error = malloc(sizeof(*error));
	if (!error) {
		free(message);
		return &no_memory;
	}
	*error = (struct stacksnap_error){ .code = code, .os_errno = os_errno, .message = message };
	return error;
}

static _printf_(1, 0) char *join_message(const char *format, va_list arguments,
					 const char *separator, const char *tail)
{
	_cleanup_free_ char *head = NULL;
	char *whole = NULL;

	if (vasprintf(&head, format, arguments) < 0) {
		head = NULL;
		return NULL;
	}
	return asprintf(&whole, "%s%s%s", head, separator, tail) < 0 ? NULL : whole;
}

struct stacksnap_error *snap_error_format(enum snap_error_code code, const char *format, ...)
{
	va_list arguments;
	char *message;

	va_start(arguments, format);
	message = join_message(format, arguments, "", "");
	va_end(arguments);
	return create_error(code, 0, message);
}

struct stacksnap_error *snap_error_os(int os_errno, const char *format, ...)
{
	va_list arguments;
	char *message;
	char text[128];

	va_start(arguments, format);
	message = join_message(format, arguments, ": ", strerror_r(os_errno, text, sizeof(text)));
	va_end(arguments);
	return create_error(os_errno == ENOMEM ? SNAP_ERROR_NO_MEMORY : SNAP_ERROR_OS, os_errno,
			    message);
}

struct stacksnap_error *snap_error_remote(int os_errno, int length, const char *message)
{
	return create_error(SNAP_ERROR_OS, os_errno, strndup(message, (size_t)length));
}

struct stacksnap_error *snap_error_wrap(struct stacksnap_error *error, const char *format, ...)
{
	va_list arguments;
	struct stacksnap_error *wrapped;

	if (!error || error == &no_memory || error == &cancelled)
		return error;
	va_start(arguments, format);
	wrapped = create_error(error->code, error->os_errno,
			       join_message(format, arguments, ": ", snap_error_message(error)));
	va_end(arguments);
	snap_error_destroy(error);
	return wrapped;
}

struct stacksnap_error *snap_error_no_memory(void)
{
	return &no_memory;
}

struct stacksnap_error *snap_error_not_found(void)
{
	return &not_found;
}

struct stacksnap_error *snap_error_cancelled(void)
{
	return &cancelled;
}

enum snap_error_code snap_error_code(const struct stacksnap_error *error)
{
	return error->code;
}

bool snap_error_says_more(const struct stacksnap_error *error)
{
	return error->message;
}

int snap_error_errno(const struct stacksnap_error *error)
{
	return error->os_errno;
}

const char *snap_error_message(const struct stacksnap_error *error)
{
	return error->message ? error->message : error->text;
}

void snap_error_destroy(struct stacksnap_error *error)
{
	if (!error || !error->message)
		return;
	free(error->message);
	free(error);
}
