/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * live_go_layout PID: which offsets the table has for a Go program that is alive, which come out
 * without a table, and which its debug information has, if it has any. Status 0 if they are the same.
 */
#include "live.h"

#include "analyze/runtime/go/internal.h"

#include <string.h>

static uint64_t *read_list(const struct snap_go *go, size_t *count_ret)
{
	uint64_t header[3], *list;

	if (!snap_runtime_read(go->process, go->list_at, header, sizeof(header)) ||
	    header[1] > SNAP_GO_MOST_GOROUTINES)
		fail("no list of goroutines");
	list = calloc(header[1], sizeof(*list));
	if (!list || !snap_runtime_read(go->process, header[0], list, header[1] * sizeof(*list)))
		fail("the list cannot be read");
	*count_ret = header[1];
	return list;
}

static void print_layout(const char *name, const struct snap_go_layout *layout)
{
	printf("%s: status %u id %u since %u reason %u locked %u parent %u creator %u start %u "
	       "labels %u call %u tid %u signals %u\n",
	       name, layout->status, layout->id, layout->wait_since, layout->wait_reason,
	       layout->locked_thread, layout->parent, layout->creator, layout->start,
	       layout->labels, layout->call_sp, layout->thread_tid, layout->thread_signal_stack);
}

static bool is_equal(const struct snap_go_layout *one, struct snap_go_layout other)
{
	other.first = one->first;
	other.last = one->last;
	other.bubble = one->bubble;
	return memcmp(one, &other, sizeof(other)) == 0;
}

static bool compare(struct snap_go *go)
{
	struct snap_go_layout derived, described, table;
	size_t count;
	uint64_t *list = read_list(go, &count);
	const struct snap_go_layout *found = snap_go_find_layout(go, list, count);
	bool is_derived = snap_go_derive_layout(go, list, count, &derived);

	free(list);
	if (!found || !is_derived) {
		printf("table %s, derived %s\n", found ? "fits" : "does not fit",
		       is_derived ? "yes" : "no");
		return false;
	}
	table = *found;
	print_layout("table", &table);
	print_layout("derived", &derived);
	if (!snap_go_described_layout(go, &described))
		return is_equal(&derived, table);
	print_layout("described", &described);
	return is_equal(&derived, table) && is_equal(&described, table) &&
	       described.bubble == table.bubble;
}

int main(int argc, char **argv)
{
	struct snap_options options = { .lines = true };
	struct snap_runtime_memory memory = { .read = live_read };
	struct snap_runtime_process process = { .options = &options, .memory = &memory };
	struct snap_go go = { .process = &process };
	struct snap_interner strings;
	struct live live;
	bool equal;

	if (argc != 2)
		fail("usage: live_go_layout PID");
	live_open(&live, atoi(argv[1]));
	live_stop(&live);
	memory.context = &live;
	snap_interner_init(&strings, &live.arena);
	process.process = &live.process;
	process.strings = &strings;
	process.arena = &live.arena;
	if (snap_module_set_create(
		    &(struct snap_file_finder){ .find = live_find, .context = &live }, &live.arena,
		    &process.set) ||
	    snap_modules_create(process.set, &live.process, &process.modules))
		fail("out of memory");
	if (!snap_go_find_texts(&go) || !snap_go_find_runtime(&go))
		fail("no Go program");
	snap_go_list_threads(&go);
	equal = compare(&go);
	live_go_on(&live);
	snap_go_deinit(&go);
	snap_module_set_destroy(process.set);
	snap_interner_deinit(&strings);
	free(live.process.threads);
	live_close(&live);
	return !equal;
}
