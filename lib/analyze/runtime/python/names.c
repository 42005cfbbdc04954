/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the module `threading` calls its threads: in each interpreter's sys.modules, its dict
 * `_active` has an object of each thread, with the attributes _name and _native_id. The process runs
 * meanwhile, so what makes no sense has no name. Knows nothing of the states of threads.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/python/python.h"

#include "base/text.h"

enum {
	MOST_INTERPRETERS = 64,
	MOST_ENTRIES = 1 << 13,   /* of a dict that are looked at … */
	MOST_LOOKED_AT = 1 << 16, /* … of all */
	MOST_INDICES = 1 << 24,
	POINTER = 8,
	/* a dict, behind the head of an object; its keys up to 3.10, and from 3.11 on */
	DICT_KEYS = 16,
	KEYS_SIZE = 8,
	KEYS_COUNT = 32,
	KEYS_HEAD = 40,
	NEW_KEYS_LOG_INDEX_BYTES = 9,
	NEW_KEYS_KIND = 10,
	NEW_KEYS_COUNT = 24,
	NEW_KEYS_HEAD = 32,
	VALUES_HEAD = 8, /* of an array of values, from 3.13 on */
	/* a type, where the head of an object has 16 bytes */
	TYPE_SIZE = 32,
	TYPE_DICT = 288,
	TYPE_KEYS = 880,
	TYPE_KEYS_311 = 872,
};

struct naming {
	const struct snap_python *python;
	const struct snap_python_layout *layout;
	const struct snap_runtime_process *process;
	size_t left; /* entries of dicts that may still be looked at */
};

/* Where a dict has its entries: (hash,) key, value. */
struct dict {
	uint64_t entries, count, words;
	uint64_t values; /* in an array of their own; 0: they are not */
};

/* ---- dicts ---- */

static bool open_keys(const struct naming *naming, uint64_t keys, uint64_t values, struct dict *ret)
{
	uint8_t head[KEYS_HEAD];
	uint64_t indices;

	*ret = (struct dict){ .words = 3, .values = values };
	if (!snap_runtime_read(naming->process, keys, head, sizeof(head)))
		return false;
	if (naming->layout->minor >= 11) {
		indices = 1ull << (head[NEW_KEYS_LOG_INDEX_BYTES] & 63);
		ret->words -= head[NEW_KEYS_KIND] != 0;
		ret->count = snap_runtime_field(head, NEW_KEYS_COUNT, 8);
		ret->entries = keys + NEW_KEYS_HEAD + indices;
	} else {
		indices = snap_runtime_field(head, KEYS_SIZE, 8);
		ret->count = snap_runtime_field(head, KEYS_COUNT, 8);
		ret->entries = keys + KEYS_HEAD +
			       indices * (indices <= 255     ? 1
					  : indices <= 65535 ? 2
							     : 4);
	}
	return indices <= MOST_INDICES && ret->count <= indices;
}

static bool open_dict(const struct naming *naming, uint64_t dict, struct dict *ret)
{
	uint64_t words[2]; /* keys, values */

	if (!snap_runtime_read(naming->process, dict + naming->layout->object_size + DICT_KEYS,
			       words, sizeof(words)))
		return false;
	if (words[1] && naming->layout->minor >= 13)
		words[1] += VALUES_HEAD;
	return open_keys(naming, words[0], words[1], ret);
}

/* False: at the end, or it cannot be read. */
static bool entry_of_dict(struct naming *naming, const struct dict *dict, uint64_t number,
			  uint64_t *key_ret, uint64_t *value_ret)
{
	uint64_t entry[3];

	if (number >= dict->count || number >= MOST_ENTRIES || naming->left == 0 ||
	    !snap_runtime_may_name(naming->process) ||
	    !snap_runtime_read(naming->process, dict->entries + number * dict->words * POINTER,
			       entry, dict->words * POINTER))
		return false;
	naming->left--;
	*key_ret = entry[dict->words - 2];
	*value_ret = entry[dict->words - 1];
	return !dict->values ||
	       snap_runtime_word(naming->process, dict->values + number * POINTER, value_ret);
}

/* The value of a key; 0: there is none. */
static uint64_t value_of_key(struct naming *naming, const struct dict *dict, const char *wanted)
{
	uint64_t key, value;
	const char *name;

	for (uint64_t i = 0; entry_of_dict(naming, dict, i, &key, &value); i++)
		if (key && value && snap_python_string(naming->python, key, &name) && name &&
		    strcmp(name, wanted) == 0)
			return value;
	return 0;
}

/* ---- objects ---- */

/*
 * The attributes of an object of a class that is written in Python: in a dict, or in an array,
 * whose keys its type has: in 3.11 and 3.12 a pointer before the object leads to it, from 3.13 on
 * it lies in the object.
 */
static bool open_object(const struct naming *naming, uint64_t object, struct dict *ret)
{
	const struct snap_runtime_process *process = naming->process;
	const unsigned minor = naming->layout->minor;
	uint64_t type, head = naming->layout->object_size - 16, at, values = 0, size, keys;

	if (!snap_runtime_word(process, object + naming->layout->object_type, &type) ||
	    !snap_runtime_word(process, type + head + TYPE_DICT, &at))
		return false;
	if ((int64_t)at >= 0)
		return at && snap_runtime_word(process, object + at, &at) &&
		       open_dict(naming, at, ret);
	if (!snap_runtime_word(
		    process, object - (naming->layout->is_free_threaded ? 1 : 3) * POINTER, &at) ||
	    (minor == 11 && !snap_runtime_word(process, object - 4 * POINTER, &values)) ||
	    !snap_runtime_word(process, type + head + TYPE_SIZE, &size) ||
	    !snap_runtime_word(process, type + head + (minor == 11 ? TYPE_KEYS_311 : TYPE_KEYS),
			       &keys))
		return false;
	if (minor == 12 && at & 1)
		values = at + 1;
	else if (minor >= 13 && !at)
		values = object + size + VALUES_HEAD;
	return values ? open_keys(naming, keys, values, ret) : open_dict(naming, at, ret);
}

/* A positive int of one digit; 0: it is none. */
static uint32_t small_number(const struct naming *naming, uint64_t address)
{
	const struct snap_python_layout *layout = naming->layout;
	const unsigned sign_bits = layout->minor >= 12 ? 3 : 0;
	uint64_t type, tag, digit;

	if (!address || !snap_runtime_word(naming->process, address + layout->object_type, &type) ||
	    type != naming->python->int_type ||
	    !snap_runtime_word(naming->process, address + (layout->int_tag ?: 16), &tag) ||
	    !snap_runtime_number(naming->process, address + (layout->int_digits ?: 24), 4, &digit))
		return 0;
	return tag == 1ull << sign_bits ? (uint32_t)digit : 0;
}

/* ---- threads ---- */

/* A thread that another language has made is called Dummy-1, which says less than its comm. */
static void name_python_thread(struct naming *naming, uint64_t object)
{
	struct dict attributes;
	const char *name;
	uint32_t tid;

	if (!object || !open_object(naming, object, &attributes) ||
	    !snap_python_string(naming->python, value_of_key(naming, &attributes, "_name"),
				&name) ||
	    !name || snap_begins_with(name, "Dummy-"))
		return;
	tid = small_number(naming, value_of_key(naming, &attributes, "_native_id"));
	if (tid)
		naming->process->take_name(naming->process->take_context, tid, name);
}

static void name_threads_of(struct naming *naming, uint64_t interpreter)
{
	const struct snap_python_layout *layout = naming->layout;
	uint64_t address, key;
	struct dict dict;

	if (!snap_runtime_word(naming->process, interpreter + layout->interpreter.modules,
			       &address) ||
	    !open_dict(naming, address, &dict))
		return;
	/* A module begins with its dict. */
	address = value_of_key(naming, &dict, "threading");
	if (!address ||
	    !snap_runtime_word(naming->process, address + layout->object_size, &address) ||
	    !open_dict(naming, address, &dict))
		return;
	address = value_of_key(naming, &dict, "_active");
	if (!address || !open_dict(naming, address, &dict))
		return;
	for (uint64_t i = 0; entry_of_dict(naming, &dict, i, &key, &address); i++)
		name_python_thread(naming, address);
}

void snap_python_name_threads(const struct snap_python *python)
{
	const struct snap_python_layout *layout = &python->layout;
	struct naming naming = { .python = python,
				 .layout = layout,
				 .process = python->process,
				 .left = MOST_LOOKED_AT };
	uint64_t address;

	if (!snap_runtime_word(python->process, python->runtime + layout->runtime.interpreters,
			       &address))
		return;
	for (size_t i = 0; address && i < MOST_INTERPRETERS; i++) {
		name_threads_of(&naming, address);
		if (!snap_runtime_word(python->process, address + layout->interpreter.next,
				       &address))
			return;
	}
}
