/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files that turn snapshots into bytes share: see snapshot_file.h. Nobody else includes
 *it.
 *
 *	tree, head, warnings          snapshot_file.c
 *	processes, labels             snapshot_file_node.c
 *	stacks, threads               snapshot_file_stack.c
 *	frames, and what is shared    share.c
 */
#ifndef SNAP_STORE_SNAPSHOT_FILE_INSIDE_H
#define SNAP_STORE_SNAPSHOT_FILE_INSIDE_H

#include "store/share.h"

/* The least that a process takes: its fixed members, no texts. */
enum { SNAP_LEAST_NODE = 120 };

/* Labels, of which the keys are known and the values are what renderers expect. */
void snap_code_labels(struct snap_sharing *to, struct snap_label **labels, size_t *count);
/* A process but for its children. */
void snap_code_node(struct snap_sharing *to, struct snap_node *node);
void snap_code_stacks(struct snap_sharing *to, struct snap_node *node);

#endif
