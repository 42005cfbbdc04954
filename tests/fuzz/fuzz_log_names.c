/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of a log as bytes, as a parser that was taken over could hand them over: they are refused,
 * or the recording can be printed. The first byte says what the others are: 0 the bytes themselves,
 * else changes to those of names that are made here.
 */
#include "analyze/log/log.h"
#include "base/buffer.h"
#include "fuzz.h"
#include "store/log/log.h"
#include "store/recording/names.h"

#include <string.h>

enum { FRAMES = 12 };

static struct snap_log *make_log(void)
{
	static struct snap_map map = {
		.start = 0x1000, .end = 0x9000, .inode = 7, .execute = true, .path = "/bin/prog"
	};
	const struct snap_process facts = { .pid = 10, .name = "x", .maps = &map, .map_count = 1 };
	const struct snap_host host = { .name = "host", .ticks_per_second = 100 };
	struct snap_log_change here = { .syscall = -1, .state = SNAP_STATE_SLEEPING };
	uint32_t owner[] = { 2, 0, 1, 1 };
	struct snap_memory_piece piece = { 0x5000, sizeof(owner), (uint8_t *)owner };
	const struct snap_memory_image words = { .pieces = &piece, .piece_count = 1 };
	const struct snap_log_object lock = {
		.call = { .known = true, .number = 202, .arguments = { 0x5000, 128, 2 } },
		.is_futex = true,
	};
	uint64_t bits[FRAMES];
	const struct snap_log_pcs pcs = { .bits = bits, .count = FRAMES };
	uint32_t process, space;
	struct snap_log *log = NULL;

	for (size_t i = 0; i < FRAMES; i++)
		bits[i] = 0x1000 + 8 * i;
	fuzz_no_error(snap_log_create(&host, 1, 10101010, false, &log));
	fuzz_no_error(snap_log_begin_tick(log, 0));
	fuzz_no_error(snap_log_add_process(log, 10, 5, UINT32_MAX, UINT32_MAX, true, &process));
	fuzz_no_error(snap_log_map_process(log, process, &facts, NULL, &space));
	fuzz_no_error(snap_log_add_thread(log, process, 10, 1, "main", false, &here.thread));
	fuzz_no_error(snap_log_stack(log, space, &pcs, &here.stack));
	fuzz_no_error(snap_log_find_object(log, &lock, &words, &here.object));
	fuzz_no_error(snap_log_change(log, &here));
	snap_log_end_tick(log, 0);
	return log;
}

static void name_frames(struct snap_log *log)
{
	static struct snap_entry entries[] = {
		{ "a<\xff>::b()", "_Zab", "/src/a.cc", 7, 3, true, false, false, false, NULL },
		{ "main", "main", "/src/a.cc", 9, 0, false, false, true, false, NULL },
	};

	for (size_t i = 0; i < FRAMES; i++) {
		fuzz_check(snap_reserve_array(log->names, log->name_capacity, log->name_count + 1),
			   "there is memory");
		log->names[log->name_count++] = (struct snap_frame){
			.address = log->frames[i].bits,
			.offset = 0x10 * i,
			.has_offset = i % 3,
			.module = i % 4 ? "/bin/prog" : NULL,
			.build_id = i % 4 ? "00ff" : NULL,
			.entries = entries + i % 2,
			.entry_count = 2 - i % 2,
		};
		log->frames[i].name = (uint32_t)log->name_count;
	}
	snap_capture_warn(log->capture, "module_symbols", 0, 0, "cannot read \033[31m");
}

static void explain_waits(struct snap_log *log)
{
	struct snap_wait_party peer = { .pid = 12, .name = "other\033[31m", .state = 'S' };
	int32_t fds[] = { 3, 4 };
	uint32_t kinds[] = { SNAP_DESCRIPTOR_PIPE, SNAP_DESCRIPTOR_SOCKET };
	struct snap_wait wait = snap_wait_init(SNAP_WAIT_MUTEX, SNAP_WAIT_IS_CERTAIN);

	wait.address = 0x5000;
	wait.symbol = "lock<\xff>";
	wait.owner_word = (struct snap_owner_word){ 0x5008, SNAP_OWNER_FORM_TID };
	wait.peers = &peer;
	wait.peer_count = wait.peer_total = 1;
	wait.fds = fds;
	wait.fd_kinds = kinds;
	wait.fds_count = 2;
	wait.local = "127.0.0.1:80";
	wait.recv_queue = 7;
	wait.signals = 1;
	fuzz_no_error(snap_log_explain(log, 0, 0, &wait));
}

static uint8_t *make_bytes(const uint8_t *data, size_t size, size_t *size_ret)
{
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	const struct snap_log_named before = { 0, 0, 0 };
	uint64_t written;
	uint8_t *bytes;

	if (!data[0]) {
		*size_ret = size - 1;
		bytes = malloc(size);
		fuzz_check(bytes != NULL, "there is memory");
		memcpy(bytes, data + 1, size - 1);
		return bytes;
	}
	log = make_log();
	name_frames(log);
	explain_waits(log);
	bytes = malloc(1 << 20);
	fuzz_check(bytes != NULL, "there is memory");
	fuzz_no_error(snap_log_names_write(log, &before, bytes, 1 << 20, &written));
	*size_ret = (size_t)written;
	/* A place and a value. */
	for (size_t i = 1; i + 3 <= size; i += 3)
		bytes[(data[i] << 8 | data[i + 1]) % *size_ret] ^= data[i + 2];
	return bytes;
}

static void print(const struct snap_recording *recording, const struct snap_options *options)
{
	struct fuzz_output text = fuzz_render_recording("text", recording, options),
			   json = fuzz_render_recording("json", recording, options),
			   folded = fuzz_render_recording("folded", recording, options);

	fuzz_check_text(&text);
	fuzz_check_json(&json, false);
	fuzz_check_text(&folded);
	fuzz_output_deinit(&text);
	fuzz_output_deinit(&json);
	fuzz_output_deinit(&folded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(snap_recording_destroyp) struct snap_recording *recording = NULL;
	_cleanup_(snap_log_destroyp) struct snap_log *log = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_free_ uint8_t *bytes = NULL;

	snap_options_init(&options);
	if (size < 2)
		return 0;
	options.show_build_id = true;
	bytes = make_bytes(data, size, &size);
	log = make_log();
	if (snap_error_ignore(snap_log_names_read(log, bytes, size))) {
		fuzz_check(log->name_count == 0 && log->capture->warning_count == 0 &&
				   log->explained_count == 0,
			   "what is refused changes nothing");
		return 0;
	}
	/* Its texts are its own. */
	memset(bytes, 0xff, size);
	fuzz_no_error(snap_analyze_log(log, &options, &recording));
	if (recording)
		print(recording, &options);
	return 0;
}
