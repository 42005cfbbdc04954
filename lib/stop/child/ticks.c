/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The signal that ends a tracing child's waits, and how its handler finds its context. Every
 * process that may send a signal can forge the data in it, as can the user of a program with
 * capabilities of its file. So the context is found by the address of an alternate signal stack
 * that is never used as one: the kernel puts that address into each frame.
 */
#include "stop/child/internal.h"

#include <string.h>
#include <ucontext.h>

void *snap_ticks_context(const void *frame)
{
	const ucontext_t *context = frame;
	void *found = NULL;

	if (context->uc_stack.ss_sp)
		memcpy(&found, context->uc_stack.ss_sp, sizeof(found));
	return found;
}

void snap_ticks_allow(void)
{
	sigset_t tick;

	sigemptyset(&tick);
	sigaddset(&tick, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &tick, NULL);
}

/* All other signals stay blocked as the parent left them: the parent handles Ctrl-C. */
void snap_ticks_set_up(void (*handler)(int, siginfo_t *, void *), void *place, void *context)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	const stack_t stack = { .ss_sp = place, .ss_size = SNAP_TICKS_PLACE };

	memcpy(place, &context, sizeof(context));
	/* If it fails, the handler finds nothing, and only ends waits. */
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	snap_ticks_allow();
}
