/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What comes from anybody, taken apart: targets of requests, routes, Accept headers, who may ask. And
 * how long targets may be stopped.
 * Beside the library: the parts of the tool that know nothing of its HTTP library.
 */
#include "base/cleanup.h"
#include "serve/accept.h"
#include "serve/guard.h"
#include "serve/ledger.h"
#include "serve/route.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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
	check_route("/metrics", NULL, 0, "prometheus");
	check_route("/metrics", "text/html, */*;q=0.1", 0, "prometheus");
	check_route("/metrics", "image/png", 0, "prometheus");
	check_route("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5", 0,
		    "openmetrics");
	check_route("/metrics", "application/openmetrics-text;q=0.2,text/plain;q=0.5", 0,
		    "prometheus");
	check_route("/snapshot", "application/openmetrics-text", 406, NULL);
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

static unsigned check_guard(const struct snap_serve_guard *guard, const char *own, const char *host)
{
	struct snap_serve_headers headers = { .host = host };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&headers.own;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&headers.own;
	const char *why = NULL;

	headers.own.ss_family = AF_UNIX;
	if (own && inet_pton(AF_INET, own, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (own && inet_pton(AF_INET6, own, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
	return snap_serve_guard_check(guard, &headers, &why);
}

static void test_hosts(void **state _unused_)
{
	static const struct snap_serve_guard guard = { .hosts = { "web-1", "10.0.0.9" },
						       .host_count = 2 };
	static const struct {
		const char *own, *host;
		unsigned status;
	} rows[] = {
		{ "127.0.0.1", "localhost", 0 },
		{ "127.0.0.1", "LOCALHOST:1", 0 },
		{ "127.0.0.1", "127.0.0.1:65535", 0 },
		{ "127.0.0.1", "[::1]", 0 },
		{ "127.0.0.1", "[0:0::1]:80", 421 },
		{ "127.0.0.1", "127.0.0.2", 421 },
		{ "127.0.0.2", "127.0.0.2", 0 },
		{ "127.0.0.2", "localhost", 0 },
		{ "::1", "[0:0::1]:80", 0 },
		{ "::1", "localhost", 0 },
		{ "::1", "127.0.0.1", 0 },
		{ "::ffff:127.0.0.1", "127.0.0.1", 0 },
		{ "::ffff:192.0.2.1", "192.0.2.1", 0 },
		{ "192.0.2.1", "192.0.2.1:6099", 0 },
		{ "192.0.2.1", "[::ffff:192.0.2.1]", 0 },
		{ "192.0.2.1", "192.0.2.2", 421 },
		{ "192.0.2.1", "localhost", 421 },
		{ "192.0.2.1", "127.0.0.1", 421 },
		{ "192.0.2.1", "10.0.0.9", 0 },
		{ "192.0.2.1", "WEB-1:80", 0 },
		{ "127.0.0.1", "web-1", 0 },
		{ "127.0.0.1", "web-1.evil.example", 421 },
		{ "127.0.0.1", "evil.example", 421 },
		{ "127.0.0.1", "localhost.evil.example:80", 421 },
		{ "127.0.0.1", "127.0.0.1.evil.example", 421 },
		{ "127.0.0.1", "1.2.3", 421 },
		{ NULL, "evil.example", 0 },
	};
	static const char *const bad[] = { "",         ":80",  "[]",         "[::1",
					   "[::1]80",  "::1",  "localhost:", "localhost:1x",
					   "a:123456", "a:1:2" };
	struct snap_serve_guard made = { .host_count = 0 };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(rows); i++)
		assert_int_equal(check_guard(&guard, rows[i].own, rows[i].host), rows[i].status);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(bad); i++) {
		assert_int_equal(check_guard(&guard, NULL, bad[i]), 400);
		assert_false(snap_serve_guard_add_host(&made, bad[i]));
	}
	assert_int_equal(check_guard(&guard, NULL, NULL), 400);
	for (size_t i = 0; i < SNAP_SERVE_MAX_HOSTS; i++)
		assert_true(snap_serve_guard_add_host(&made, "[::1]:80"));
	assert_string_equal(made.hosts[0], "::1");
	assert_false(snap_serve_guard_add_host(&made, "a"));
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
			.own = { .ss_family = AF_UNIX },
			.authorization = rows[i].authorization,
		};
		const char *why;

		assert_int_equal(snap_serve_guard_check(&guard, &headers, &why), rows[i].status);
	}
}

enum { MS = 1000000 };

static void test_snapshots_are_waited_off(void **state _unused_)
{
	struct snap_serve_ledger ledger = { .share = 0.03 };

	assert_int_equal(snap_serve_ledger_wait(&ledger, 5 * MS), 0);
	snap_serve_ledger_add(&ledger, 5 * MS, 3 * MS);
	assert_in_range(snap_serve_ledger_wait(&ledger, 5 * MS), 100 * MS, 100 * MS + 2);
	/* Looks in between change nothing, however often. */
	for (int64_t now = 5 * MS; now < 55 * MS; now += 1000)
		snap_serve_ledger_wait(&ledger, now);
	assert_in_range(snap_serve_ledger_wait(&ledger, 55 * MS), 50 * MS - 100, 50 * MS + 100);
	assert_int_equal(snap_serve_ledger_wait(&ledger, 106 * MS), 0);
	/* What was not used is not saved up. */
	snap_serve_ledger_add(&ledger, 10000 * (int64_t)MS, 3 * MS);
	assert_in_range(snap_serve_ledger_wait(&ledger, 10000 * (int64_t)MS), 99 * MS, 101 * MS);
}

static void test_recordings_share(void **state _unused_)
{
	struct snap_serve_ledger ledger = { .share = 0.03 };
	double shares[4], sum = 0;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(shares); i++) {
		assert_int_equal(snap_serve_ledger_wait(&ledger, 0), 0);
		shares[i] = snap_serve_ledger_set_aside(&ledger, 0);
		assert_true(shares[i] >= 0.001);
		sum += shares[i];
	}
	assert_true(sum < 0.03);
	/* With so many of them a snapshot is waited off for longer. */
	snap_serve_ledger_add(&ledger, 0, 3 * MS);
	assert_true(snap_serve_ledger_wait(&ledger, 0) > 1000 * (int64_t)MS);
	/* One that kept to its share, and one that ended at once and had more. */
	snap_serve_ledger_give_back(&ledger, 0, shares[0], 1000 * (int64_t)MS, 10 * MS);
	snap_serve_ledger_give_back(&ledger, 0, shares[1], 0, 6 * MS);
	snap_serve_ledger_give_back(&ledger, 0, shares[2], 0, 0);
	snap_serve_ledger_give_back(&ledger, 0, shares[3], 0, 0);
	assert_in_range(snap_serve_ledger_wait(&ledger, 0), 299 * MS, 301 * MS);
}

static void test_the_least_and_the_whole_share(void **state _unused_)
{
	struct snap_serve_ledger least = { .share = 0.1 / 100 }, whole = { .share = 1 };
	double share;

	assert_int_equal(snap_serve_ledger_wait(&least, 0), 0);
	share = snap_serve_ledger_set_aside(&least, 0);
	assert_true(share >= 0.001);
	assert_true(snap_serve_ledger_wait(&least, 0) == INT64_MAX);
	snap_serve_ledger_give_back(&least, 0, share, 0, 0);
	assert_int_equal(snap_serve_ledger_wait(&least, 0), 0);
	snap_serve_ledger_add(&whole, 0, 3 * MS);
	assert_true(snap_serve_ledger_set_aside(&whole, 0) >= 1);
	assert_int_equal(snap_serve_ledger_wait(&whole, 0), 0);
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
		cmocka_unit_test(test_snapshots_are_waited_off),
		cmocka_unit_test(test_recordings_share),
		cmocka_unit_test(test_the_least_and_the_whole_share),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
