/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Perf maps: names of code without a file, at addresses where the corpus has some. */
#include "analyze/symbol/symbolize.h"
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>

enum { QUERIES = 32 };

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	if (request->attempt > 0 || request->kind != SNAP_FILE_PERF_MAP)
		return snap_error_not_found();
	*fd_ret = fcntl(*(int *)context, F_DUPFD_CLOEXEC, 0);
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size);
	struct snap_file_finder finder = { .find = find, .context = &fd };
	struct snap_process process = { .pid = 1, .ns_pid = 1 };
	struct snap_query queries[QUERIES];
	struct snap_symbolizer *symbolizer = NULL;
	const char *trouble = NULL;
	struct snap_options options;
	struct snap_arena arena;

	snap_options_init(&options);
	snap_arena_init(&arena);
	for (size_t i = 0; i < QUERIES; i++)
		queries[i] = (struct snap_query){ .vaddr = i < 24 ? 16 * i : ~0ull << (40 - i) };
	fuzz_no_error(snap_symbolizer_create(&finder, &options, &arena, &symbolizer));
	fuzz_no_error(snap_symbolize_perf_map(symbolizer, &process, queries, QUERIES, &trouble));
	for (size_t i = 0; i < QUERIES; i++)
		for (size_t k = 0; k < queries[i].entry_count; k++)
			fuzz_check(!queries[i].entries[k].symbol ||
					   strlen(queries[i].entries[k].symbol) <= SNAP_MAX_NAME,
				   "a name is capped");
	snap_symbolizer_destroy(symbolizer);
	snap_arena_deinit(&arena);
	snap_options_deinit(&options);
	close(fd);
	return 0;
}
