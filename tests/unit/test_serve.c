/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What comes from anybody, taken apart: targets of requests, routes, Accept headers, who may ask.
 * Beside the library: the parts of the tool that know nothing of its HTTP library.
 */
#include "base/cleanup.h"
#include "serve/accept.h"
#include "serve/guard.h"
#include "serve/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Of message.c, which knows the terminal. */
bool snap_cli_message(const char *format, ...);

bool snap_cli_message(const char *format _unused_, ...)
{
	return false;
}

/* In place: what it holds points into it. */
static void parse(const char *target, struct snap_serve_query *ret)
{
	assert_true(snap_serve_query_parse(target, ret));
}

static void test_targets_are_taken_apart(void **state _unused_)
{
	struct snap_serve_query query;

	parse("/snapshot.json?target=a%20b+c%2f%C3%A4&x&&y=1=2", &query);
	assert_string_equal(query.path, "/snapshot.json");
	assert_int_equal(query.parameter_count, 3);
	assert_string_equal(snap_serve_query_value(&query, "target"), "a b c/\xc3\xa4");
	assert_string_equal(snap_serve_query_value(&query, "x"), "");
	assert_string_equal(snap_serve_query_value(&query, "y"), "1=2");
	assert_null(snap_serve_query_value(&query, "z"));
	parse("/?", &query);
	assert_string_equal(query.path, "/");
	assert_int_equal(query.parameter_count, 0);
}

static void test_targets_that_are_none(void **state _unused_)
{
	static const char *const bad[] = {
		"",         "x",
		"*",        "http://localhost/",
		"/a b",     "/a\tb",
		"/a#b",     "/?a=%",
		"/?a=%0",   "/?a=%zz",
		"/?a=%00",  "/?a=%0a",
		"/?%7f=",   "/?a=1&a=1",
		"/?a&%61",  "/\x7f",
		"/?a=\x01", "/?a&b&c&d&e&f&g&h&i",
	};
	char longest[SNAP_SERVE_MAX_TARGET + 2];
	struct snap_serve_query query;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		assert_false(snap_serve_query_parse(bad[i], &query));
	memset(longest, '/', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_false(snap_serve_query_parse(longest, &query));
	longest[SNAP_SERVE_MAX_TARGET] = '\0';
	assert_true(snap_serve_query_parse(longest, &query));
}

static void check_route(const char *target, const char *accept, unsigned status, const char *format)
{
	struct snap_serve_query query;
	struct snap_serve_order order;
	const char *why = NULL;

	parse(target, &query);
	assert_int_equal(snap_serve_route(&query, accept, &order, &why), status);
	if (status)
		assert_non_null(why);
	else
		assert_string_equal(order.format, format);
}

static void test_routes(void **state _unused_)
{
	check_route("/snapshot", NULL, 0, "text");
	check_route("/snapshot", "application/json", 0, "json");
	check_route("/snapshot.json", "text/plain", 0, "json");
	check_route("/snapshot.pb.gz?target=7", NULL, 0, "pprof");
	check_route("/snapshot.gz", NULL, 406, NULL);
	check_route("/snapshot.", NULL, 406, NULL);
	check_route("/snapshots", NULL, 404, NULL);
	check_route("/processes", "*/*", 0, "json");
	check_route("/processes.txt", NULL, 0, "text");
	check_route("/processes.folded", NULL, 406, NULL);
	check_route("/debug/pprof/threads", "image/png", 0, "pprof");
	check_route("/debug/pprof/threads?debug=0", NULL, 0, "pprof");
	check_route("/debug/pprof/threads?debug=1", NULL, 0, "thread-counts");
	check_route("/debug/pprof/threads?debug=2", NULL, 0, "thread-dump");
	check_route("/debug/pprof/threads?debug=02", NULL, 400, NULL);
	check_route("/debug/pprof/threads?seconds=1", NULL, 400, NULL);
	check_route("/debug/pprof/profile?seconds=60&hz=1000&mode=wall&target=x", NULL, 0, "pprof");
	check_route("/debug/pprof/profile.json", NULL, 404, NULL);
	check_route("/metrics?x", NULL, 400, NULL);
}

static void test_bounds(void **state _unused_)
{
	struct snap_serve_query query;
	struct snap_serve_order order;
	const char *why;

	parse("/debug/pprof/profile", &query);
	assert_int_equal(snap_serve_route(&query, NULL, &order, &why), 0);
	assert_int_equal(order.seconds, 30);
	assert_int_equal(order.hz, 99);
	assert_string_equal(order.mode, "cpu");
	check_route("/recording?seconds=60&hz=1000", NULL, 0, "text");
	check_route("/recording?seconds=0", NULL, 400, NULL);
	check_route("/recording?seconds=61", NULL, 400, NULL);
	check_route("/recording?seconds=4294967297", NULL, 400, NULL);
	check_route("/recording?seconds=1e1", NULL, 400, NULL);
	check_route("/recording?hz=1001", NULL, 400, NULL);
	check_route("/recording?hz=%2b5", NULL, 400, NULL);
	check_route("/recording?mode=CPU", NULL, 400, NULL);
}

static void test_accept(void **state _unused_)
{
	static const struct {
		const char *accept, *format;
	} rows[] = {
		{ NULL, "usual" },
		{ "", "usual" },
		{ "  ", "usual" },
		{ "*/*", "usual" },
		{ "application/json", "json" },
		{ "Application/JSON", "json" },
		{ "text/plain, application/json", "text" },
		{ "text/plain;q=0.1,application/json;q=0.11", "json" },
		{ "text/plain;q=0,application/json;q=0.001", "json" },
		{ "text/plain;q=0", NULL },
		{ "application/json;version=1;q=0.5, */*;q=0.4", "json" },
		{ "image/png", NULL },
		{ "image/png, */*;q=0.1", "usual" },
		{ "application/vnd.google.protobuf+gzip", "pprof" },
		{ ",,,;;q=,q=1;", NULL },
		{ "text/plain;q", "text" },
		{ "text/plain;", "text" },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const char *got = snap_serve_accept(rows[i].accept, "usual");

		if (rows[i].format)
			assert_string_equal(got, rows[i].format);
		else
			assert_null(got);
	}
}

static unsigned check_guard(const struct snap_serve_guard *guard, const char *host)
{
	const struct snap_serve_headers headers = { .host = host };
	const char *why = NULL;

	return snap_serve_guard_check(guard, &headers, &why);
}

static void test_hosts(void **state _unused_)
{
	const struct snap_serve_guard loopback = { .any_host = false };
	const struct snap_serve_guard path = { .any_host = true };
	static const char *const good[] = { "localhost", "localhost:1", "127.0.0.1:65535",
					    "[::1]",     "[::1]:80",    "192.0.2.1" };
	static const char *const other[] = { "evil.example", "localhost.evil.example:80", "1.2.3",
					     "127.0.0.1.evil.example" };
	static const char *const bad[] = { "",         ":80",  "[]",         "[::1",
					   "[::1]80",  "::1",  "localhost:", "localhost:1x",
					   "a:123456", "a:1:2" };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(good); i++)
		assert_int_equal(check_guard(&loopback, good[i]), 0);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(other); i++) {
		assert_int_equal(check_guard(&loopback, other[i]), 421);
		assert_int_equal(check_guard(&path, other[i]), 0);
	}
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++)
		assert_int_equal(check_guard(&path, bad[i]), 400);
	assert_int_equal(check_guard(&path, NULL), 400);
}

static void test_tokens(void **state _unused_)
{
	const struct snap_serve_guard guard = { .has_token = true,
						.token = "secret",
						.token_length = 6 };
	static const struct {
		const char *authorization;
		unsigned status;
	} rows[] = {
		{ NULL, 401 },
		{ "", 401 },
		{ "Bearer ", 401 },
		{ "Bearer secre", 401 },
		{ "Bearer secrets", 401 },
		{ "Bearer secret", 0 },
		{ "bearer secret", 0 },
		{ "Basic secret", 401 },
		{ "secret", 401 },
	};

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++) {
		const struct snap_serve_headers headers = {
			.host = "localhost",
			.authorization = rows[i].authorization,
		};
		const char *why;

		assert_int_equal(snap_serve_guard_check(&guard, &headers, &why), rows[i].status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets_are_taken_apart),
		cmocka_unit_test(test_targets_that_are_none),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_accept),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_tokens),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
