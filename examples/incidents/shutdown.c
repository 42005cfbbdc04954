/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that does not end. SIGTERM came, and main waits for its exporter, which flushes its last figures
 * to a collector that takes none.
 */
#include "incident.h"

#include <signal.h>
#include <sys/socket.h>

static int collector[2];

static void flush_figures(void)
{
	char answer;

	if (send(collector[0], "flush", 5, MSG_NOSIGNAL) < 0)
		perror("send");
	if (recv(collector[0], &answer, 1, 0) < 0)
		perror("recv");
}

static void *export_figures(void *argument)
{
	(void)argument;
	call_oneself("exporter");
	flush_figures();
	return NULL;
}

static void *announce(void *argument)
{
	(void)argument;
	until_asleep(1, SYS_recvfrom, -1);
	until_asleep(1, SYS_futex, -1);
	_exit(live());
}

static void stop_service(void)
{
	pthread_t exporter;

	if (pthread_create(&exporter, NULL, export_figures, NULL) != 0)
		exit(1);
	pthread_join(exporter, NULL);
}

int main(void)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, collector) != 0) {
		perror("socketpair");
		return 1;
	}
	start(announce, NULL);
	stop_service();
	return 0;
}
