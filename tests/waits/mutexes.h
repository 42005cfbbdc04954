/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mutexes of each kind and who holds one, for the programs of this folder: see truth.h. */
#pragma once

#include "truth.h"

#ifdef __GLIBC__
#define HAS_GLIBC 1
#else
#define HAS_GLIBC 0
#endif

enum { LONG_SECONDS = 3000 };

__attribute__((unused)) static struct timespec in_long(clockid_t clock)
{
	struct timespec when;

	clock_gettime(clock, &when);
	when.tv_sec += LONG_SECONDS;
	return when;
}

struct mutex_kind {
	const char *row;
	int type, protocol;
	bool robust, shared;
	bool kept; /* musl keeps its owner */
};

__attribute__((unused)) static bool make_mutex(pthread_mutex_t *mutex,
					       const struct mutex_kind *kind)
{
	pthread_mutexattr_t attributes;
	bool ok;

	pthread_mutexattr_init(&attributes);
	ok = pthread_mutexattr_settype(&attributes, kind->type) == 0 &&
	     (!kind->protocol || pthread_mutexattr_setprotocol(&attributes, kind->protocol) == 0) &&
	     (!kind->robust ||
	      pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0) &&
	     (!kind->shared ||
	      pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
#ifdef __GLIBC__
	if (kind->protocol == PTHREAD_PRIO_PROTECT)
		pthread_mutexattr_setprioceiling(&attributes, 2);
#endif
	return ok && pthread_mutex_init(mutex, &attributes) == 0;
}

__attribute__((unused)) static NOINLINE void hold_mutex(struct actor *me)
{
	if (pthread_mutex_lock(me->object) != 0) {
		me->failed = true;
		return;
	}
	rest("mutex.holder");
}
