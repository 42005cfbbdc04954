/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Targets that are never the same for long, and what they tell of themselves: each of their threads
 * stamps the moments at which it ran into memory that the judge sees too.
 */
#pragma once

#include "soak.h"

enum {
	CHURN_STAMPS = 1 << 20,
	CHURN_LINES = 3, /* threads that go on for ever, by successors or by themselves */
	CHURN_SLOTS = 64,
};

struct churn_stamp {
	int64_t time_ns; /* CLOCK_REALTIME */
	pid_t tid;
};

struct churn_log {
	uint64_t next;                   /* grows; its rest by CHURN_STAMPS is the place */
	volatile int lines[CHURN_LINES]; /* has begun */
	struct churn_stamp stamps[CHURN_STAMPS];
};

/* "I run now." */
void churn_stamp(struct churn_log *log);

/* In the target; never returns. `fd` is the file of the log. */
__attribute__((noreturn)) void churn_main(const char *kind, struct churn_log *log, int fd);
