/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls that processors of after 2012 have in their newer forms alone: to wait in one, and
 * its number there.
 */
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_poll
#define OWN_POLL_NAME "poll"
enum { OWN_POLL_FOR_EVER = -1 }; /* the third argument */
enum { OWN_POLL = SYS_poll, OWN_SELECT = SYS_select, OWN_EPOLL_WAIT = SYS_epoll_wait };

/* For ever. */
static inline long own_poll(void *fds, unsigned count)
{
	return syscall(SYS_poll, fds, count, -1);
}

static inline long own_select(int count, void *read, void *write)
{
	return syscall(SYS_select, count, read, write, NULL, NULL);
}
#else
#define OWN_POLL_NAME "ppoll"
enum { OWN_POLL_FOR_EVER = 0 };
enum { OWN_POLL = SYS_ppoll, OWN_SELECT = SYS_pselect6, OWN_EPOLL_WAIT = SYS_epoll_pwait };

static inline long own_poll(void *fds, unsigned count)
{
	return syscall(SYS_ppoll, fds, count, NULL, NULL, 0);
}

static inline long own_select(int count, void *read, void *write)
{
	return syscall(SYS_pselect6, count, read, write, NULL, NULL, NULL);
}
#endif
