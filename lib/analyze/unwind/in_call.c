/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a thread is in a call: see in_call.h. */
#include "analyze/unwind/in_call.h"

#include "analyze/unwind/arch.h"
#include "model/arch/registers.h"

bool snap_is_in_call(const struct snap_process *process, struct snap_modules *modules,
		     const struct snap_thread *thread)
{
	const struct snap_arch_ops *arch = snap_arch_ops(process->arch);
	struct snap_known_registers known;
	uint8_t code[8]; /* the instruction before the pc, and the one at it */

	/* For a thread that was not stopped, procfs has said it. */
	if (!arch || !arch->is_system_call || thread->partial ||
	    !snap_registers_of(process->arch, thread, &known) || known.call < 0)
		return true;
	if (!modules || !snap_modules_read(modules, known.pc - 4, code, sizeof(code)))
		/* That it slept tells as much; a core has no states. */
		return thread->state != 0;
	/*
	 * Behind it once the call has ended; EINTR may also be an argument of one that has not: -4.
	 */
	return arch->is_system_call(code + 4) || (known.interrupted && arch->is_system_call(code));
}
