/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libstacksnap: from a process id to a grouped, symbolized tree of stacks.
 *
 *     options --take--> capture --analyze--> snapshot --render--> bytes
 *
 * A capture is what was read while the target stood still for a few milliseconds; when
 * stacksnap_capture_take() returns, the target runs again. A snapshot is the tree that is printed.
 * All types are opaque. Functions that can fail return an error, NULL for success, and write their
 * last parameter only on success. The library never prints, never exits, installs no signal handler
 * and keeps no global state: different objects may be used in different threads at once, one object
 * by one thread at a time (a cancel flag excepted). See libstacksnap(3).
 */
#ifndef STACKSNAP_H
#define STACKSNAP_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stacksnap_error;
struct stacksnap_options;
struct stacksnap_capture;
struct stacksnap_snapshot;

/* The library's version, "1.2.3"; static. */
const char *stacksnap_version(void);

enum stacksnap_error_code {
	STACKSNAP_ERROR_OTHER = 0,
	STACKSNAP_ERROR_NO_MEMORY = 1,
	STACKSNAP_ERROR_NOT_FOUND = 2,
	STACKSNAP_ERROR_CANCELLED = 3,
	STACKSNAP_ERROR_OS = 4,
	STACKSNAP_ERROR_INVALID = 5,
	STACKSNAP_ERROR_FORMAT = 6,
	STACKSNAP_ERROR_PERMISSION = 7,
	STACKSNAP_ERROR_TIMEOUT = 8,
};

enum stacksnap_error_code stacksnap_error_code(const struct stacksnap_error *error);
/* The code as a word ("not_found"), fit for the code of a warning; static. */
const char *stacksnap_error_word(const struct stacksnap_error *error);
/* The errno behind it, 0 if there is none. */
int stacksnap_error_errno(const struct stacksnap_error *error);
/* One sentence, lower case, may hold raw bytes of the target; borrowed from the error. */
const char *stacksnap_error_message(const struct stacksnap_error *error);
/* Takes NULL. */
void stacksnap_error_destroy(struct stacksnap_error *error);

/* Options with their defaults. The caller's, released by stacksnap_options_destroy(). */
struct stacksnap_error *stacksnap_options_create(struct stacksnap_options **ret);
void stacksnap_options_destroy(struct stacksnap_options *options);

/*
 * Sets an option by the long name it has on the command line, without dashes ("max-stack",
 * "no-lines", "pid"), to a text (NULL for options without argument). Targets ("pid", "name",
 * "unit", "cgroup", "container", "all") and "debug-dir" add up, others replace. Texts are copied.
 * INVALID: no such option, or a value that makes no sense; the message says which values do.
 */
struct stacksnap_error *stacksnap_options_set(struct stacksnap_options *options, const char *name,
					      const char *value);

/*
 * A flag that every stage polls: once it is not 0, the running call releases the target and returns
 * CANCELLED. May be set from a signal handler or another thread. NULL: none (the default).
 */
void stacksnap_options_set_cancel(struct stacksnap_options *options, const volatile int *flag);

/* The time that the whole run may take ("timeout"), for the caller who has a clock and a cancel
 * flag. */
unsigned stacksnap_options_timeout_ms(const struct stacksnap_options *options);

/* Called with one line of text while a download runs, NULL at its end; NULL: nobody (default). */
void stacksnap_options_set_progress(struct stacksnap_options *options,
				    void (*progress)(void *context, const char *text),
				    void *context);

/* Stops the targets, copies, lets them run. Trouble of single processes is inside the capture. */
struct stacksnap_error *stacksnap_capture_take(const struct stacksnap_options *options,
					       struct stacksnap_capture **ret);
/* Writes a capture with copies of what another machine cannot find; reads one back. */
struct stacksnap_error *stacksnap_capture_save(struct stacksnap_capture *capture,
					       const struct stacksnap_options *options, int fd);
struct stacksnap_error *stacksnap_capture_load(int fd, struct stacksnap_capture **ret);
void stacksnap_capture_destroy(struct stacksnap_capture *capture);

/* Unwinds, symbolizes, groups. The capture is only read; the result does not need it. */
struct stacksnap_error *stacksnap_capture_analyze(const struct stacksnap_capture *capture,
						  const struct stacksnap_options *options,
						  struct stacksnap_snapshot **ret);

/* Take and analyze in one call. */
struct stacksnap_error *stacksnap_take(const struct stacksnap_options *options,
				       struct stacksnap_snapshot **ret);
/* The tree of processes alone: nobody is stopped and there are no stacks. */
struct stacksnap_error *stacksnap_list(const struct stacksnap_options *options,
				       struct stacksnap_snapshot **ret);
/*
 * A snapshot without processes that carries one warning (both texts are copied), for programs that
 * promise a document even when taking one failed. Its outcome is NOTHING.
 */
struct stacksnap_error *stacksnap_snapshot_create_empty(const struct stacksnap_options *options,
							const char *warning_code,
							const char *warning_message,
							struct stacksnap_snapshot **ret);
void stacksnap_snapshot_destroy(struct stacksnap_snapshot *snapshot);

/*
 * "text" or "json", to a stream of the caller's, which is neither flushed nor closed. What
 * stacksnap_list() returned is a tree without stacks in either.
 */
struct stacksnap_error *stacksnap_snapshot_render(const struct stacksnap_snapshot *snapshot,
						  const struct stacksnap_options *options,
						  const char *format, FILE *out);

/* Name and help of format number `index`, NULL past the last; static. */
const char *stacksnap_format_name(size_t index, const char **suffix_ret, const char **help_ret);

/* The format whose suffix a file's name has, NULL: none; static. */
const char *stacksnap_format_of_path(const char *path);

/* What a snapshot amounts to: the exit status of the tool. */
enum stacksnap_outcome {
	STACKSNAP_OUTCOME_WHOLE = 0,   /* all that was asked for is there */
	STACKSNAP_OUTCOME_PARTIAL = 1, /* something is missing; the snapshot says what */
	STACKSNAP_OUTCOME_NOTHING = 2, /* no process could be shown */
};
enum stacksnap_outcome stacksnap_snapshot_outcome(const struct stacksnap_snapshot *snapshot);

/*
 * Warning number `index` in the order in which they came; false past the last. The texts are
 * escaped and borrowed from the snapshot. pid_ret, tid_ret may be NULL; 0 stands for none.
 */
int stacksnap_snapshot_warning(const struct stacksnap_snapshot *snapshot, size_t index,
			       const char **code_ret, const char **message_ret, pid_t *pid_ret,
			       pid_t *tid_ret);

/*
 * The process number `index` of those that could not be shown and are worth a word: all that were
 * named by pid, and live user processes; false past the last. Code (error.code of the JSON) and
 * message (escaped) are borrowed from the snapshot.
 */
int stacksnap_snapshot_trouble(const struct stacksnap_snapshot *snapshot, size_t index,
			       const char **code_ret, const char **message_ret, pid_t *pid_ret);

/* How long the target stood still, in nanoseconds: the longest of several trees'. */
long long stacksnap_snapshot_stop_duration_ns(const struct stacksnap_snapshot *snapshot);

size_t stacksnap_snapshot_process_count(const struct stacksnap_snapshot *snapshot);
size_t stacksnap_snapshot_thread_count(const struct stacksnap_snapshot *snapshot);
size_t stacksnap_snapshot_stack_count(const struct stacksnap_snapshot *snapshot);

/*
 * Makes text that came from a target safe to print: controls, bidirectional overrides and bytes
 * that are not UTF-8 become \xNN, a backslash \\; with `ascii` every byte above 0x7e too. Writes at
 * most `size` bytes with the NUL and returns the length; 4 * length + 1 always suffices.
 */
size_t stacksnap_escape(const char *text, size_t length, int ascii, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
