/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The door to jansson: see json_value.h. struct snap_json is a json_t under another name, so that
 * no header shows a foreign type.
 */
#include "render/json_value.h"

#include "base/escape.h"
#include "render/when.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static json_t *of(struct snap_json *object)
{
	return (json_t *)object;
}

void snap_json_maker_deinit(struct snap_json_maker *maker)
{
	free(maker->escaped);
	*maker = (struct snap_json_maker){ 0 };
}

struct snap_json *snap_json_object(struct snap_json_maker *maker)
{
	json_t *object = json_object();

	if (!object)
		maker->failed = true;
	return (struct snap_json *)object;
}

/* Takes over `value`. Keys are our own words. */
static void set(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		json_t *value)
{
	if (json_object_set_new_nocheck(of(object), key, value) != 0)
		maker->failed = true;
}

static json_t *escaped_string(struct snap_json_maker *maker, const char *text)
{
	size_t length = strlen(text), room = 4 * length + 1;

	if (snap_escape_is_clean(text, length, 0))
		return json_stringn_nocheck(text, length);
	if (room > maker->capacity) {
		char *grown = realloc(maker->escaped, room);

		if (!grown)
			return NULL;
		maker->escaped = grown;
		maker->capacity = room;
	}
	length = snap_escape(text, length, 0, maker->escaped, maker->capacity);
	return json_stringn_nocheck(maker->escaped, length);
}

void snap_json_text(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    const char *text)
{
	if (text && *text)
		set(maker, object, key, escaped_string(maker, text));
}

void snap_json_number(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		      int64_t number)
{
	set(maker, object, key, json_integer(number));
}

void snap_json_count(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		     int64_t number)
{
	if (number)
		snap_json_number(maker, object, key, number);
}

void snap_json_flag(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    bool flag)
{
	if (flag)
		set(maker, object, key, json_true());
}

void snap_json_hex(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		   uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, number);
	set(maker, object, key, json_string_nocheck(text));
}

void snap_json_time(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    int64_t ns)
{
	char text[SNAP_WHEN_SIZE];

	if (ns == 0)
		return;
	snap_when(ns, 'T', 9, text);
	set(maker, object, key, json_string_nocheck(text));
}

void snap_json_texts(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		     const char *const *texts, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < count; i++)
		if (json_array_append_new(array, escaped_string(maker, texts[i])) != 0)
			maker->failed = true;
	set(maker, object, key, array);
}

void snap_json_nest(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		    struct snap_json *inner)
{
	set(maker, object, key, of(inner));
}

void snap_json_append(struct snap_json_maker *maker, struct snap_json *object, const char *key,
		      struct snap_json *inner)
{
	json_t *array = json_object_get(of(object), key);

	if (!array) {
		array = json_array();
		set(maker, object, key, array);
		if (maker->failed)
			array = NULL;
	}
	if (json_array_append_new(array, of(inner)) != 0)
		maker->failed = true;
}

char *snap_json_finish(struct snap_json_maker *maker, struct snap_json *object, bool open)
{
	char *text = object ? json_dumps(of(object), 0) : NULL;

	json_decref(of(object));
	if (!text)
		maker->failed = true;
	else if (open)
		text[strlen(text) - 1] = '\0';
	return text;
}
