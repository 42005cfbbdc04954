/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What analysis asks of one file: see fuzz_lookup.h. */
#include "fuzz_lookup.h"

#include "analyze/symbol/symbolize.h"
#include "analyze/unwind/unwind.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum {
	QUERIES = 96,
	STEP = 12, /* bytes from one looked-up address to the next */
	STACK_WORDS = 64,
	RBP_WORD = 4,
	RIP_WORD = 16,
	RSP_WORD = 19,
};

static const uint64_t code_at = 0x10000000, stack_at = 0x30000000;

struct companions {
	int module, companion;
};

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	const struct companions *companions = context;
	int fd = request->kind == SNAP_FILE_MODULE ? companions->module : companions->companion;

	if (request->attempt > 0 || fd < 0)
		return snap_error_not_found();
	fuzz_check(!request->name || !strchr(request->name, '/'), "a name has no slash");
	*fd_ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	fuzz_check(*fd_ret >= 0, "a descriptor");
	return NULL;
}

/* ---- names ---- */

static void check_entries(const struct snap_query *query)
{
	for (size_t i = 0; i < query->entry_count; i++) {
		const struct snap_entry *entry = &query->entries[i];

		fuzz_check(!entry->function || strlen(entry->function) <= SNAP_MAX_NAME, "capped");
		fuzz_check(!entry->symbol || strlen(entry->symbol) <= SNAP_MAX_NAME, "capped");
		fuzz_check(!entry->file || strlen(entry->file) <= SNAP_MAX_NAME, "capped");
	}
}

/* Of the file itself: build id, segments, bias, whatever the queries do not touch. */
static void look_at_image(struct snap_image *image)
{
	uint64_t value;
	uint8_t sum = 0;

	struct snap_bytes bytes[] = {
		snap_image_build_id(image),
		snap_image_at(image, FUZZ_TEXT),
		snap_image_section(image, ".debug_frame"),
		snap_image_bytes(image),
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bytes); i++) {
		if (!bytes[i].size)
			continue;
		sum ^= bytes[i].data[0];
		sum ^= bytes[i].data[bytes[i].size - 1];
	}
	(void)*(volatile uint8_t *)&sum;
	(void)snap_image_bias(image, code_at, 0, &value);
	(void)snap_image_is_constant(image, FUZZ_TEXT);
}

void fuzz_lookup_names(int fd, int companion)
{
	struct companions companions = { fd, companion };
	struct snap_file_finder finder = { .find = find, .context = &companions };
	struct snap_map map = { .path = "/fuzz", .inode = 1 };
	struct snap_process process = {
		.pid = 1, .maps = &map, .map_count = 1, .arch = SNAP_ARCH_X86_64
	};
	struct snap_module_file file = { .path = map.path, .request = { .process = &process } };
	struct snap_query queries[QUERIES] = { { .vaddr = 0 }, { .vaddr = 1 } };
	struct snap_symbolizer *symbolizer = NULL;
	struct snap_options options;
	struct snap_arena arena;
	bool is_late;

	if (snap_error_ignore(snap_image_open(fd, &file.image)))
		return;
	look_at_image(file.image);
	snap_options_init(&options);
	snap_arena_init(&arena);
	fuzz_no_error(snap_symbolizer_create(&finder, &options, &arena, &symbolizer));
	for (size_t i = 2; i < QUERIES; i++)
		queries[i].vaddr = FUZZ_TEXT + STEP * (i - 2);
	queries[QUERIES - 1].vaddr = UINT64_MAX;
	fuzz_no_error(snap_symbolize(symbolizer, &file, queries, QUERIES, INT64_MAX, &is_late));
	for (size_t i = 0; i < QUERIES; i++)
		check_entries(&queries[i]);
	snap_symbolizer_destroy(symbolizer);
	snap_arena_deinit(&arena);
	snap_options_deinit(&options);
	snap_image_close(file.image);
}

/* ---- frames ---- */

struct bed {
	struct snap_map maps[2];
	struct snap_process process;
	struct snap_thread thread;
	uint64_t registers[27]; /* struct snap_x86_64_registers */
	uint64_t stack[STACK_WORDS];
};

static void make_bed(struct bed *bed, const struct stat *status)
{
	*bed = (struct bed){
		.maps = { { .start = code_at,
			    .end = code_at + (((uint64_t)status->st_size + 4095) & ~4095ull),
			    .read = true,
			    .execute = true,
			    .path = "/fuzz",
			    .inode = status->st_ino,
			    .dev_major = major(status->st_dev),
			    .dev_minor = minor(status->st_dev) },
			  { .start = stack_at,
			    .end = stack_at + sizeof(bed->stack),
			    .read = true,
			    .write = true } },
		.process = { .pid = 1,
			     .arch = SNAP_ARCH_X86_64,
			     .maps = bed->maps,
			     .map_count = SNAP_ARRAY_SIZE(bed->maps) },
		.thread = { .result = SNAP_THREAD_COPIED,
			    .registers = bed->registers,
			    .registers_size = sizeof(bed->registers),
			    .stack_address = stack_at,
			    .stack = (const uint8_t *)bed->stack,
			    .stack_size = sizeof(bed->stack) },
	};
	for (size_t i = 0; i < STACK_WORDS; i++)
		bed->stack[i] = i % 3 ? code_at + FUZZ_TEXT + 32 * i : stack_at + 8 * (i + 5);
}

static void unwind_all(struct bed *bed, const struct snap_file_finder *finder,
		       const struct snap_options *options)
{
	struct snap_arena arena;
	struct snap_module_set *set = NULL;
	struct snap_modules *modules = NULL;
	struct snap_unwinder *unwinder = NULL;
	struct snap_pcs pcs;

	snap_arena_init(&arena);
	fuzz_no_error(snap_module_set_create(finder, &arena, &set));
	fuzz_no_error(snap_modules_create(set, &bed->process, &modules));
	fuzz_no_error(snap_unwinder_create(set, options, &unwinder));
	fuzz_no_error(snap_unwinder_enter(unwinder, &bed->process, modules));
	for (uint64_t at = 0; at < 24; at++) {
		uint64_t pc = code_at + FUZZ_TEXT + 4 * at;

		bed->registers[RIP_WORD] = pc;
		bed->registers[RSP_WORD] = stack_at + 8 * (at & 3);
		bed->registers[RBP_WORD] = stack_at + 128;
		bed->thread.partial = at >= 20;
		snap_unwind(unwinder, &bed->thread, &pcs);
		fuzz_check(pcs.count > 0 && snap_pc_address(pcs.pcs[0]) == pc, "it begins");
		fuzz_check(pcs.count <= options->max_frames, "it ends");
	}
	snap_unwinder_destroy(unwinder);
	snap_module_set_destroy(set);
	snap_arena_deinit(&arena);
}

void fuzz_lookup_frames(int fd)
{
	struct companions companions = { fd, fd };
	struct snap_file_finder finder = { .find = find, .context = &companions };
	struct snap_options options;
	struct stat status;
	struct bed bed;

	fuzz_check(fstat(fd, &status) == 0, "fstat");
	snap_options_init(&options);
	options.max_frames = 128;
	make_bed(&bed, &status);
	unwind_all(&bed, &finder, &options);
	options.engine = SNAP_ENGINE_LIBUNWIND;
	unwind_all(&bed, &finder, &options);
	snap_options_deinit(&options);
}
