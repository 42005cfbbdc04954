/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The waits of a capture file: each structure of model/wait/facts.h described once for the codec.
 */
#pragma once

#include "model/capture.h"
#include "store/codec.h"

/* The facts of the whole capture. */
void snap_code_wait_facts(struct snap_codec *codec, struct snap_capture *capture);
/* Those of a process, but for its wait bytes. */
void snap_code_process_waits(struct snap_codec *codec, struct snap_process *process);
/* Those of a thread. */
void snap_code_thread_waits(struct snap_codec *codec, struct snap_thread *thread);
