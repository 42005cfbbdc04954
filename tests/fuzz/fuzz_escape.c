/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Escaping: nothing forbidden comes out, the way back gives the bytes, too little room cuts. */
#include "base/escape.h"
#include "fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned flags = size ? data[0] & 3 : 0;
	size_t length = size ? size - 1 : 0, room = 4 * length + 1, cut;
	const char *bytes = (const char *)data + (size ? 1 : 0);
	struct fuzz_output out = { malloc(room), 0 };
	char *back = malloc(room);

	if (!out.bytes || !back) {
		free(out.bytes);
		free(back);
		return 0;
	}
	out.size = snap_escape(bytes, length, flags, out.bytes, room);
	fuzz_check(out.size < room && out.bytes[out.size] == '\0', "it is whole");
	fuzz_check_text(&out);
	fuzz_check(!memchr(out.bytes, '\n', out.size), "no newline");
	for (size_t i = 0; i < out.size; i++) {
		fuzz_check(!(flags & SNAP_ESCAPE_ASCII) || !(out.bytes[i] & 0x80), "ASCII");
		fuzz_check(!(flags & SNAP_ESCAPE_SEMICOLON) || out.bytes[i] != ';', "no ';'");
	}
	fuzz_check(snap_escape_is_clean(bytes, length, flags) ==
			   (out.size == length && memcmp(out.bytes, bytes, length) == 0),
		   "clean is what stays as it is");
	fuzz_check(snap_unescape(out.bytes, out.size, back) == length &&
			   memcmp(back, bytes, length) == 0,
		   "the bytes come back");
	/* Whatever is read back, of any text. */
	fuzz_check(snap_unescape(bytes, length, back) <= length, "never longer");
	cut = snap_escape(bytes, length, flags, back, room / 2);
	fuzz_check(room / 2 == 0 || (cut < room / 2 && memcmp(back, out.bytes, cut) == 0),
		   "what is cut is a beginning");
	free(out.bytes);
	free(back);
	return 0;
}
