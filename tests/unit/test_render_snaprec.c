/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Recordings written out as .snaprec and read back: every other format prints the same of both.
 */
#include "analyze/log/log.h"
#include "api/options.h"
#include "fine.h"
#include "recordings.h"
#include "render/render.h"
#include "store/recording/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

static struct snap_options *make_options(void)
{
	struct snap_options *options = calloc(1, sizeof(*options));

	snap_options_init(options);
	options->width = 0;
	return options;
}

static void free_options(struct snap_options *options)
{
	snap_options_deinit(options);
	free(options);
}

/* Through a file and back. */
static struct snap_recording *go_round(const struct snap_recording *recording,
				       const struct snap_options *options)
{
	_cleanup_free_ char *bytes = NULL;
	_cleanup_fd_ int fd = memfd_create("round", MFD_CLOEXEC);
	struct snap_recording *back;
	struct snap_log *log;
	size_t size;
	FILE *out = open_memstream(&bytes, &size);

	/* A stream without a descriptor: renderers write to it and nowhere else. */
	fine(snap_render_recording(snap_format_by_name("snaprec"), recording, options, out));
	fclose(out);
	assert_true(snap_log_is_recording(bytes, size));
	assert_int_equal(write(fd, bytes, size), size);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	fine(snap_log_read(fd, &log));
	fine(snap_analyze_log(log, options, &back));
	snap_log_destroy(log);
	return back;
}

static char *render(const struct snap_format *format, const struct snap_recording *recording,
		    const struct snap_options *options, size_t *size_ret)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, size_ret);

	fine(snap_render_recording(format, recording, options, out));
	fclose(out);
	return bytes;
}

/* Stacks are named by hash of what is in them: those of the fixtures are made up. */
static bool prints_ids(const struct snap_format *format)
{
	return strncmp(format->name, "json", 4) == 0 || strcmp(format->name, "html") == 0;
}

static void same_in_all_formats(const struct snap_recording *a, const struct snap_recording *b,
				const struct snap_options *options, bool with_ids)
{
	size_t compared = 0;

	for (const struct snap_format *format = snap_formats; format->name; format++) {
		_cleanup_free_ char *x = NULL, *y = NULL;
		size_t size, other_size;

		if (!format->recording || (prints_ids(format) && !with_ids))
			continue;
		x = render(format, a, options, &size);
		y = render(format, b, options, &other_size);
		if (size != other_size || memcmp(x, y, size) != 0)
			fail_msg("%s differs:\n%.3000s\n---\n%.3000s", format->name, x, y);
		compared++;
	}
	assert_true(compared >= 5);
}

static void same_runs(const struct snap_recording *a, const struct snap_recording *b)
{
	assert_int_equal(a->track_count, b->track_count);
	for (size_t i = 0; i < a->track_count; i++) {
		assert_int_equal(a->tracks[i].tid, b->tracks[i].tid);
		assert_int_equal(a->tracks[i].run_count, b->tracks[i].run_count);
		for (size_t k = 0; k < a->tracks[i].run_count; k++) {
			const struct snap_run *x = &a->tracks[i].runs[k];
			const struct snap_run *y = &b->tracks[i].runs[k];

			assert_int_equal(x->first, y->first);
			assert_int_equal(x->last, y->last);
			assert_int_equal(x->state, y->state);
			assert_int_equal(x->taken, y->taken);
			assert_string_equal(x->syscall ? x->syscall : "",
					    y->syscall ? y->syscall : "");
			assert_string_equal(x->wchan ? x->wchan : "", y->wchan ? y->wchan : "");
		}
	}
}

static void test_recording(void **state _unused_)
{
	struct snap_options *options = make_options();
	struct snap_recording *recording = recorded_service(), *back;
	struct snap_warning odd = { "odd", "it is \x1b[31m odd", 3, 4 };

	/* Ticks that were missed are no part of it. */
	recording->duration_ns = RECORDED_TICKS * (int64_t)RECORDED_PERIOD;
	recording->end = SNAP_END_ASKED;
	recording->warnings = &odd;
	recording->warning_count = 1;
	back = go_round(recording, options);
	assert_int_equal(back->end, SNAP_END_ASKED);
	assert_int_equal(back->time_ns, recording->time_ns);
	assert_int_equal(back->duration_ns, recording->duration_ns);
	assert_memory_equal(&back->stats, &recording->stats, sizeof(back->stats));
	assert_false(back->is_slice);
	assert_int_equal(back->warning_count, recording->warning_count);
	same_runs(recording, back);
	same_in_all_formats(recording, back, options, false);
	snap_recording_destroy(recording);
	snap_recording_destroy(back);
	free_options(options);
}

/* What has come back goes round once more, ids and all. */
static void test_again(void **state _unused_)
{
	struct snap_options *options = make_options();
	struct snap_recording *recording = recorded_service(), *back, *again;

	recording->is_slice = true;
	back = go_round(recording, options);
	assert_true(back->is_slice);
	again = go_round(back, options);
	assert_true(again->is_slice);
	same_runs(back, again);
	same_in_all_formats(back, again, options, true);
	snap_recording_destroy(recording);
	snap_recording_destroy(back);
	snap_recording_destroy(again);
	free_options(options);
}

static void test_snapshot(void **state _unused_)
{
	static const struct snap_snapshot *const snapshots[] = { &service, &hostile };
	struct snap_options *options = make_options();

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(snapshots); i++) {
		struct snap_recording *recording, *back;

		fine(snap_recording_of_snapshot(snapshots[i], &recording));
		back = go_round(recording, options);
		assert_int_equal(back->tick_count, 1);
		assert_int_equal(back->period_ns, 0);
		assert_int_equal(back->duration_ns, snapshots[i]->duration_ns);
		same_runs(recording, back);
		same_in_all_formats(recording, back, options, false);
		snap_recording_destroy(recording);
		snap_recording_destroy(back);
	}
	free_options(options);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recording),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_snapshot),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
