/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files that turn snapshots into bytes share: see file.h. Nobody else includes
 *it.
 *
 *	tree, head, warnings          file.c
 *	processes, labels             node.c
 *	stacks, threads               stack.c
 *	frames, and what is shared    store/pointers.c
 */
#ifndef SNAP_STORE_SNAPSHOT_INTERNAL_H
#define SNAP_STORE_SNAPSHOT_INTERNAL_H

#include "store/pointers.h"

/* The least that a process takes: its fixed members, no texts. */
enum { SNAP_LEAST_NODE = 120 };

/* Labels, of which the keys are known and the values are what renderers expect. */
void snap_code_labels(struct snap_sharing *to, struct snap_label **labels, size_t *count);
/* A process but for its children. */
void snap_code_node(struct snap_sharing *to, struct snap_node *node);
void snap_code_stacks(struct snap_sharing *to, struct snap_node *node);

#endif
