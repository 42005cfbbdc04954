/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of the client of a remote unwinder: what its files share. The parser's side (parser.c,
 * managed.c, tasks.c) does not include it.
 *
 *	unwinder.c    which processes the parser knows, whose fault it is when one is lost
 *	call.c        the parser, and one call of it
 *	answer.c      what is believed of an answer about a thread
 *	take_tasks.c  the same of one about the tasks of a process
 */
#ifndef SNAP_ROLES_UNWINDER_INTERNAL_H
#define SNAP_ROLES_UNWINDER_INTERNAL_H

#include "roles/fallback.h"
#include "roles/unwinder/exchange.h"
#include "roles/unwinder/unwinder.h"

/* What is known of a process, by its number. */
struct snap_remote_process {
	bool is_entered; /* the parser at hand has it */
	uint8_t losses;  /* parsers that were lost over it */
	uid_t uid;       /* whose it was when it was last seen */
	int64_t slow_ns; /* processor time of stacks that took long; a tenth of the time is forgiven */
	int64_t slow_at;                   /* CLOCK_MONOTONIC: when that was so */
	struct snap_remote_frames *frames; /* managed ones, by their numbers; NULL: none yet */
};

/* Whose processes there are; nobody's stacks are unwound any more who cost too many parsers. */
struct snap_remote_user {
	uid_t uid;
	unsigned losses;
};

struct snap_remote_unwinder {
	const struct snap_options *options;
	_Atomic int64_t *asked_ns; /* see snap_remote_unwinder_heed(); NULL: nobody will ask */
	struct snap_role role;     /* SNAP_ROLE_NONE: no parser */
	pid_t maker;               /* the thread that made it, whose end is its end */
	uid_t uid;                 /* of the parser */
	uint32_t calls;            /* that it was made */
	uint32_t asked;            /* files that it asked for and was answered */
	int64_t answered_ns;       /* CLOCK_MONOTONIC: when it last answered, or was made */
	int64_t used_ns;           /* processor time that it had used by then; -1: it is new */
	/* Of the exchange, as what stands there is not believed. */
	struct snap_exchange *exchange;
	uint64_t exchange_size, stack_capacity, most_pcs;
	uint8_t *stacks;
	struct snap_pc *shared_pcs;
	struct snap_exchange_room room;
	uint64_t most_used;   /* bytes of stacks, since it was trimmed */
	uint64_t most_memory; /* likewise of the memory of interpreters, and of texts */
	/* What the next call tells. */
	uint32_t left[SNAP_EXCHANGE_LEFT];
	size_t left_count;
	bool resets;
	uint64_t entered_bytes; /* that were sent to the parser at hand since it began anew */
	bool has_left_any;      /* of those that the parser at hand knew */
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
	struct snap_remote_taken_tasks *tasks; /* take_tasks.c; NULL: none were asked for */
	char *text;                            /* of the answer, with a NUL behind it */
	size_t text_capacity;
	struct snap_arena arena; /* of reasons */
	struct snap_interner reasons;
	unsigned losses;
	int64_t most_wait_ns;          /* for one stack; 0: as long as it may take */
	unsigned late;                 /* of these: parsers that took too long over a stack */
	char why[160];                 /* of the last one */
	struct snap_refusals refusals; /* files that ended one */
};

/* What a call is about: one of them. */
struct snap_remote_question {
	const struct snap_thread *thread;
	const struct snap_process *whole; /* its tasks are wanted: threads, and memory */
};

enum snap_call_result {
	SNAP_CALL_ANSWERED,
	SNAP_CALL_LEFT, /* it had gone in good order: the call may be made again */
	SNAP_CALL_DIED,
	SNAP_CALL_LATE,
	SNAP_CALL_NONSENSE,
	SNAP_CALL_CANCELLED,
};

/* ---- the answer: answer.c ---- */

/* Believes what can be; false: it makes no sense. */
bool snap_remote_take_answer(struct snap_remote_unwinder *unwinder, uint32_t number,
			     struct snap_pcs *ret);
/* The same of an answer about tasks: take_tasks.c. */
bool snap_remote_take_task_answer(struct snap_remote_unwinder *unwinder, uint32_t number);

/* Parts of both. Copies what the compiler might read again where that is cheaper. */
void snap_remote_take(void *to, const void *from, size_t size);
/* A text by its place + 1; NULL for 0. False: it lies outside, or is too long. */
bool snap_remote_text_at(const struct snap_remote_unwinder *unwinder, uint32_t size, uint32_t place,
			 const char **ret);
/* A reason of a stack that ended early, as a text of its own; NULL: it is none. */
const char *snap_remote_reason(struct snap_remote_unwinder *unwinder, const char *text,
			       size_t size);
/* Texts and new managed frames of an answer. */
bool snap_remote_take_frames(struct snap_remote_unwinder *unwinder,
			     struct snap_remote_process *process,
			     const struct snap_exchange_answer *answer);
/* A managed frame by its number; NULL: there is none. */
const struct snap_frame *snap_remote_frame(const struct snap_remote_process *process,
					   uint32_t number);
/* What it took. */
const struct snap_remote_tasks *
snap_remote_unwinder_task_answer(const struct snap_remote_unwinder *unwinder);
/* Releases them. */
void snap_remote_drop_tasks(struct snap_remote_unwinder *unwinder);
/* The parser has none of a process any more, or was not told of it. */
void snap_remote_forget_frames(struct snap_remote_process *process);

/*
 * Maps an exchange for a new parser in place of the last one's: nothing of what that may have left
 * there is believed, and it may still be writing where a file system holds it. OS.
 */
struct stacksnap_error *
snap_remote_renew_exchange(struct snap_remote_unwinder *unwinder) _must_check_;
void snap_remote_unmap_exchange(struct snap_remote_unwinder *unwinder);
/* Gives the memory of large stacks back. */
void snap_remote_trim_exchange(struct snap_remote_unwinder *unwinder);

/* Makes a parser where there is none. OS. */
struct stacksnap_error *snap_remote_make_parser(struct snap_remote_unwinder *unwinder) _must_check_;
/*
 * Between calls: ends a parser that has left, or has used the processor though nobody had asked it
 * for anything. The second is a loss, and nobody's stack is lost by it.
 */
void snap_remote_check_parser(struct snap_remote_unwinder *unwinder);
/* Ends it; returns what snap_role_end() does. */
int snap_remote_end_parser(struct snap_remote_unwinder *unwinder);

/* What is left of a time after so many parsers that were late: halved by each, `most` times. */
int64_t snap_remote_halved(int64_t ns, unsigned late, unsigned most);

/* Whether it is to be given up, by the cancel flag or because somebody waits for the end. */
bool snap_remote_is_cancelled(const struct snap_remote_unwinder *unwinder);

/* Makes the call and waits for its answer, which is in the exchange. */
enum snap_call_result snap_remote_call(struct snap_remote_unwinder *unwinder, uint32_t number,
				       bool enters, const struct snap_remote_question *question);

#endif
