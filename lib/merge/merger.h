/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Merges documents: adds their contents to what is there, group by group.
 *
 * Each property is combined by an operation that is associative and commutative: sums of counts,
 * unions of sets, the smallest of a total order, what all agree on. So the result depends only on
 * the set of documents, and a result can be merged again. A sum is right only if each document
 * counts once, so the list of documents is kept. Knows nothing of files.
 */
#pragma once

#include "merge/document.h"

struct snap_merger;

struct snap_merger *snap_merger_create(void); /* NULL without memory */
void snap_merger_destroy(struct snap_merger *merger);

enum snap_merge_verdict {
	SNAP_MERGE_TAKEN,
	SNAP_MERGE_TWICE,  /* a snapshot that counts already */
	SNAP_MERGE_SHARED, /* what was merged holds a document that counts already: not taken */
};

/* FORMAT: it contradicts itself. After NO_MEMORY nothing can be done with the merger. */
struct stacksnap_error *snap_merger_take(struct snap_merger *merger,
					 const struct snap_merge_document *document,
					 enum snap_merge_verdict *ret) _must_check_;

/*
 * What there is. Bodies and names in it are the merger's, which must not take anything as long as
 * it is used; released by snap_merged_destroy().
 */
struct stacksnap_error *snap_merger_finish(const struct snap_merger *merger,
					   struct snap_merged **ret) _must_check_;
void snap_merged_destroy(struct snap_merged *merged);

SNAP_POINTER_GUARD(struct snap_merged, snap_merged_destroy);
