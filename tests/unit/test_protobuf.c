/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Protocol buffers, written and read back; and that the tests' reader of profiles can refuse. */
#include "base/cleanup.h"
#include "pprof_reader.h"
#include "render/pprof/protobuf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A profile of one sample, with what is wrong with it. */
struct broken {
	uint64_t values, location, label_text, label_number, again_number, id, string;
	const char *first;
	const char *wrong; /* NULL: it is good */
};

static void make(const struct broken *broken, struct snap_buffer *out)
{
	static const char *const strings[] = { "n", "count", "key" };
	uint64_t numbers[2] = { 1, 1 };
	struct snap_buffer message = { 0 }, inner = { 0 };

	snap_protobuf_number(&message, 1, 1);
	snap_protobuf_message(out, 1, &message);
	snap_buffer_clear(&message);
	snap_protobuf_packed(&message, 1, &broken->location, 1);
	snap_protobuf_packed(&message, 2, numbers, broken->values);
	snap_protobuf_number(&inner, 1, 3);
	snap_protobuf_number(&inner, 2, broken->label_text);
	snap_protobuf_number(&inner, 3, broken->label_number);
	snap_protobuf_message(&message, 3, &inner);
	snap_protobuf_message(out, 2, &message);
	snap_buffer_clear(&message);
	snap_protobuf_packed(&message, 1, numbers, 1);
	snap_protobuf_packed(&message, 2, numbers, 1);
	snap_buffer_clear(&inner);
	snap_protobuf_number(&inner, 1, 3);
	snap_protobuf_number(&inner, 3, broken->again_number);
	snap_protobuf_message(&message, 3, &inner);
	if (broken->again_number)
		snap_protobuf_message(out, 2, &message);
	snap_buffer_clear(&message);
	snap_protobuf_number(&message, 1, broken->id);
	snap_protobuf_message(out, 4, &message);
	snap_buffer_clear(&message);
	snap_protobuf_number(&message, 1, 1);
	snap_protobuf_number(&message, 2, broken->string);
	snap_protobuf_message(out, 5, &message);
	snap_protobuf_element(out, 6, broken->first, strlen(broken->first));
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(strings); i++)
		snap_protobuf_element(out, 6, strings[i], strlen(strings[i]));
	snap_buffer_deinit(&message);
	snap_buffer_deinit(&inner);
}

static void test_the_reader_refuses_what_is_wrong(void **state _unused_)
{
	static const struct broken all[] = {
		{ 1, 1, 1, 0, 0, 1, 1, "", NULL },
		{ 2, 1, 1, 0, 0, 1, 1, "", "a sample has not one value a type" },
		{ 0, 1, 1, 0, 0, 1, 1, "", "a sample has not one value a type" },
		{ 1, 2, 1, 0, 0, 1, 1, "", "a sample at no location" },
		{ 1, 1, 1, 5, 0, 1, 1, "", "a label with two values or none" },
		{ 1, 1, 0, 0, 0, 1, 1, "", "a label with two values or none" },
		{ 1, 1, 9, 0, 0, 1, 1, "", "a label without a string" },
		{ 1, 1, 1, 0, 5, 1, 1, "", "a key of texts and numbers" },
		{ 1, 1, 1, 0, 0, 0, 1, "", "ids of locations" },
		{ 1, 1, 1, 0, 0, 1, 9, "", "a function without a string" },
		{ 1, 1, 1, 0, 0, 1, 1, "x", "the first string is not empty" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(all); i++) {
		struct snap_buffer out = { 0 };
		struct read_profile *profile = NULL;
		const char *wrong;

		make(&all[i], &out);
		assert_false(out.failed);
		wrong = read_and_check(out.data, out.size, &profile);
		if (all[i].wrong)
			assert_string_equal(wrong ? wrong : "", all[i].wrong);
		else
			assert_null(wrong);
		read_free(&profile);
		/* Nor is a cut one whole. */
		assert_non_null(read_and_check(out.data, out.size - 1, &profile));
		read_free(&profile);
		snap_buffer_deinit(&out);
	}
}

static void test_numbers_of_any_size(void **state _unused_)
{
	static const uint64_t numbers[] = { 0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX };
	struct snap_buffer message = { 0 };
	struct read_cursor cursor, inside;
	uint64_t value, values[8];

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(numbers); i++)
		snap_protobuf_number(&message, (unsigned)i + 1, numbers[i]);
	snap_protobuf_packed(&message, 9, numbers, SNAP_ARRAY_SIZE(numbers));
	cursor = (struct read_cursor){ (unsigned char *)message.data,
				       (unsigned char *)message.data + message.size, false };
	for (unsigned i = 1; i < SNAP_ARRAY_SIZE(numbers); i++) {
		assert_int_equal(read_field(&cursor, &value, &inside), i + 1);
		assert_true(value == numbers[i]);
	}
	assert_int_equal(read_field(&cursor, &value, &inside), 9);
	assert_int_equal(read_packed(inside, values, 8), 8);
	assert_memory_equal(values, numbers, sizeof(numbers));
	assert_int_equal(read_field(&cursor, &value, &inside), 0);
	assert_false(cursor.bad);
	snap_buffer_deinit(&message);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_any_size),
		cmocka_unit_test(test_the_reader_refuses_what_is_wrong),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
