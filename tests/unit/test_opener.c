/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Openers that are children of the process that asks, and what their end is put down to. */
#include "roles/file_opener/file_opener.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 100 };

struct asker {
	struct snap_file_opener *opener;
	struct snap_broker broker;
};

/* For a module that nobody has: each answer is the same, and is one. */
static void ask(const struct asker *asker)
{
	const struct snap_broker_request request = { .kind = SNAP_FILE_MODULE };
	struct snap_broker_reply reply = SNAP_BROKER_REPLY(-1);
	struct stacksnap_error *err = asker->broker.answer(asker->broker.context, &request, &reply);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_NOT_FOUND);
	snap_error_destroy(err);
}

static void *ask_in_thread(void *context)
{
	ask(context);
	return NULL;
}

/* An opener ends with the thread that made it, a moment after that was seen to end. */
static void test_the_end_of_a_thread_costs_no_file(void **state _unused_)
{
	struct snap_map map = { .start = 4096, .end = 8192, .path = "/nowhere/module" };
	struct snap_process process = { .pid = 1 << 22, .maps = &map, .map_count = 1 };
	const struct snap_capture capture = { .processes = &process, .process_count = 1 };
	const struct snap_options options = { .cancel = NULL };

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct asker asker = { NULL, { .answer = NULL } };
		pthread_t thread;

		assert_null(snap_file_opener_create(NULL, &asker.opener));
		snap_file_opener_set_options(asker.opener, &options, 0);
		snap_file_opener_set_capture(asker.opener, &capture);
		asker.broker = snap_file_opener_broker(asker.opener);
		assert_int_equal(pthread_create(&thread, NULL, ask_in_thread, &asker), 0);
		pthread_join(thread, NULL);
		ask(&asker);
		assert_int_equal(snap_file_opener_losses(asker.opener), 0);
		snap_file_opener_destroy(asker.opener);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_end_of_a_thread_costs_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
