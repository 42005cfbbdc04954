/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A service whose memory grows: it keeps each session, 64 kB, and forgets none. */
#include "incident.h"

enum { SESSION_BYTES = 64 << 10, MOST_SESSIONS = 4096 };

static void *sessions[MOST_SESSIONS];
static volatile int count;

static void open_session(void)
{
	void *session = malloc(SESSION_BYTES);

	if (!session)
		return;
	memset(session, count, SESSION_BYTES);
	sessions[count++] = session;
}

static void *accept_sessions(void *argument)
{
	(void)argument;
	call_oneself("acceptor");
	for (;;) {
		if (count < MOST_SESSIONS)
			open_session();
		usleep(2000);
	}
}

int main(void)
{
	start(accept_sessions, NULL);
	while (count < 16)
		usleep(1000);
	return live();
}
