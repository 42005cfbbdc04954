/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables of the Firefox Profiler's format, which all threads refer to: functions, frames, stacks,
 * their files. Knows nothing of samples.
 */
#pragma once

#include "render/json/writer.h"
#include "render/view/pool.h"
#include "render/view/profile.h"

/* In the order of meta.categories. */
enum snap_firefox_category {
	SNAP_FIREFOX_OTHER,
	SNAP_FIREFOX_IDLE,
	SNAP_FIREFOX_USER,
	SNAP_FIREFOX_SYSTEM,
	SNAP_FIREFOX_KERNEL,
	SNAP_FIREFOX_JIT,
	SNAP_FIREFOX_DISK,
	/* Of a language's own functions, but for those that came with it. */
	SNAP_FIREFOX_GO,
	SNAP_FIREFOX_PYTHON,
	SNAP_FIREFOX_PHP,
};

/* Rows are numbered by pools, whose bytes are the rows. */
struct snap_firefox_tables {
	struct snap_profile *profile;
	struct snap_pool strings; /* stringArray */
	struct snap_pool libs;    /* path, NUL, build id; resourceTable has the same rows */
	struct snap_pool sources; /* file names, as numbers of strings */
	struct snap_pool funcs, frames, stacks;
	uint32_t *rows; /* of stacks, plus 1; for each stack of the recording and category */
};

/* NO_MEMORY; released by snap_firefox_tables_deinit() in any case. */
struct stacksnap_error *snap_firefox_tables_init(struct snap_firefox_tables *tables,
						 struct snap_profile *profile) _must_check_;
void snap_firefox_tables_deinit(struct snap_firefox_tables *tables);

/*
 * The row of a stack in the stack table, made when it is first asked for. The category of its leaf
 * is that of a thread in this state: readers take a sample's category from there. SIZE_MAX without
 * memory.
 */
size_t snap_firefox_stack(struct snap_firefox_tables *tables, size_t stack, enum snap_state state);
enum snap_firefox_category snap_firefox_category_of(enum snap_state state);

/* "libs" and "shared": when nothing more is to be added. */
void snap_firefox_put_libs(struct snap_json_writer *json, const struct snap_firefox_tables *tables);
void snap_firefox_put_tables(struct snap_json_writer *json,
			     const struct snap_firefox_tables *tables);
