/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Golden files: what a renderer writes, byte for byte, in tests/golden/. STACKSNAP_GOLDEN=rewrite
 * writes them anew (`./dev golden`); the difference is then for people to review. The program's
 * version is replaced by the word VERSION.
 */
#pragma once

#include "render/render.h"

#include <stdlib.h>
#include <string.h>

typedef struct stacksnap_error *(*golden_renderer)(const struct snap_snapshot *,
						   const struct snap_options *, FILE *);

/* What the renderer writes, malloc'ed. */
static __attribute__((noinline, unused)) char *golden_render(golden_renderer render,
							     const struct snap_snapshot *snapshot,
							     const struct snap_options *options,
							     size_t *size_ret)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_null(render(snapshot, options, out));
	assert_int_equal(fclose(out), 0);
	if (size_ret)
		*size_ret = size;
	return text;
}

/*
 * The first that the text has of the ways in which formats tell the version. Not inline: gcc 12 takes
 * the text for the variable that open_memstream() left it in, and warns of a dangling pointer at -O3.
 */
__attribute__((noinline, unused)) static char *golden_without_version(const char *text)
{
	static const char *const versions[] = { "\"version\": \"" SNAP_VERSION "\"",
						"\"version\":\"" SNAP_VERSION "\"",
						("stacksnap@" SNAP_VERSION) };

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(versions); i++) {
		const char *at = strstr(text, versions[i]), *number;
		char *out = NULL;

		if (!at)
			continue;
		number = strstr(at, SNAP_VERSION);
		if (asprintf(&out, "%.*sVERSION%s", (int)(number - text), text,
			     number + strlen(SNAP_VERSION)) < 0)
			return NULL;
		return out;
	}
	return strdup(text);
}

static inline char *golden_read(const char *path)
{
	FILE *in = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;

	if (!in)
		return NULL;
	/* Files have no NUL, so this reads all. */
	if (getdelim(&text, &size, '\0', in) < 0) {
		free(text);
		text = NULL;
	}
	fclose(in);
	return text;
}

static inline void golden_check(const char *name, const char *text)
{
	const char *source = getenv("STACKSNAP_SOURCE"), *mode = getenv("STACKSNAP_GOLDEN");
	_cleanup_free_ char *path = NULL, *expected = NULL, *got = golden_without_version(text);

	assert_non_null(source);
	assert_non_null(got);
	assert_true(asprintf(&path, "%s/tests/golden/%s", source, name) > 0);
	if (mode && strcmp(mode, "rewrite") == 0) {
		FILE *out = fopen(path, "we");

		assert_non_null(out);
		fputs(got, out);
		assert_int_equal(fclose(out), 0);
		return;
	}
	expected = golden_read(path);
	if (!expected)
		fail_msg("%s is missing: run ./dev golden", path);
	if (strcmp(expected, got) != 0)
		fail_msg("differs from tests/golden/%s (./dev golden rewrites it):\n%s", name, got);
}
