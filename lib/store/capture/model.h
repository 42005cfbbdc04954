/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The contents of a capture file: each structure of model/capture.h described once for the codec.
 *
 * When reading, also checks the rules between values, so that later stages need not.
 */
#pragma once

#include "model/capture.h"
#include "store/codec.h"

/* Everything but the processes. */
void snap_code_capture(struct snap_codec *codec, struct snap_capture *capture);
/*
 * One process with its maps, threads and their bytes; of the embedded files only how many there
 * are.
 */
void snap_code_process(struct snap_codec *codec, struct snap_capture *capture, size_t index);
/* Facts of a process that recordings have, too: names, state, trouble; not its place in the tree. */
void snap_code_process_facts(struct snap_codec *codec, struct snap_process *process);
/*
 * The uid with which its files were opened, (uid_t)-1 if that was not known: credentials.uid. Comes last,
 * as recorded processes of tests end before it.
 */
void snap_code_files_user(struct snap_codec *codec, struct snap_process *process);
/* The signal and the use of a process, which snapshots have as well. */
void snap_code_signal(struct snap_codec *codec, struct snap_signal *signal);
void snap_code_usage(struct snap_codec *codec, struct snap_usage *usage);
/* One embedded file. */
void snap_code_embedded(struct snap_codec *codec, const struct snap_process *process,
			struct snap_embedded *embedded);
