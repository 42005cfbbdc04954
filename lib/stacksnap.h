/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libstacksnap: from a process id to a grouped, symbolized tree of stacks, or to the places where
 * its threads spent their time.
 *
 *     options --take--> capture --analyze--> snapshot --render--> bytes
 *     options --recorder--> recording --render--> bytes
 *
 * A capture is what was read while the target stood still for a few milliseconds; when
 * stacksnap_capture_take() returns, the target runs again. A snapshot is the tree that is printed.
 * A recorder looks at all threads many times a second; a recording is what it held at one moment.
 * All types are opaque. Functions that can fail return an error, NULL for success, and write their
 * last parameter only on success. The library never prints, never exits, installs no signal handler
 * and keeps no global state: different objects may be used in different threads at once, one object
 * by one thread at a time (a cancel flag and stacksnap_recorder_stop() excepted). See
 * libstacksnap(3).
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
struct stacksnap_recorder;
struct stacksnap_recording;
struct stacksnap_groups;
struct stacksnap_watcher;
struct stacksnap_alert;
struct stacksnap_merger;
struct stacksnap_diff;

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
	STACKSNAP_ERROR_CRASHED = 9,
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
 * Word number `index` of those that an option takes, for completions and messages. NULL past the
 * last, and for options that take no value or any text; static.
 */
const char *stacksnap_options_value(const char *name, size_t index);

/*
 * A flag that every stage polls: once it is not 0, the running call releases the target and returns
 * CANCELLED. May be set from a signal handler or another thread. NULL: none (the default).
 */
void stacksnap_options_set_cancel(struct stacksnap_options *options, const volatile int *flag);

/* The time that the whole run may take ("timeout"), for a caller with a clock and a cancel flag. */
unsigned stacksnap_options_timeout_ms(const struct stacksnap_options *options);

/*
 * Keeps a trace from now on of what happens to threads with these options: how each was copied, and
 * what has cut its stack. Of all threads, or of up to 64. INVALID: of more. OS: there is no memory.
 */
struct stacksnap_error *stacksnap_options_set_trace(struct stacksnap_options *options,
						    const pid_t *tids, size_t count);
/*
 * The next event of the trace, in the order of time, as a line of ASCII without a newline; 0 past
 * the last. *cursor begins with 0. It counts all events, also the old ones that newer events have
 * replaced, which it passes over. *kind_ret: a number for this kind of event, odd if it is worth a
 * look. *tid_ret of tasks is the pid of their process, negative.
 */
int stacksnap_options_next_trace(const struct stacksnap_options *options,
				 unsigned long long *cursor, pid_t *tid_ret, unsigned *kind_ret,
				 char *text, size_t size);

/*
 * From now on a process that is named by "pid" is the one that `seen`, a snapshot of the same targets
 * as stacksnap_list() makes it, has under that number. If it has ended, the result says so, also where
 * another process has its number. Takes the place of an earlier call. NO_MEMORY.
 */
struct stacksnap_error *stacksnap_options_pin(struct stacksnap_options *options,
					      const struct stacksnap_snapshot *seen);

/* Called with one line of text while a download runs, NULL at its end; NULL: no calls (default). */
void stacksnap_options_set_progress(struct stacksnap_options *options,
				    void (*progress)(void *context, const char *text),
				    void *context);

/*
 * Called where the text names a file without symbols, by its build id, in lower-case hex: which package
 * has them. The result is read until the next call; NULL: not known. NULL: no calls (default).
 */
void stacksnap_options_set_symbol_packages(struct stacksnap_options *options,
					   const char *(*find)(void *context, const char *build_id),
					   void *context);

/*
 * Stops the targets, copies, lets them run. Trouble of single processes is inside the capture. A
 * child process holds it until it is destroyed; the options' timeout runs from here to the end of
 * its first analysis.
 */
struct stacksnap_error *stacksnap_capture_take(const struct stacksnap_options *options,
					       struct stacksnap_capture **ret);
/* Writes a capture with copies of what another machine cannot find; reads one back. */
struct stacksnap_error *stacksnap_capture_save(struct stacksnap_capture *capture,
					       const struct stacksnap_options *options, int fd);
struct stacksnap_error *stacksnap_capture_load(int fd, struct stacksnap_capture **ret);
/*
 * A capture of a core file (core(5)), as the kernel and gdb's gcore write them: ELF of 64 bits,
 * also packed. FORMAT: it is none, or the library was built without what unpacks it.
 */
struct stacksnap_error *stacksnap_core_load(int fd, const struct stacksnap_options *options,
					    struct stacksnap_capture **ret);
/* How many bytes of its processes' memory it holds beside their stacks: of managed runtimes. */
unsigned long long stacksnap_capture_memory_bytes(const struct stacksnap_capture *capture);
void stacksnap_capture_destroy(struct stacksnap_capture *capture);

/*
 * Unwinds, symbolizes, groups, in a sandboxed child process; the result does not need the capture.
 * Where that dies or is late the result has fewer names, or stacks, and a warning.
 */
struct stacksnap_error *stacksnap_capture_analyze(struct stacksnap_capture *capture,
						  const struct stacksnap_options *options,
						  struct stacksnap_snapshot **ret);

/*
 * Take and analyze in one call, which is faster. With "again" it does so twice, and the result is
 * the second one, in which the threads that are stuck since the first are marked. The child process
 * that took the capture ends by itself meanwhile; stacksnap_snapshot_destroy() waits for its end.
 */
struct stacksnap_error *stacksnap_take(const struct stacksnap_options *options,
				       struct stacksnap_snapshot **ret);
/* The tree of processes alone: no process is stopped and there are no stacks. */
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
 * In a format of stacksnap_format_name(), to a stream of the caller's, which is neither flushed nor
 * closed. What stacksnap_list() returned is a tree without stacks in each. Two more are no format
 * of a file: "thread-counts" and "thread-dump", which are what Go's net/http/pprof answers with
 * debug=1 and debug=2.
 */
struct stacksnap_error *stacksnap_snapshot_render(const struct stacksnap_snapshot *snapshot,
						  const struct stacksnap_options *options,
						  const char *format, FILE *out);

/* Name and help of format number `index`, NULL past the last; static. */
const char *stacksnap_format_name(size_t index, const char **suffix_ret, const char **help_ret);

/* The format whose suffix a file's name has, NULL: none; static. */
const char *stacksnap_format_of_path(const char *path);

/* Whether a format is bytes that no terminal should see; false for an unknown one. */
int stacksnap_format_is_binary(const char *name);

/* What a snapshot amounts to: the exit status of the tool. */
enum stacksnap_outcome {
	STACKSNAP_OUTCOME_WHOLE = 0, /* all that was asked for is there */
	/* something is missing; the snapshot says what. With "deadlocks": there is one */
	STACKSNAP_OUTCOME_PARTIAL = 1,
	STACKSNAP_OUTCOME_NOTHING = 2, /* no process could be shown */
	/* with "deadlocks": there is none, as far as could be seen; the snapshot says what could not */
	STACKSNAP_OUTCOME_UNKNOWN = 3,
};
/*
 * What it could not know of waits, number `index`, so that a deadlock may have been missed; NULL past
 * the last; static.
 */
const char *stacksnap_snapshot_lack(const struct stacksnap_snapshot *snapshot, size_t index);
enum stacksnap_outcome stacksnap_snapshot_outcome(const struct stacksnap_snapshot *snapshot);

/*
 * Warning number `index` in the order in which they came; false past the last. The texts are
 * escaped and borrowed from the snapshot. pid_ret, tid_ret may be NULL; 0 means none.
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

/*
 * The process number `index`, parents before their children; false past the last. Name and
 * description are raw bytes of the target, borrowed from the snapshot, NULL if unknown. Pointers
 * may be NULL.
 */
int stacksnap_snapshot_process(const struct stacksnap_snapshot *snapshot, size_t index,
			       pid_t *pid_ret, const char **name_ret, const char **description_ret);

/* How long the target stood still, in nanoseconds: the longest of several trees'. */
long long stacksnap_snapshot_stop_duration_ns(const struct stacksnap_snapshot *snapshot);

size_t stacksnap_snapshot_process_count(const struct stacksnap_snapshot *snapshot);
size_t stacksnap_snapshot_thread_count(const struct stacksnap_snapshot *snapshot);
size_t stacksnap_snapshot_stack_count(const struct stacksnap_snapshot *snapshot);

/* ---- recordings ---- */

/*
 * Figures of a run. Made by the library alone, which hands out pointers: later versions may add
 * fields at the end.
 */
struct stacksnap_recording_stats {
	double hz_asked, hz_reached;
	unsigned long long ticks, ticks_missed; /* missed: came too late, and were left out */
	long long duration_ns;
	/* the process of the targets that stood still the longest because of us; of duration_ns */
	long long stopped_ns;
	double stopped_percent;
	unsigned long long threads;        /* that were seen */
	unsigned long long thread_samples; /* of all threads at all ticks */
	unsigned long long stacks;         /* distinct */
	/* of the samples: the thread had not run, was copied while it was blocked, was stopped */
	unsigned long long kept, unstopped, alone;
	/* further samples, left out because a process would have been stopped for longer than "max-stopped" */
	unsigned long long left_out;
	/* of the ticks missed: no processor was free when they were due; by choice, for want of
	 * memory; for the rest, the look before took longer than a period */
	unsigned long long ticks_late, ticks_left_out;
};

/* Why a recording ended. */
enum stacksnap_recording_end {
	STACKSNAP_END_TIME = 0,       /* its duration was over */
	STACKSNAP_END_ASKED = 1,      /* stacksnap_recorder_stop(), the cancel flag, or `tick` */
	STACKSNAP_END_CONDITION = 2,  /* "until" was met */
	STACKSNAP_END_TARGETS = 3,    /* no target was left */
	STACKSNAP_END_PERMISSION = 4, /* the targets may not be read any more */
	STACKSNAP_END_UNFINISHED = 5, /* it goes on, or was killed: the file has no end */
	STACKSNAP_END_FAILED = 6,     /* something else: see the warnings */
};

/*
 * Where a run stands; all since its start. Made by the library, for the time of one call of `tick`:
 * later versions may add fields at the end.
 */
struct stacksnap_recorder_status {
	long long elapsed_ns, remaining_ns; /* remaining -1: without an end */
	unsigned long long threads;         /* that are there now */
	const struct stacksnap_recording_stats *stats;
	int condition; /* "until" has just been met: true for one tick */
};

/*
 * Finds the targets; no target is touched yet. NOT_FOUND, PERMISSION, OTHER: none of them can be
 * recorded, and the message says why. Of the options count "hz", "duration", "ring", "until",
 * "mode" and those of captures; the recorder keeps a pointer to them, so they outlive it.
 */
struct stacksnap_error *stacksnap_recorder_create(const struct stacksnap_options *options,
						  struct stacksnap_recorder **ret);
void stacksnap_recorder_destroy(struct stacksnap_recorder *recorder);

/*
 * The recording file (".snaprec") is written to this descriptor as the run goes on: a kill loses at
 * most the last second. -1: no more. The descriptor stays the caller's. INVALID with a ring: what
 * it holds is written whole, by stacksnap_recording_render(). Before the first run.
 */
struct stacksnap_error *stacksnap_recorder_write_to(struct stacksnap_recorder *recorder, int fd);

/*
 * Records in the calling thread until the duration is over, no target is left, "until" is met
 * (with a ring it goes on), the options' cancel flag or stacksnap_recorder_stop() says so, or
 * `tick` returns 0. That is called after each tick; it may be NULL, and may call
 * stacksnap_recorder_slice(). Can be called again to go on. An error ends the run as well: OS when
 * the file of stacksnap_recorder_write_to() cannot be written, which then ends.
 */
struct stacksnap_error *
stacksnap_recorder_run(struct stacksnap_recorder *recorder,
		       int (*tick)(void *context, const struct stacksnap_recorder_status *status),
		       void *context);

/*
 * Ends the run after the current tick. From any thread or signal handler. When no run is going on:
 * _slice() and _finish() look for names no longer than a second from then on, until the next run.
 */
void stacksnap_recorder_stop(struct stacksnap_recorder *recorder);

/*
 * What is held now (with a ring: the last seconds), with names; from within `tick` or between
 * runs. Of these options count "from", "to", "thread", "state", "match" and those of names. The
 * result needs neither the recorder nor the targets.
 */
struct stacksnap_error *stacksnap_recorder_slice(struct stacksnap_recorder *recorder,
						 const struct stacksnap_options *options,
						 struct stacksnap_recording **ret);

/* Ends the file of stacksnap_recorder_write_to(): names, figures, the end. */
struct stacksnap_error *stacksnap_recorder_finish(struct stacksnap_recorder *recorder);

/* Reads a recording file, also one that still grows. The options count as those of a slice. */
struct stacksnap_error *stacksnap_recording_load(int fd, const struct stacksnap_options *options,
						 struct stacksnap_recording **ret);
void stacksnap_recording_destroy(struct stacksnap_recording *recording);

/* In a format of stacksnap_format_name(); the stream is neither flushed nor closed. */
struct stacksnap_error *stacksnap_recording_render(const struct stacksnap_recording *recording,
						   const struct stacksnap_options *options,
						   const char *format, FILE *out);

/* Figures and end of the whole run, whichever slice the recording is; owned by the recording. */
const struct stacksnap_recording_stats *
stacksnap_recording_get_stats(const struct stacksnap_recording *recording);
enum stacksnap_recording_end
stacksnap_recording_get_end(const struct stacksnap_recording *recording);

/*
 * PARTIAL: something is missing, or it ended before it should; NOTHING: it has no tick, or no
 * process could be read. What filters leave out is no loss.
 */
enum stacksnap_outcome stacksnap_recording_outcome(const struct stacksnap_recording *recording);

/* As stacksnap_snapshot_warning(); the last one may be of the latest report: what it left out. */
int stacksnap_recording_warning(const struct stacksnap_recording *recording, size_t index,
				const char **code_ret, const char **message_ret, pid_t *pid_ret,
				pid_t *tid_ret);

/* A short text for people: rate, missed ticks, share of time stopped, top functions by state. */
struct stacksnap_error *stacksnap_recording_summary(const struct stacksnap_recording *recording,
						    const struct stacksnap_options *options,
						    FILE *out);
/* The figures as one JSON object and a newline. */
struct stacksnap_error *
stacksnap_recording_render_stats(const struct stacksnap_recording *recording, FILE *out);

/* ---- groups of a recording ---- */

/*
 * The threads, or tasks of a runtime, of one process that stood in one stack and state. Texts are
 * UTF-8, escaped as stacksnap_escape() does without `ascii`, and borrowed from the groups. Made by
 * the library alone, which hands out pointers: later versions may add fields at the end.
 */
struct stacksnap_group {
	const char *id; /* 16 hex digits: unique in its process, the same in the next recording */
	pid_t pid;
	const char *process; /* its name */
	const char *threads; /* their name, or what their names share ("worker-*"); NULL: nothing */
	const char *state;   /* "running", "sleeping" …; of tasks "waiting" …; NULL: several */
	/* The innermost function of the program's own; where it has none there, the innermost. */
	const char *function;
	const char *leaf;    /* the innermost one, where that is another; NULL: it is not */
	const char *wait;    /* what all wait for, "mutex ledger_lock"; NULL: not known */
	const char *syscall; /* that all are in; NULL: none, or several */
	const char *unwind;  /* how the stack ended, as in JSON: "complete" …; static */
	int is_task;
	unsigned long long samples;
	size_t count;       /* threads or tasks that were seen there */
	size_t frame_count; /* functions of the stack, inlined ones, too */
	/* The thread that mostly had what all wait for, "held by 1302 flusher (in flush)"; NULL: not known */
	const char *holder;
	int has_lock;       /* others wait for a lock that one of its threads has there */
	int waits_for_lock; /* such a lock */
};

/*
 * The groups of a recording, which must outlive them, as its JSON has them: those with the most
 * samples first. Of the options count those that group, and "full-names": without it long names
 * are shortened, as in text. NO_MEMORY.
 */
struct stacksnap_error *stacksnap_groups_create(const struct stacksnap_recording *recording,
						const struct stacksnap_options *options,
						struct stacksnap_groups **ret);
void stacksnap_groups_destroy(struct stacksnap_groups *groups);

/* Samples of all groups together, and at how many moments they were taken. */
unsigned long long stacksnap_groups_samples(const struct stacksnap_groups *groups);
size_t stacksnap_groups_ticks(const struct stacksnap_groups *groups);
/* Group number `index`, NULL past the last; borrowed from the groups. */
const struct stacksnap_group *stacksnap_groups_get(const struct stacksnap_groups *groups,
						   size_t index);
/*
 * Function number `frame` of a group's stack, the innermost is 0; NULL past the last, or without
 * memory. *place_ret (may be NULL): its file and line, else its module; NULL: not known. Both as
 * the texts of a group.
 */
const char *stacksnap_groups_frame(struct stacksnap_groups *groups, size_t index, size_t frame,
				   const char **place_ret);
/*
 * Deadlock number `index` of those that stood at the end, in one line of text as those of a group,
 * "DEADLOCK  2 threads: 4670 dl1 waits for mutex accounts, held by 4671 dl2; …"; NULL past the last.
 */
const char *stacksnap_groups_deadlock(const struct stacksnap_groups *groups, size_t index);

/* ---- watches ---- */

/*
 * Looks at the targets again and again, and tells what is wrong with them: the options "watch",
 * "every" and "once" say what and how often. A thread that has not moved is not stopped. The
 * options must outlive it. NOT_FOUND, PERMISSION, INVALID: no targets were named.
 */
struct stacksnap_error *stacksnap_watcher_create(const struct stacksnap_options *options,
						 struct stacksnap_watcher **ret);
void stacksnap_watcher_destroy(struct stacksnap_watcher *watcher);

/*
 * Until the targets are gone, the options' cancel flag or stacksnap_watcher_stop() says so, or
 * `alert`, called when an alert is raised and when it is over, returns 0; with "once" for two
 * looks. *raised_ret: how many were raised.
 */
struct stacksnap_error *stacksnap_watcher_run(struct stacksnap_watcher *watcher,
					      int (*alert)(void *context,
							   const struct stacksnap_alert *alert),
					      void *context, size_t *raised_ret);
/*
 * What the last snapshot of a run could not know of waits, number `index`, so that a deadlock may have
 * been missed; NULL past the last; static.
 */
const char *stacksnap_watcher_lack(const struct stacksnap_watcher *watcher, size_t index);
/* From a signal handler or another thread: the run ends soon. */
void stacksnap_watcher_stop(struct stacksnap_watcher *watcher);

/* An alert is valid during the call that tells of it. Whether what was raised is over. */
int stacksnap_alert_is_over(const struct stacksnap_alert *alert);
/* One line, of JSON (stacksnap-json(5)) or of text. */
struct stacksnap_error *stacksnap_alert_render(const struct stacksnap_alert *alert,
					       const struct stacksnap_options *options, int json,
					       FILE *out);
/* Whether there is a snapshot that shows it; and that in a format of stacksnap_format_name(). */
int stacksnap_alert_has_snapshot(const struct stacksnap_alert *alert);
struct stacksnap_error *stacksnap_alert_render_snapshot(const struct stacksnap_alert *alert,
							const struct stacksnap_options *options,
							const char *format, FILE *out);

/* ---- files ---- */

/* What a file is, by its first 16 bytes (fewer, if it has no more). */
enum stacksnap_file_kind {
	STACKSNAP_FILE_UNKNOWN = 0,
	STACKSNAP_FILE_CAPTURE = 1,
	STACKSNAP_FILE_RECORDING = 2,
	STACKSNAP_FILE_JSON = 3, /* begins as JSON does: perhaps a snapshot */
	STACKSNAP_FILE_CORE = 4, /* ELF, or packed: perhaps a core or a JSON document */
};
enum stacksnap_file_kind stacksnap_file_kind(const void *bytes, size_t size);

/*
 * A snapshot from its JSON document, which may be packed as cores are. What the options group and
 * filter was decided when it was taken. FORMAT: it is none.
 */
struct stacksnap_error *stacksnap_snapshot_load(int fd, const struct stacksnap_options *options,
						struct stacksnap_snapshot **ret);

/* ---- documents of many hosts ---- */

/*
 * Merges snapshots' JSON documents, and what was merged before, into one: groups of stacks with the
 * hosts that have them. What comes of it depends on the documents alone, not on their order or on
 * what was merged first. The options must outlive it.
 */
struct stacksnap_error *stacksnap_merger_create(const struct stacksnap_options *options,
						struct stacksnap_merger **ret);
void stacksnap_merger_destroy(struct stacksnap_merger *merger);

/*
 * Adds all documents from the descriptor's position to its end; several may follow each other, as
 * in JSON Lines, and a file may be packed. Those that cannot be taken are passed over, with a line
 * to `tell` (may be NULL), raw, which begins with `name`; a snapshot that is there already counts
 * once. What was merged must share no document with what is there, so it comes first. OS: the
 * descriptor cannot be read.
 */
struct stacksnap_error *stacksnap_merger_add(struct stacksnap_merger *merger, int fd,
					     const char *name,
					     void (*tell)(void *context, const char *line),
					     void *context);

/* PARTIAL: a document was passed over; NOTHING: all were, or there was none. */
enum stacksnap_outcome stacksnap_merger_outcome(const struct stacksnap_merger *merger);

/* As text, json or jsonl; more may be added behind it. INVALID: another format. */
struct stacksnap_error *stacksnap_merger_render(const struct stacksnap_merger *merger,
						const char *format, FILE *out);

/* Whether a file holds what was merged, by its first 64 bytes (fewer, if it has no more). */
int stacksnap_file_is_merged(const void *bytes, size_t size);

/* ---- differences ---- */

/* One of the two that are compared: a snapshot or a recording, the other one NULL. */
struct stacksnap_look {
	const struct stacksnap_snapshot *snapshot;
	const struct stacksnap_recording *recording;
};

/*
 * What changed between two looks, which must outlive the result: groups by their ids, processes and
 * threads by pid and start, if both are of one boot of one host; of two recordings functions, too.
 * Of the options count those that group recordings.
 */
struct stacksnap_error *stacksnap_diff_create(const struct stacksnap_look *before,
					      const struct stacksnap_look *after,
					      const struct stacksnap_options *options,
					      struct stacksnap_diff **ret);
/* One of nothing that carries a warning, as stacksnap_snapshot_create_empty(). */
struct stacksnap_error *stacksnap_diff_create_empty(const char *warning_code,
						    const char *warning_message,
						    struct stacksnap_diff **ret);
void stacksnap_diff_destroy(struct stacksnap_diff *diff);

/* Whether a group, a process or a function changed. */
int stacksnap_diff_differs(const struct stacksnap_diff *diff);
/* As "text", "json" or "html"; INVALID: in no other format. The stream is neither flushed nor closed. */
struct stacksnap_error *stacksnap_diff_render(const struct stacksnap_diff *diff,
					      const struct stacksnap_options *options,
					      const char *format, FILE *out);

/* ---- text ---- */

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
