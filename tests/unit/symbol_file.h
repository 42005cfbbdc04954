/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Symbolizing one file by itself, as analysis does it: for the tests of the symbol folder. */
#pragma once

#include "analyze/symbol/symbolize.h"
#include "files/files.h"

#include <fcntl.h>
#include <unistd.h>

struct symbol_file {
	struct snap_capture capture;
	struct snap_process process;
	struct snap_map map;
	struct snap_options options;
	struct snap_files *files;
	struct snap_file_finder finder;
	struct snap_module_file module;
	struct snap_symbolizer *symbolizer;
	struct snap_arena arena;
};

/* False: no ELF file. The options can be changed before the first question. */
static inline bool symbol_file_open(struct symbol_file *file, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool fine;

	*file = (struct symbol_file){ 0 };
	snap_arena_init(&file->arena);
	snap_arena_init(&file->capture.arena);
	file->options.symbols = file->options.lines = file->options.inlines = true;
	file->map = (struct snap_map){ .path = path, .inode = 1 };
	file->process = (struct snap_process){ .pid = 1, .maps = &file->map, .map_count = 1 };
	file->process.arch = SNAP_ARCH_X86_64;
	/* The caller's: debug files may lie where a stranger may read nothing. */
	file->process.credentials =
		(struct snap_credentials){ .known = true, .uid = geteuid(), .gid = getegid() };
	file->capture.processes = &file->process;
	file->capture.process_count = 1;
	if (snap_error_ignore(snap_files_create(&file->options, &file->capture, &file->files)))
		abort();
	file->finder = snap_files_finder(file->files);
	if (snap_error_ignore(snap_symbolizer_create(&file->finder, &file->options, &file->arena,
						     &file->symbolizer)))
		abort();
	file->module.path = path;
	file->module.request = (struct snap_file_request){ .process = &file->process };
	fine = fd >= 0 && !snap_error_ignore(snap_image_open(fd, &file->module.image));
	if (fd >= 0)
		close(fd);
	return fine;
}

static inline void symbol_file_close(struct symbol_file *file)
{
	snap_symbolizer_destroy(file->symbolizer);
	snap_image_close(file->module.image);
	snap_files_destroy(file->files);
	snap_arena_deinit(&file->arena);
	snap_arena_deinit(&file->capture.arena);
}
