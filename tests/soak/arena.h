/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A place with nobody else in it, where all hostile programs of tests/targets live beside a service
 * and bystanders who have done nothing; and watchers that look at those all the time.
 *
 * Knows what the hostile programs are called and how they are started, not what they do.
 */
#pragma once

#include "soak.h"

#include <stdatomic.h>

enum { ARENA_MOST = 48, ARENA_STOP_MS = 1000, ARENA_GRACE_MS = 500 };

/* Written by the watchers. */
struct soak_watch {
	atomic_bool end;
	atomic_long stopped_ms_max; /* the longest that an innocent thread was in `t`, by looks */
	atomic_long stopped_too_long;
	atomic_long memory_kib_max; /* proportional sets of all processes of the tool */
	atomic_long looks;
};

struct soak_arena {
	const struct soak *soak;
	pid_t service;
	long service_threads; /* but for the first */
	pid_t hostile[ARENA_MOST], bystanders[ARENA_MOST], watchers[2];
	const char *makers[ARENA_MOST]; /* what the program is told to do that made the bystander */
	int inputs[ARENA_MOST];
	size_t hostile_count, bystander_count, input_count;
	struct soak_watch *watch; /* shared */
	char all_pids[512];       /* with commas: hostile ones and the service */
};

/* In a pid namespace from here on, as its first process; ends with 77 where that cannot be. */
void soak_arena_enter(void);
void soak_arena_start(struct soak_arena *arena, const struct soak *soak);
/* Ends all; complains of a process of the tool that is left then. */
void soak_arena_end(struct soak_arena *arena);

/* Buries orphans; `mine` is not one. */
void soak_arena_reap(pid_t mine);
/* Complains of innocents that stay in `t` while nobody has a reason; how many there were. */
long soak_arena_expect_free(struct soak_arena *arena, const char *what);
/* Processes of the tool, whoever made them. */
size_t soak_arena_ours(pid_t *pids, size_t room);

/* watch.c: two children that look until the end. */
void soak_watch_start(struct soak_arena *arena);
void soak_watch_end(struct soak_arena *arena);

/* mixed.c */
void soak_mixed(const struct soak *soak);
void soak_hostile(const struct soak *soak);
