/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Internal: what the files of the client of a remote unwinder share. The parser's side (parser.c,
 * managed.c, tasks.c) does not include it.
 *
 *	unwinder.c    which processes the parser has; which process to blame for a lost parser
 *	call.c        the parser, and one call of it
 *	answer.c      checks an answer about a thread
 *	take_tasks.c  checks an answer about the tasks of a process
 */
#pragma once

#include "roles/fallback.h"
#include "roles/unwinder/exchange.h"
#include "roles/unwinder/unwinder.h"

/* What the client knows of a process, by its number. */
struct snap_remote_process {
	bool is_entered; /* the current parser has it */
	uint8_t losses;  /* parsers that were lost over it */
	uid_t uid;       /* its user when it was last seen */
	int64_t slow_ns; /* processor time of slow stacks; a tenth of the time is forgiven */
	int64_t slow_at; /* CLOCK_MONOTONIC: when that was so */
	struct snap_remote_frames *frames; /* managed frames, by their numbers; NULL: none yet */
};

/* A user who has processes; stacks of a user who cost too many parsers are not unwound any more. */
struct snap_remote_user {
	uid_t uid;
	unsigned losses;
};

struct snap_remote_unwinder {
	const struct snap_options *options;
	_Atomic int64_t *asked_ns; /* see snap_remote_unwinder_heed(); NULL: no caller will ask */
	struct snap_role role;     /* SNAP_ROLE_NONE: no parser */
	pid_t maker;               /* the thread that made it, with which it ends */
	uint32_t calls;            /* calls that were made */
	uint32_t asked;            /* requests for files that were answered */
	int64_t answered_ns;       /* CLOCK_MONOTONIC: when it last answered, or was made */
	int64_t used_ns;           /* processor time that it had used by then; -1: it is new */
	/* Our copies of values in the exchange, whose own values are not trusted. */
	struct snap_exchange *exchange;
	uint64_t exchange_size, stack_capacity, most_pcs;
	uint8_t *stacks;
	struct snap_pc *shared_pcs;
	struct snap_exchange_room room;
	uint64_t most_used;   /* bytes of stacks, since it was trimmed */
	uint64_t most_memory; /* likewise of the memory of interpreters, and of texts */
	/* What the next call says. */
	uint32_t left[SNAP_EXCHANGE_LEFT];
	size_t left_count;
	bool resets;
	uint64_t entered_bytes; /* that were sent to the current parser since it began anew */
	bool has_left_any;      /* of the processes that the current parser knew */
	struct snap_remote_process *processes; /* by number */
	size_t process_count;
	struct snap_remote_user *users;
	size_t user_count, user_capacity;
	/* The answer. */
	struct snap_pc *pcs;
	size_t pc_capacity;
	struct snap_remote_managed managed;
	struct snap_log_managed *placed;
	size_t placed_capacity;
	struct snap_label labels[SNAP_EXCHANGE_LABELS];
	struct snap_remote_taken_tasks *tasks; /* see take_tasks.c; NULL: none were requested */
	char *text;                            /* of the answer, with a NUL behind it */
	size_t text_capacity;
	struct snap_arena arena; /* of reasons */
	struct snap_interner reasons;
	unsigned losses;
	int64_t most_wait_ns;          /* for one stack; 0: the usual time */
	unsigned late;                 /* of the losses: parsers that took too long over a stack */
	char why[160];                 /* of the last one */
	struct snap_refusals refusals; /* files that ended one */
};

/* The subject of a call: one of these. */
struct snap_remote_question {
	const struct snap_thread *thread;
	const struct snap_process
		*whole; /* a process whose tasks are wanted: its threads and memory */
};

enum snap_call_result {
	SNAP_CALL_ANSWERED,
	SNAP_CALL_LEFT, /* the parser had ended as agreed: the call may be made again */
	SNAP_CALL_DIED,
	SNAP_CALL_LATE,
	SNAP_CALL_NONSENSE,
	SNAP_CALL_CANCELLED,
};

/* ---- the answer: answer.c ---- */

/* Takes the answer, checked; false: it makes no sense. */
bool snap_remote_take_answer(struct snap_remote_unwinder *unwinder, uint32_t number,
			     struct snap_pcs *ret);
/* The same of an answer about tasks: take_tasks.c. */
bool snap_remote_take_task_answer(struct snap_remote_unwinder *unwinder, uint32_t number);

/* Parts of both. Copies shared memory once, so that the compiler cannot read it again. */
void snap_remote_take(void *to, const void *from, size_t size);
/* A text by its place + 1; NULL for 0. False: it lies outside, or is too long. */
bool snap_remote_text_at(const struct snap_remote_unwinder *unwinder, uint32_t size, uint32_t place,
			 const char **ret);
/* The reason of a stack that ended early, as a private copy; NULL: it is empty or invalid. */
const char *snap_remote_reason(struct snap_remote_unwinder *unwinder, const char *text,
			       size_t size);
/* Takes the texts and new managed frames of an answer. */
bool snap_remote_take_frames(struct snap_remote_unwinder *unwinder,
			     struct snap_remote_process *process,
			     const struct snap_exchange_answer *answer);
/* A managed frame by its number; NULL: there is none. */
const struct snap_frame *snap_remote_frame(const struct snap_remote_process *process,
					   uint32_t number);
/* The tasks that it took. */
const struct snap_remote_tasks *
snap_remote_unwinder_task_answer(const struct snap_remote_unwinder *unwinder);
/* Releases them. */
void snap_remote_drop_tasks(struct snap_remote_unwinder *unwinder);
/* The parser has no frames of the process any more, or does not know the process. */
void snap_remote_forget_frames(struct snap_remote_process *process);

/*
 * Maps an exchange for a new parser in place of the old one. The contents of the old one are not
 * trusted, and a parser that a file system blocks may still write there. OS.
 */
struct stacksnap_error *
snap_remote_renew_exchange(struct snap_remote_unwinder *unwinder) _must_check_;
void snap_remote_unmap_exchange(struct snap_remote_unwinder *unwinder);
/* Gives the memory of large stacks back. */
void snap_remote_trim_exchange(struct snap_remote_unwinder *unwinder);

/* Makes a parser if there is none. OS. */
struct stacksnap_error *snap_remote_make_parser(struct snap_remote_unwinder *unwinder) _must_check_;
/*
 * Between calls: ends a parser that has left, or that has used the processor without a call. The
 * second is a loss, but costs no stack.
 */
void snap_remote_check_parser(struct snap_remote_unwinder *unwinder);
/* Ends it; returns what snap_role_end() does. */
int snap_remote_end_parser(struct snap_remote_unwinder *unwinder);

/* A time, halved for each late parser, at most `most` times. */
int64_t snap_remote_halved(int64_t ns, unsigned late, unsigned most);

/* Whether to give up, by the cancel flag or because a caller waits for the end. */
bool snap_remote_is_cancelled(const struct snap_remote_unwinder *unwinder);

/* Makes the call and waits for its answer, which is in the exchange. */
enum snap_call_result snap_remote_call(struct snap_remote_unwinder *unwinder, uint32_t number,
				       bool enters, const struct snap_remote_question *question);
