/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the BPF program writes of a task, and where: numbers alone. */
#pragma once

#ifdef __bpf__
#include "bpf/kernel.h"
#else
#include <stdint.h>
#endif

enum { SNAP_BPF_WORDS = 34 }; /* of struct user_pt_regs on aarch64; x86-64 has fewer */

/* In the order in which it is read. */
struct snap_bpf_record {
	uint64_t tid; /* in the reader's pid namespace */
	uint64_t on_cpu, switches, queued, state;
	uint64_t words[SNAP_BPF_WORDS]; /* as they begin struct pt_regs */
	uint64_t thread_pointer;
	/* Of aarch64, where a call overwrites the register of its first argument. */
	uint64_t call, first_argument, switches_again, on_cpu_again;
};
