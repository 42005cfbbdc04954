/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* JSON documents, one or a line each, held to a schema of lib/render by python3's jsonschema. */
#pragma once

#include "base/cleanup.h"
#include "skip.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Fails if a document is not valid; skips without a validator. */
static inline void schema_check(const char *schema, const char *text)
{
	static const char program[] =
		"import json, sys\n"
		"try:\n"
		"    from jsonschema import Draft202012Validator as V\n"
		"except ImportError:\n"
		"    sys.exit(77)\n"
		"schema = json.load(open(sys.argv[1]))\n"
		"V.check_schema(schema)\n"
		"text = sys.stdin.read()\n"
		"try:\n"
		"    documents = [json.loads(text)]\n"
		"except ValueError:\n"
		"    documents = [json.loads(line) for line in text.splitlines()]\n"
		"errors = [f'{list(e.path)}: {e.message}'\n"
		"          for d in documents for e in V(schema).iter_errors(d)]\n"
		"print('\\n'.join(errors[:20]), file=sys.stderr)\n"
		"sys.exit(len(errors) > 0 or not documents)\n";
	const char *source = getenv("STACKSNAP_SOURCE");
	_cleanup_free_ char *command = NULL;
	sighandler_t before;
	FILE *pipe;
	int status;

	assert_non_null(source);
	assert_true(asprintf(&command, "python3 -W ignore -c \"$PROGRAM\" '%s/lib/render/json/%s'",
			     source, schema) > 0);
	assert_int_equal(setenv("PROGRAM", program, 1), 0);
	pipe = popen(command, "w");
	assert_non_null(pipe);
	/* One without a validator ends before it has read all. */
	before = signal(SIGPIPE, SIG_IGN);
	fputs(text, pipe);
	status = pclose(pipe);
	signal(SIGPIPE, before);
	assert_int_equal(unsetenv("PROGRAM"), 0);
	if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
		skip_because("missing: python3 with jsonschema");
	}
	assert_int_equal(status, 0);
}
