/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * order-helper: the child of orderd. Takes a payment from the socket that is its stdin, and then
 * waits for a gateway that never answers; ends with its parent.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Until the other end of stdin is closed: no answer ever comes. */
static void ask_gateway(unsigned long order)
{
	struct pollfd parent = { .fd = STDIN_FILENO, .events = POLLRDHUP };

	(void)order;
	while (!(parent.revents & (POLLRDHUP | POLLHUP)))
		if (poll(&parent, 1, -1) < 0)
			continue;
}

int main(void)
{
	unsigned long order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	while (recv(STDIN_FILENO, &order, sizeof(order), 0) == sizeof(order))
		ask_gateway(order);
	return 0;
}
