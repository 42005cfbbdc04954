/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What Java calls its threads: the field `name` of each java.lang.Thread, a String. Where fields lie
 * in objects is in the descriptions of the two classes, where those are is in HotSpot's table. The
 * process runs meanwhile, and a collector moves objects: what is no String has no name. Objects that
 * are found by coloured pointers (ZGC from JDK 21 on) or have compact headers are none here.
 */
#include "analyze/runtime/java/java.h"
#include "analyze/runtime/memory.h"
#include "base/escape.h"

enum field {
	LIST,
	LENGTH,
	THREADS,
	OS_THREAD,
	TID,
	OBJECT,
	THREAD_CLASS,
	STRING_CLASS,
	CONSTANTS,
	OOP_BASE,
	OOP_SHIFT,
	CLASS_BASE,
	CLASS_SHIFT,
	NEEDED,
	/* one of these: up to JDK 20, from 21 on */
	FIELD_TABLE = NEEDED,
	FIELD_STREAM,
	FIELDS,
};

#define CLASS_OF(name) "_klasses[static_cast<int>(vmClassID::" name "_klass_knum)]"

static const struct snap_java_row rows[FIELDS] = {
	[LIST] = { "ThreadsSMRSupport", NULL, "_java_thread_list", NULL, true },
	[LENGTH] = { "ThreadsList", NULL, "_length", NULL, false },
	[THREADS] = { "ThreadsList", NULL, "_threads", NULL, false },
	[OS_THREAD] = { "JavaThread", "Thread", "_osthread", NULL, false },
	[TID] = { "OSThread", NULL, "_thread_id", NULL, false },
	[OBJECT] = { "JavaThread", NULL, "_threadObj", NULL, false },
	[THREAD_CLASS] = { "vmClasses", NULL, CLASS_OF("Thread"), NULL, true },
	[STRING_CLASS] = { "vmClasses", NULL, CLASS_OF("String"), NULL, true },
	[CONSTANTS] = { "InstanceKlass", NULL, "_constants", NULL, false },
	[OOP_BASE] = { "CompressedOops", NULL, "_narrow_oop._base", "_base", true },
	[OOP_SHIFT] = { "CompressedOops", NULL, "_narrow_oop._shift", "_shift", true },
	[CLASS_BASE] = { "CompressedKlassPointers", NULL, "_narrow_klass._base", "_base", true },
	[CLASS_SHIFT] = { "CompressedKlassPointers", NULL, "_narrow_klass._shift", "_shift", true },
	[FIELD_TABLE] = { "InstanceKlass", NULL, "_fields", NULL, false },
	[FIELD_STREAM] = { "InstanceKlass", NULL, "_fieldinfo_stream", NULL, false },
};

enum {
	POINTER = 8,
	MOST_THREADS = 1024,
	MOST_FIELDS = 256,     /* of a class */
	MOST_DESCRIBED = 4096, /* bytes of their description */
	ARRAY_DATA = 4,        /* of an array that is no object, behind its length */
	CONSTANTS_HEAD = 72,
	SYMBOL_LENGTH = 4,
	SYMBOL_BODY = 6,
	/* an element of the table: six numbers of two bytes */
	TUPLE = 12,
	TUPLE_NAME = 2,
	TUPLE_SIGNATURE = 4,
	TUPLE_OFFSET = 8,
	OFFSET_TAG_BITS = 2,
	INTERNAL = 0x400, /* access: its name is not among the constants */
	/* objects: the class, the length and the bytes of an array */
	OBJECT_CLASS = 8,
	OBJECT_LENGTH = 12,
	OBJECT_DATA = 16,
	MOST_SHIFT = 16,
	MOST_LENGTH = 1 << 24,
	LATIN = 0,
	UTF16 = 1,
};

struct naming {
	const struct snap_runtime_process *process;
	uint64_t fields[FIELDS];
	uint64_t oop_base, oop_shift;
	uint64_t string_class;                /* as an object has it */
	uint64_t name_at, value_at, coder_at; /* in a Thread, in a String */
};

/* ---- where fields lie in objects ---- */

struct wanted {
	const char *name, *signature;
};

static bool is_symbol(const struct naming *naming, uint64_t constants, uint64_t index,
		      const char *text)
{
	uint8_t symbol[SYMBOL_BODY + 32];
	size_t length = strlen(text);
	uint64_t address;

	return snap_runtime_word(naming->process, constants + CONSTANTS_HEAD + index * POINTER,
				 &address) &&
	       snap_runtime_read(naming->process, address, symbol, SYMBOL_BODY + length) &&
	       snap_runtime_field(symbol, SYMBOL_LENGTH, 2) == length &&
	       memcmp(symbol + SYMBOL_BODY, text, length) == 0;
}

static bool is_wanted(const struct naming *naming, uint64_t constants, uint64_t name,
		      uint64_t signature, const struct wanted *wanted)
{
	return is_symbol(naming, constants, name, wanted->name) &&
	       is_symbol(naming, constants, signature, wanted->signature);
}

static bool find_in_table(const struct naming *naming, uint64_t constants, const uint8_t *bytes,
			  size_t size, const struct wanted *wanted, uint64_t *ret)
{
	for (size_t at = 0; at + TUPLE <= size && at < MOST_FIELDS * TUPLE; at += TUPLE) {
		*ret = snap_runtime_field(bytes, at + TUPLE_OFFSET, 4) >> OFFSET_TAG_BITS;
		if (!(snap_runtime_field(bytes, at, 2) & INTERNAL) &&
		    is_wanted(naming, constants, snap_runtime_field(bytes, at + TUPLE_NAME, 2),
			      snap_runtime_field(bytes, at + TUPLE_SIGNATURE, 2), wanted))
			return true;
	}
	return false;
}

/* The next number of a stream (src/hotspot/share/utilities/unsigned5.hpp); 0 at its end, too. */
static uint64_t next_number(const uint8_t *bytes, size_t size, size_t *at)
{
	enum { LEAST = 1, HIGH = 192, BITS = 6, MOST_BYTES = 5 };
	uint64_t number = 0;

	for (unsigned i = 0; i < MOST_BYTES && *at < size && bytes[*at] >= LEAST; i++) {
		uint8_t byte = bytes[(*at)++];

		number += (uint64_t)(byte - LEAST) << (i * BITS);
		if (byte < HIGH)
			break;
	}
	return number;
}

/* The numbers of fields; of each its name, signature, offset, access, flags, and what these say. */
static bool find_in_stream(const struct naming *naming, uint64_t constants, const uint8_t *bytes,
			   size_t size, const struct wanted *wanted, uint64_t *ret)
{
	enum { INITIALIZED = 1, GENERIC = 4, CONTENDED = 16 };
	size_t at = 0, count = next_number(bytes, size, &at);

	next_number(bytes, size, &at);
	for (size_t i = 0; i < count && i < MOST_FIELDS; i++) {
		uint64_t name = next_number(bytes, size, &at);
		uint64_t signature = next_number(bytes, size, &at), flags;

		*ret = next_number(bytes, size, &at);
		if (is_wanted(naming, constants, name, signature, wanted))
			return true;
		next_number(bytes, size, &at);
		flags = next_number(bytes, size, &at);
		for (uint64_t more = flags & (INITIALIZED | GENERIC | CONTENDED); more;
		     more &= more - 1)
			next_number(bytes, size, &at);
	}
	return false;
}

static bool find_offset(const struct naming *naming, uint64_t class, const struct wanted *wanted,
			uint64_t *ret)
{
	bool is_stream = naming->fields[FIELD_STREAM] != UINT64_MAX;
	uint64_t at = naming->fields[is_stream ? FIELD_STREAM : FIELD_TABLE];
	uint64_t constants, array, size;
	uint8_t bytes[MOST_DESCRIBED];

	if (!snap_runtime_word(naming->process, class + naming->fields[CONSTANTS], &constants) ||
	    !snap_runtime_word(naming->process, class + at, &array) ||
	    !snap_runtime_number(naming->process, array, 4, &size))
		return false;
	size *= is_stream ? 1 : 2;
	if (size > sizeof(bytes) ||
	    !snap_runtime_read(naming->process, array + ARRAY_DATA, bytes, size))
		return false;
	return (is_stream ? find_in_stream : find_in_table)(naming, constants, bytes, size, wanted,
							    ret) &&
	       *ret < SNAP_JAVA_MOST_OFFSET;
}

static bool find_classes(struct naming *naming)
{
	static const struct wanted name = { "name", "Ljava/lang/String;" },
				   value = { "value", "[B" }, coder = { "coder", "B" };
	const struct snap_runtime_process *process = naming->process;
	const uint64_t *fields = naming->fields;
	uint64_t thread, string, base, shift;

	if (!snap_runtime_word(process, fields[THREAD_CLASS], &thread) ||
	    !snap_runtime_word(process, fields[STRING_CLASS], &string) ||
	    !snap_runtime_word(process, fields[OOP_BASE], &naming->oop_base) ||
	    !snap_runtime_number(process, fields[OOP_SHIFT], 4, &naming->oop_shift) ||
	    !snap_runtime_word(process, fields[CLASS_BASE], &base) ||
	    !snap_runtime_number(process, fields[CLASS_SHIFT], 4, &shift) || shift > MOST_SHIFT ||
	    naming->oop_shift > MOST_SHIFT)
		return false;
	naming->string_class = (string - base) >> shift;
	return find_offset(naming, thread, &name, &naming->name_at) &&
	       find_offset(naming, string, &value, &naming->value_at) &&
	       find_offset(naming, string, &coder, &naming->coder_at);
}

/* ---- names ---- */

/* An object that another one refers to, by a pointer or by half of one; 0: it cannot be read. */
static uint64_t referred_at(const struct naming *naming, uint64_t address, bool is_narrow)
{
	uint64_t word;

	if (!snap_runtime_number(naming->process, address, is_narrow ? POINTER / 2 : POINTER,
				 &word))
		return 0;
	return word && is_narrow ? naming->oop_base + (word << naming->oop_shift) : word;
}

static bool is_string(const struct naming *naming, uint64_t object)
{
	uint64_t class;

	return object && snap_runtime_number(naming->process, object + OBJECT_CLASS, 4, &class) &&
	       class == naming->string_class;
}

/* The character at a place, which is moved behind it: half of a pair alone is none. */
static uint32_t character_at(const uint8_t *bytes, size_t size, unsigned width, size_t *at)
{
	enum { SURROGATES = 0xd800, SECOND = 0xdc00, BEHIND = 0xe000, NONE = 0xfffd };
	uint32_t unit = (uint32_t)snap_runtime_field(bytes, *at, width), next;

	*at += width;
	if (unit == 0 || (unit >= SECOND && unit < BEHIND))
		return NONE;
	if (unit < SURROGATES || unit >= BEHIND)
		return unit;
	next = *at + width <= size ? (uint32_t)snap_runtime_field(bytes, *at, width) : 0;
	if (next < SECOND || next >= BEHIND)
		return NONE;
	*at += width;
	return 0x10000 + ((unit - SURROGATES) << 10) + (next - SECOND);
}

static void take_java_name(const struct naming *naming, uint32_t tid, const uint8_t *bytes,
			   size_t size, unsigned width)
{
	char name[SNAP_MAX_THREAD_NAME];
	size_t used = 0;

	for (size_t at = 0; at + width <= size && used + 4 < sizeof(name);)
		used += snap_put_utf8(character_at(bytes, size, width, &at), name + used);
	name[used] = '\0';
	naming->process->take_name(naming->process->take_context, tid, name);
}

static void name_java_thread(const struct naming *naming, uint64_t thread)
{
	const struct snap_runtime_process *process = naming->process;
	uint64_t os_thread, tid, object, string, value, coder, length;
	uint8_t bytes[2 * SNAP_MAX_THREAD_NAME];
	bool is_narrow;

	if (!snap_runtime_word(process, thread + naming->fields[OS_THREAD], &os_thread) ||
	    !snap_runtime_number(process, os_thread + naming->fields[TID], 4, &tid) ||
	    !snap_runtime_word(process, thread + naming->fields[OBJECT], &object) ||
	    !snap_runtime_word(process, object, &object))
		return;
	string = referred_at(naming, object + naming->name_at, true);
	is_narrow = is_string(naming, string);
	if (!is_narrow)
		string = referred_at(naming, object + naming->name_at, false);
	if (!is_narrow && !is_string(naming, string))
		return;
	value = referred_at(naming, string + naming->value_at, is_narrow);
	if (!value || !snap_runtime_number(process, string + naming->coder_at, 1, &coder) ||
	    coder > UTF16 || !snap_runtime_number(process, value + OBJECT_LENGTH, 4, &length) ||
	    length > MOST_LENGTH)
		return;
	if (length > sizeof(bytes))
		length = sizeof(bytes);
	if (snap_runtime_read(process, value + OBJECT_DATA, bytes, length))
		take_java_name(naming, (uint32_t)tid, bytes, length, coder == LATIN ? 1 : 2);
}

void snap_java_name_threads(struct snap_java *java)
{
	const struct snap_runtime_process *process = java->process;
	struct naming naming = { .process = process };
	const uint64_t *fields = naming.fields;
	uint64_t list, count, array, thread;

	if (!snap_java_read_fields(java, rows, FIELDS, naming.fields))
		return;
	for (size_t i = 0; i < NEEDED; i++)
		if (fields[i] == UINT64_MAX)
			return;
	if (fields[FIELD_TABLE] == UINT64_MAX && fields[FIELD_STREAM] == UINT64_MAX)
		return;
	if (!find_classes(&naming) || !snap_runtime_word(process, fields[LIST], &list) ||
	    !snap_runtime_number(process, list + fields[LENGTH], 4, &count) ||
	    !snap_runtime_word(process, list + fields[THREADS], &array))
		return;
	for (uint64_t i = 0; i < count && i < MOST_THREADS && snap_runtime_may_name(process); i++)
		if (snap_runtime_word(process, array + i * POINTER, &thread))
			name_java_thread(&naming, thread);
}
