/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Python's str objects as UTF-8. Knows nothing of their use. */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"
#include "base/escape.h"

enum {
	NOT_A_CHARACTER = 0xfffd,
	MOST_LENGTH = 1 << 28, /* characters that are believed; SNAP_PYTHON_MOST_NAME are read */
};

/* The bytes of one character; 1 to 4. */
static size_t encode_character(uint32_t character, char *out)
{
	if (character >= 0xdc80 && character <= 0xdcff) {
		out[0] = (char)(character - 0xdc00);
		return 1;
	}
	if (character == 0 || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
		character = NOT_A_CHARACTER;
	return snap_put_utf8(character, out);
}

size_t snap_python_utf8(const void *characters, size_t count, unsigned width, char *out,
			size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		char bytes[4];
		size_t size = encode_character(
			(uint32_t)snap_runtime_field(characters, i * width, width), bytes);

		if (size > room - used)
			break;
		memcpy(out + used, bytes, size);
		used += size;
	}
	return used;
}

bool snap_python_string(const struct snap_python *python, uint64_t address, const char **ret)
{
	const struct snap_python_layout *layout = &python->layout;
	uint8_t head[SNAP_PYTHON_RECORD], characters[SNAP_PYTHON_MOST_NAME];
	char text[SNAP_MAX_NAME];
	uint64_t length, state, bytes;
	unsigned kind;
	bool is_compact, is_ascii;

	*ret = NULL;
	if (!snap_runtime_read(python->process, address, head, layout->string.ascii))
		return true;
	if (python->string_type &&
	    snap_runtime_field(head, layout->object_type, 8) != python->string_type)
		return true;
	length = snap_runtime_field(head, layout->string.length, 8);
	state = snap_runtime_field(head, layout->string.state, 4) >> layout->string.kind_shift;
	kind = state & 7;
	is_compact = state >> 3 & 1;
	is_ascii = state >> 4 & 1;
	if (!is_compact || length > MOST_LENGTH || (kind != 1 && kind != 2 && kind != 4) ||
	    (is_ascii && kind != 1))
		return true;
	bytes = length * kind;
	if (bytes > sizeof(characters))
		bytes = sizeof(characters);
	if (!snap_runtime_read(python->process,
			       address + (is_ascii ? layout->string.ascii : layout->string.compact),
			       characters, bytes))
		return true;
	*ret = snap_intern(python->process->strings, text,
			   snap_python_utf8(characters, bytes / kind, kind, text, sizeof(text)));
	return *ret != NULL;
}
