/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Walks dicts of CPython, and attributes of objects whose classes are written in Python. The
 * process may run meanwhile, or not all of its memory is there: what cannot be read is left out.
 * Knows nothing of what the dicts are for.
 */
#include "analyze/runtime/python/dicts.h"
#include "analyze/runtime/memory.h"

#include "base/text.h"

enum {
	MOST_ENTRIES = 1 << 14, /* of a dict that are looked at */
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

static const uint64_t MOST_INDEX_BYTES = 1ull << 32;

/* ---- dicts ---- */

static bool open_keys(const struct snap_python_walk *walk, uint64_t keys, uint64_t values,
		      struct snap_python_dict *ret)
{
	uint8_t head[KEYS_HEAD];
	uint64_t indices;

	*ret = (struct snap_python_dict){ .keys = keys, .words = 3, .values = values };
	if (!snap_runtime_read(walk->python->process, keys, head, sizeof(head)))
		return false;
	if (walk->python->layout.minor >= 11) {
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
	return indices <= MOST_INDEX_BYTES && ret->count <= indices;
}

bool snap_python_dict_open(const struct snap_python_walk *walk, uint64_t dict,
			   struct snap_python_dict *ret)
{
	uint64_t words[2]; /* keys, values */

	if (!snap_runtime_read(walk->python->process,
			       dict + walk->python->layout.object_size + DICT_KEYS, words,
			       sizeof(words)))
		return false;
	if (words[1] && walk->python->layout.minor >= 13)
		words[1] += VALUES_HEAD;
	return open_keys(walk, words[0], words[1], ret);
}

bool snap_python_dict_entry(struct snap_python_walk *walk, const struct snap_python_dict *dict,
			    uint64_t number, uint64_t *key_ret, uint64_t *value_ret)
{
	const struct snap_runtime_process *process = walk->python->process;
	uint64_t entry[3] = { 0 };

	if (number >= dict->count)
		return false;
	if (number >= MOST_ENTRIES || walk->left == 0 || !snap_runtime_may_name(process)) {
		walk->has_gaps = true;
		return false;
	}
	walk->left--;
	*key_ret = *value_ret = 0;
	if (!snap_runtime_read(process, dict->entries + number * dict->words * POINTER, entry,
			       dict->words * POINTER)) {
		walk->has_gaps = true;
		return true;
	}
	*key_ret = entry[dict->words - 2];
	*value_ret = entry[dict->words - 1];
	if (dict->values && !snap_runtime_word(process, dict->values + number * POINTER, value_ret))
		walk->has_gaps = true;
	return true;
}

uint64_t snap_python_dict_find(struct snap_python_walk *walk, const struct snap_python_dict *dict,
			       const char *wanted, uint64_t *number_ret)
{
	uint64_t key, value, number;
	const char *name;

	for (number = 0; snap_python_dict_entry(walk, dict, number, &key, &value); number++) {
		if (!key || !value)
			continue;
		if (!snap_python_string(walk->python, key, &name))
			return 0;
		walk->has_gaps |= !name;
		if (name && strcmp(name, wanted) == 0) {
			if (number_ret)
				*number_ret = number;
			return value;
		}
	}
	return 0;
}

/* ---- objects ---- */

bool snap_python_object_open(const struct snap_python_walk *walk, uint64_t object,
			     struct snap_python_dict *ret)
{
	const struct snap_runtime_process *process = walk->python->process;
	const unsigned minor = walk->python->layout.minor;
	uint64_t type, head = walk->python->layout.object_size - 16, at, values = 0, size, keys;

	if (!snap_runtime_word(process, object + walk->python->layout.object_type, &type) ||
	    !snap_runtime_word(process, type + head + TYPE_DICT, &at))
		return false;
	if ((int64_t)at >= 0)
		return at && snap_runtime_word(process, object + at, &at) &&
		       snap_python_dict_open(walk, at, ret);
	if (!snap_runtime_word(process,
			       object - (walk->python->layout.is_free_threaded ? 1 : 3) * POINTER,
			       &at) ||
	    (minor == 11 && !snap_runtime_word(process, object - 4 * POINTER, &values)) ||
	    !snap_runtime_word(process, type + head + TYPE_SIZE, &size) ||
	    !snap_runtime_word(process, type + head + (minor == 11 ? TYPE_KEYS_311 : TYPE_KEYS),
			       &keys))
		return false;
	if (minor == 12 && at & 1)
		values = at + 1;
	else if (minor >= 13 && !at)
		values = object + size + VALUES_HEAD;
	return values ? open_keys(walk, keys, values, ret) : snap_python_dict_open(walk, at, ret);
}

bool snap_python_modules_open(const struct snap_python_walk *walk, uint64_t interpreter,
			      struct snap_python_dict *ret)
{
	uint64_t dict;

	return snap_runtime_word(walk->python->process,
				 interpreter + walk->python->layout.interpreter.modules, &dict) &&
	       snap_python_dict_open(walk, dict, ret);
}

bool snap_python_module_open(const struct snap_python_walk *walk, uint64_t module,
			     struct snap_python_dict *ret)
{
	/* A module begins with its dict. */
	return module &&
	       snap_runtime_word(walk->python->process, module + walk->python->layout.object_size,
				 &module) &&
	       snap_python_dict_open(walk, module, ret);
}
