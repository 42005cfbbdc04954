/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's table of locks on files; only locks on files that a thread waits to lock are kept.
 * The table does not always name the holder of a lock: see peers.c.
 *
 * The table is one for the machine, and the kernel walks it from its beginning for each buffer that
 * is read (fs/locks.c): 100,000 locks, which every user may take, are a second and a half. So it
 * has a time, and what was read by then counts.
 */
#include "proc/wait/locks.h"
#include "base/bsearch.h"
#include "base/clock.h"
#include "capture/wait/resolver.h"

#include <string.h>

enum {
	TABLE_TEXT = 16384,
	BLOCK = 256,
	LONGEST_NS = 100000000,
};

struct block {
	struct block *next; /* the older one */
	size_t count;
	struct snap_file_lock locks[BLOCK];
};

/* Seen by workers, too. */
struct table {
	struct snap_wait_memory *memory;
	const uint64_t *inodes; /* of files that a thread waits to lock, sorted */
	size_t inode_count;
	struct block *blocks; /* newest first */
	size_t count;
	bool is_cut, is_late;
	int status;
};

SNAP_ORDER(compare_inodes, uint64_t, a, b, snap_compare(*a, *b));

/* Of files with one inode number on several devices any will do: all their locks are kept. */
static bool is_lock_wanted(const struct table *table, const struct snap_file_lock *lock)
{
	return bsearch(&lock->inode, table->inodes, table->inode_count, sizeof(lock->inode),
		       compare_inodes) != NULL;
}

static void add_lock(struct table *table, const struct snap_file_lock *lock)
{
	struct block *block = table->blocks;

	table->is_cut |= table->count >= SNAP_MAX_FILE_LOCKS;
	if (table->is_cut)
		return;
	if (!block || block->count == BLOCK) {
		block = snap_region_alloc(&table->memory->region, sizeof(*block));
		if (!block) {
			table->is_cut = true;
			return;
		}
		block->next = table->blocks;
		table->blocks = block;
	}
	block->locks[block->count++] = *lock;
	table->count++;
}

static void read_locks_table(void *context, uint32_t item _unused_)
{
	struct table *table = context;
	char text[TABLE_TEXT], *line;
	_cleanup_fd_ int fd = snap_procfs_open_file(table->memory->root_fd, "locks");
	struct snap_file_lock lock;
	struct snap_lines lines;
	int64_t until_ns = snap_clock_ns(CLOCK_MONOTONIC) + LONGEST_NS;
	uint64_t total = 0;
	size_t length;
	int more;

	table->status = fd < 0 ? fd : 0;
	if (fd < 0)
		return;
	snap_lines_init(&lines, fd, text, sizeof(text));
	while ((more = snap_lines_next(&lines, &line, &length)) > 0 && !table->is_cut &&
	       !table->is_late) {
		if (snap_parse_file_lock(line, length, &lock) && is_lock_wanted(table, &lock))
			add_lock(table, &lock);
		table->is_late = lines.total != total && snap_clock_ns(CLOCK_MONOTONIC) >= until_ns;
		total = lines.total;
	}
	table->status = more < 0 ? more : 0;
}

/* ---- the asking side ---- */

static size_t list_inodes(const struct snap_wait_resolver *resolver, uint64_t *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < resolver->want_count; i++) {
		const struct snap_wait_want *want = &resolver->wants[i];
		const struct snap_descriptor *descriptor =
			want->uses & SNAP_WAIT_USE_LOCK
				? snap_wait_find_descriptor(
					  snap_wait_process(resolver, want->process), want->number)
				: NULL;

		if (!descriptor || !descriptor->inode)
			continue;
		if (ret)
			ret[count] = descriptor->inode;
		count++;
	}
	return count;
}

/* The blocks come newest first, the locks in the order of the table. */
static struct stacksnap_error *keep_locks(struct snap_wait_resolver *resolver,
					  const struct table *table)
{
	struct snap_wait_facts *facts = resolver->facts;
	size_t at = table->count;

	if (!at)
		return NULL;
	facts->locks = snap_arena_new_array(&resolver->capture->arena, at, struct snap_file_lock);
	SNAP_TRY(snap_no_memory_unless(facts->locks));
	for (const struct block *block = table->blocks; block; block = block->next) {
		at -= block->count;
		memcpy(&facts->locks[at], block->locks, block->count * sizeof(*facts->locks));
	}
	facts->lock_count = table->count;
	return NULL;
}

struct stacksnap_error *snap_wait_ask_locks(struct snap_wait_resolver *resolver)
{
	struct snap_wait_asker *asker = resolver->asker;
	size_t count = list_inodes(resolver, NULL);
	struct table *table = count ? snap_wait_asker_new_array(asker, 1, struct table) : NULL;
	uint64_t *inodes = count ? snap_wait_asker_new_array(asker, count, uint64_t) : NULL;
	const uint8_t *marks;

	if (!count)
		return NULL;
	SNAP_TRY(snap_no_memory_unless(table && inodes));
	list_inodes(resolver, inodes);
	qsort(inodes, count, sizeof(*inodes), compare_inodes);
	table->memory = asker->memory;
	table->inodes = inodes;
	table->inode_count = count;
	marks = snap_wait_asker_run(asker, read_locks_table, table, 1, resolver->until_ns);
	if (!marks || marks[0] != SNAP_ITEM_DONE)
		return NULL;
	resolver->facts->lacks |= table->status ? SNAP_LACK_FILE_LOCKS : 0;
	resolver->facts->lacks |= table->is_cut ? SNAP_LACK_CUT : 0;
	resolver->facts->lacks |= table->is_late ? SNAP_LACK_TIME : 0;
	return keep_locks(resolver, table);
}
