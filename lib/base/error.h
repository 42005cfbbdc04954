/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Errors as values.
 *
 * A function that can fail returns `struct stacksnap_error *`, NULL for success; results come last
 * and are written only on success. A function that receives an error either returns it or destroys it.
 * Trouble with one thread, module or frame is no error: it is recorded on that thing. Does not
 * print: only the program does.
 */
#pragma once

#include "base/cleanup.h"

#include <stdbool.h>

enum snap_error_code {
	SNAP_ERROR_OTHER,
	SNAP_ERROR_NO_MEMORY,
	SNAP_ERROR_NOT_FOUND,  /* the thing asked for is not there */
	SNAP_ERROR_CANCELLED,  /* the caller's cancel flag was seen */
	SNAP_ERROR_OS,         /* a system call failed: see the errno */
	SNAP_ERROR_INVALID,    /* the caller's argument makes no sense: a usage error */
	SNAP_ERROR_FORMAT,     /* a file is not what it should be */
	SNAP_ERROR_PERMISSION, /* not allowed; the message names the rule */
	SNAP_ERROR_TIMEOUT,    /* a deadline of the caller passed */
	SNAP_ERROR_CRASHED,    /* the process that did the work ended before it had */
};

struct stacksnap_error;

/* An error of `code`. Its message: lower case, no full stop; what failed, on what, why, remedy. */
struct stacksnap_error *snap_error_format(enum snap_error_code code, const char *format,
					  ...) _must_check_ _printf_(2, 3);

/* An error for `os_errno`; the message is followed by ": " and the errno's text. */
struct stacksnap_error *snap_error_os(int os_errno, const char *format, ...) _must_check_
	_printf_(2, 3);

/* An error for `os_errno` that was worded elsewhere: its message is whole. */
struct stacksnap_error *snap_error_remote(int os_errno, int length,
					  const char *message) _must_check_;

/* Puts "what: " in front of an error's message. Consumes `error`, which may be NULL. */
struct stacksnap_error *snap_error_wrap(struct stacksnap_error *error, const char *format,
					...) _must_check_ _printf_(2, 3);

/* Shared, never allocated, destroy is a no-op. */
struct stacksnap_error *snap_error_no_memory(void) _must_check_ __attribute__((returns_nonnull));
struct stacksnap_error *snap_error_not_found(void) _must_check_;
struct stacksnap_error *snap_error_cancelled(void) _must_check_;

/* NULL where there was enough memory, else the error. */
static inline _must_check_ struct stacksnap_error *snap_no_memory_unless(bool enough)
{
	return enough ? NULL : snap_error_no_memory();
}

/*
 * Returns the error of a call from the function that it stands in, if there is one; guards of
 * cleanup.h release what that has.
 */
#define SNAP_TRY(call)                                        \
	do {                                                  \
		struct stacksnap_error *snap_failed = (call); \
                                                              \
		if (snap_failed)                              \
			return snap_failed;                   \
	} while (0)

enum snap_error_code snap_error_code(const struct stacksnap_error *error);
/* The errno behind an error, 0 if there is none. */
int snap_error_errno(const struct stacksnap_error *error);
/* Whether its message says more than its code: not so that of a shared one. */
bool snap_error_says_more(const struct stacksnap_error *error);
/* Borrowed from the error. */
const char *snap_error_message(const struct stacksnap_error *error);

void snap_error_destroy(struct stacksnap_error *error);

SNAP_POINTER_GUARD(struct stacksnap_error, snap_error_destroy);

/* Destroys the error; true if there was one of this code. */
static inline int snap_error_is(struct stacksnap_error *error, enum snap_error_code code)
{
	int is = error && snap_error_code(error) == code;

	snap_error_destroy(error);
	return is;
}

/* "Failed, and it does not matter why": destroys the error, true if there was one. */
static inline int snap_error_ignore(struct stacksnap_error *error)
{
	snap_error_destroy(error);
	return error != NULL;
}
