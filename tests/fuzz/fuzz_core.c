/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cores: headers and notes parsed, memory filled in, written and read back as a capture, analyzed
 * without any file, and rendered. The first byte of the input chooses: packed ones are unpacked, and
 * nothing more, as what comes out is bytes.
 */
#include "analyze/analyze.h"
#include "core/core.h"
#include "core/unpack.h"
#include "fuzz.h"
#include "roles/broker.h"
#include "store/capture/file.h"

#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 1 << 16, MOST_STEPS = 1 << 12 };

static void unpack(const uint8_t *bytes, size_t size)
{
	_cleanup_(snap_unpacker_destroyp) struct snap_unpacker *unpacker = NULL;
	_cleanup_free_ uint8_t *out = malloc(ROOM);
	struct snap_unpack_step step = { .in = bytes, .in_size = size };

	if (!out || !snap_packing_of(bytes, size) ||
	    snap_error_ignore(snap_unpacker_create(snap_packing_of(bytes, size), &unpacker)))
		return;
	for (unsigned i = 0; i < MOST_STEPS; i++) {
		size_t in = step.in_size;

		step.out = out;
		step.out_size = ROOM;
		if (snap_error_ignore(snap_unpacker_step(unpacker, &step)))
			return;
		fuzz_check(step.in_size <= in && step.out_size <= ROOM, "no more than there is");
		if (step.in_size == in && step.out_size == ROOM)
			return;
	}
}

/* Whatever a core says: a capture that is sound in itself. */
static void check(const struct snap_core *core, const struct snap_options *options)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	struct snap_file_finder finder = snap_no_files();
	_cleanup_fd_ int fd = memfd_create("capture", MFD_CLOEXEC);
	struct fuzz_output text;

	fuzz_check(fd >= 0, "a file in memory");
	fuzz_no_error(snap_capture_write(core->capture, fd));
	fuzz_check(lseek(fd, 0, SEEK_SET) == 0, "its beginning");
	fuzz_no_error(snap_capture_read(fd, &back));
	if (!back)
		return;
	fuzz_no_error(snap_analyze(back, options, &finder, &snapshot));
	if (!snapshot)
		return;
	text = fuzz_render("text", snapshot, options);
	fuzz_check_text(&text);
	fuzz_output_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	struct snap_core_memory memory;
	_cleanup_fd_ int fd = -1;

	snap_options_init(&options);
	options.max_snapshot = 4 << 20;
	if (size < 1)
		return 0;
	if (data[0] & 1) {
		unpack(data + 1, size - 1);
		return 0;
	}
	fd = fuzz_file(data + 1, size - 1);
	if (snap_error_ignore(snap_core_parse(fd, &core)))
		return 0;
	memory = snap_core_memory_of(&core, fd);
	fuzz_no_error(snap_core_fill(&core, &memory, &options, NULL));
	check(&core, &options);
	return 0;
}
