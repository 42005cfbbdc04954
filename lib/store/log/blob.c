/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pieces of memory, once for all spaces of a log that have them: a thousand processes of a program
 * have the same first pages. See internal.h; knows nothing of what they are.
 */
#include "store/log/internal.h"

#include <string.h>

struct snap_log_blob *snap_log_blob_get(struct snap_log_index *index, const void *bytes,
					size_t size)
{
	uint64_t hash = snap_hash(bytes, size, size);
	struct snap_log_blob **list = &index->blobs[hash % SNAP_LOG_BLOB_LISTS], *blob;

	for (blob = *list; blob; blob = blob->next) {
		if (blob->hash == hash && blob->size == size &&
		    memcmp(blob->bytes, bytes, size) == 0) {
			blob->users++;
			return blob;
		}
	}
	blob = malloc(sizeof(*blob) + size);
	if (!blob)
		return NULL;
	blob->next = *list;
	blob->hash = hash;
	blob->size = size;
	blob->users = 1;
	memcpy(blob->bytes, bytes, size);
	index->blob_bytes += sizeof(*blob) + size;
	*list = blob;
	return blob;
}

void snap_log_blob_put(struct snap_log_index *index, struct snap_log_blob *blob)
{
	struct snap_log_blob **at = &index->blobs[blob->hash % SNAP_LOG_BLOB_LISTS];

	if (--blob->users)
		return;
	while (*at != blob)
		at = &(*at)->next;
	*at = blob->next;
	index->blob_bytes -= sizeof(*blob) + blob->size;
	free(blob);
}
