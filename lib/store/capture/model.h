/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a capture file holds: each structure of model/capture.h described once for the codec.
 *
 * Also checks, when reading, what must hold between values, so that nobody behind it has to.
 */
#ifndef SNAP_STORE_CAPTURE_MODEL_H
#define SNAP_STORE_CAPTURE_MODEL_H

#include "model/capture.h"
#include "store/codec.h"

/* Everything but the processes. */
void snap_code_capture(struct snap_codec *codec, struct snap_capture *capture);
/*
 * One process with its maps, threads and their bytes; of the embedded files only how many there
 * are.
 */
void snap_code_process(struct snap_codec *codec, struct snap_capture *capture, size_t index);
/* Of a process without its place in the tree what recordings have, too: names, state, trouble. */
void snap_code_process_facts(struct snap_codec *codec, struct snap_process *process);
/* The signal of a process, which snapshots have as well. */
void snap_code_signal(struct snap_codec *codec, struct snap_signal *signal);
/* One embedded file. */
void snap_code_embedded(struct snap_codec *codec, const struct snap_process *process,
			struct snap_embedded *embedded);

#endif
