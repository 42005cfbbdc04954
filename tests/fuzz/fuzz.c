/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the fuzz targets share: see fuzz.h. */
#include "fuzz.h"
#include "render/html/parts.h"

#include <jansson.h>
#include <string.h>
#include <sys/mman.h>

void fuzz_check(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz: does not hold: %s\n", what);
	abort();
}

void fuzz_no_error(struct stacksnap_error *err)
{
	if (!err)
		return;
	if (snap_error_code(err) != SNAP_ERROR_NO_MEMORY) {
		fprintf(stderr, "fuzz: failed: %s\n", snap_error_message(err));
		abort();
	}
	snap_error_destroy(err);
}

int fuzz_file(const void *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	const char *at = bytes;

	fuzz_check(fd >= 0, "memfd_create");
	for (size_t done = 0; done < size;) {
		ssize_t got = pwrite(fd, at + done, size - done, (off_t)done);

		fuzz_check(got > 0, "write to a file in memory");
		done += (size_t)got;
	}
	return fd;
}

/* ---- bytes as choices ---- */

uint8_t fuzz_u8(struct fuzz_bytes *bytes)
{
	return bytes->at < bytes->end ? *bytes->at++ : 0;
}

uint64_t fuzz_u64(struct fuzz_bytes *bytes)
{
	uint64_t value = 0;
	struct fuzz_bytes taken = fuzz_take(bytes, sizeof(value));

	memcpy(&value, taken.at, (size_t)(taken.end - taken.at));
	return value;
}

struct fuzz_bytes fuzz_take(struct fuzz_bytes *bytes, size_t most)
{
	size_t left = (size_t)(bytes->end - bytes->at);
	struct fuzz_bytes taken = { bytes->at, bytes->at + (left < most ? left : most) };

	bytes->at = taken.end;
	return taken;
}

const char *fuzz_text(struct fuzz_bytes *bytes, struct snap_arena *arena)
{
	struct fuzz_bytes taken = fuzz_take(bytes, fuzz_u8(bytes));
	size_t length = strnlen((const char *)taken.at, (size_t)(taken.end - taken.at));

	return length ? snap_arena_strndup(arena, (const char *)taken.at, length) : NULL;
}

/* ---- what came out ---- */

void fuzz_output_deinit(struct fuzz_output *output)
{
	free(output->bytes);
}

static struct fuzz_output rendered(struct stacksnap_error *err, FILE *file, char **bytes,
				   const size_t *size)
{
	fclose(file);
	if (err) {
		free(*bytes);
		snap_error_destroy(err);
		return (struct fuzz_output){ 0 };
	}
	return (struct fuzz_output){ *bytes, *size };
}

struct fuzz_output fuzz_render(const char *format, const struct snap_snapshot *snapshot,
			       const struct snap_options *options)
{
	char *bytes = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&bytes, &size);

	fuzz_check(file != NULL, "open_memstream");
	return rendered(snap_render_snapshot(snap_format_by_name(format), snapshot, options, file),
			file, &bytes, &size);
}

struct fuzz_output fuzz_render_recording(const char *format, const struct snap_recording *recording,
					 const struct snap_options *options)
{
	char *bytes = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&bytes, &size);

	fuzz_check(file != NULL, "open_memstream");
	return rendered(
		snap_render_recording(snap_format_by_name(format), recording, options, file), file,
		&bytes, &size);
}

/* Written anew, not the library's: what is checked is no judge of itself. */
static size_t character(const uint8_t *at, size_t left, uint32_t *code_ret)
{
	size_t length = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	uint32_t code = length == 1 ? at[0] : at[0] & (0xffu >> (length + 1));

	fuzz_check(at[0] < 0x80 || (at[0] >= 0xc2 && at[0] <= 0xf4), "a byte begins a character");
	fuzz_check(length <= left, "the last character is whole");
	for (size_t i = 1; i < length; i++) {
		fuzz_check((at[i] & 0xc0) == 0x80, "a character goes on as it should");
		code = code << 6 | (at[i] & 0x3fu);
	}
	fuzz_check(length < 3 || code >= (length == 3 ? 0x800u : 0x10000u), "no overlong form");
	fuzz_check(code < 0xd800 || (code > 0xdfff && code <= 0x10ffff), "a code point");
	*code_ret = code;
	return length;
}

void fuzz_check_text(const struct fuzz_output *output)
{
	const uint8_t *bytes = (const uint8_t *)output->bytes;

	for (size_t i = 0; i < output->size;) {
		uint32_t code = 0;

		i += character(bytes + i, output->size - i, &code);
		fuzz_check(code >= 0x20 || code == '\n', "no C0");
		fuzz_check(code < 0x7f || code > 0x9f, "no DEL, no C1");
		fuzz_check(code != 0x61c && code != 0x200e && code != 0x200f &&
				   (code < 0x2028 || code > 0x202e) &&
				   (code < 0x2066 || code > 0x2069) && code != 0xfeff,
			   "no bidirectional control");
		fuzz_check((code & 0xfffe) != 0xfffe && (code < 0xfdd0 || code > 0xfdef),
			   "no noncharacter");
	}
}

static void check_document(const char *bytes, size_t size)
{
	json_error_t error;
	json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		fprintf(stderr, "%s (line %d)\n", error.text, error.line);
	fuzz_check(root != NULL, "a JSON document");
	json_decref(root);
}

void fuzz_check_json(const struct fuzz_output *output, bool lines)
{
	const char *at = output->bytes, *end = output->bytes + output->size;

	if (!output->bytes)
		return;
	fuzz_check_text(output);
	if (!lines) {
		check_document(at, output->size);
		return;
	}
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		fuzz_check(newline != NULL, "a line ends");
		check_document(at, (size_t)(newline - at));
		at = newline + 1;
	}
}

static size_t tags(const char *bytes, size_t size)
{
	const char *at = bytes, *end = bytes + size;
	size_t count = 0;

	while ((at = memchr(at, '<', (size_t)(end - at)))) {
		count++;
		at++;
	}
	return count;
}

/* A page: its data is a JSON document, and no tag is there that is not the page's own. */
static void check_page(const struct fuzz_output *output)
{
	static const char BEGIN[] = "id=\"data\">", END[] = "</script>";
	/* Those of lib/render/html/page.c, apart from what its style and its script hold. */
	static const size_t OWN_TAGS = 32;
	const char *data, *end;

	if (!output->bytes)
		return;
	fuzz_check_text(output);
	fuzz_check(tags(output->bytes, output->size) ==
			   OWN_TAGS + tags(snap_html_style, strlen(snap_html_style)) +
				   tags(snap_html_script, strlen(snap_html_script)),
		   "the tags are those of the page");
	data = strstr(output->bytes, BEGIN);
	fuzz_check(data != NULL, "a page has data");
	data += strlen(BEGIN);
	end = strstr(data, END);
	fuzz_check(end != NULL, "the data of a page end");
	check_document(data, (size_t)(end - data));
}

void fuzz_check_format(const struct snap_format *format, const struct fuzz_output *output)
{
	if (strcmp(format->name, "text") == 0 || strcmp(format->name, "folded") == 0)
		fuzz_check_text(output);
	else if (strcmp(format->name, "html") == 0)
		check_page(output);
	else if (format->bytes == SNAP_TEXT)
		fuzz_check_json(output, strcmp(format->name, "jsonl") == 0);
}
