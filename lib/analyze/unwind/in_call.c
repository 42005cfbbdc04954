/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whether a thread is in a call: see in_call.h. */
#include "analyze/unwind/in_call.h"

#include "model/arch/registers.h"

bool snap_is_in_call(const struct snap_process *process, struct snap_modules *modules,
		     const struct snap_thread *thread)
{
	struct snap_known_registers known;
	uint32_t code[2];

	/* Of who was not stopped procfs has told. */
	if (process->arch != SNAP_ARCH_AARCH64 || thread->partial ||
	    !snap_registers_of(process->arch, thread, &known) || known.call < 0)
		return true;
	if (!modules ||
	    !snap_modules_read(modules, known.pc - sizeof(code[0]), (uint8_t *)code, sizeof(code)))
		/* That it slept tells as much; a core has no states. */
		return thread->state != 0;
	/* Behind it once the call has ended; EINTR may also be an argument of one that has not: -4. */
	return code[1] == SNAP_AARCH64_SVC || (known.interrupted && code[0] == SNAP_AARCH64_SVC);
}
