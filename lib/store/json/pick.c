/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Values of a JSON document: see pick.h. The only user of jansson; the document is in memory
 * as long as it is read, some 10 to 20 times its size, and never more than COST_OF_BYTE times.
 */
#include "store/json/pick.h"

#include "base/escape.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

static const json_t *as_json(const struct snap_json *value)
{
	return (const json_t *)value;
}

static const struct snap_json *as_value(const json_t *value)
{
	return (const struct snap_json *)value;
}

void snap_json_pick_init(struct snap_json_pick *pick, struct snap_arena *arena)
{
	*pick = (struct snap_json_pick){ 0 };
	snap_interner_init(&pick->strings, arena);
}

void snap_json_pick_deinit(struct snap_json_pick *pick)
{
	snap_interner_deinit(&pick->strings);
	snap_error_destroy(pick->error);
	snap_buffer_deinit(&pick->raw);
}

/* ---- the document ---- */

struct input {
	int fd, failed; /* failed: an errno */
	uint64_t left;
	/* how much memory what was read takes, about, and may take */
	uint64_t cost, allowed;
	bool in_text, escaped, too_costly;
};

/* What jansson 2.14 takes of memory on 64-bit machines, or little less. */
enum {
	COST_OF_OBJECT = 240,
	COST_OF_ARRAY = 144,
	COST_OF_TEXT = 80,
	COST_OF_KEY = 56,
	COST_OF_VALUE = 48,
	COST_OF_BYTE = 32, /* allowed; our own documents come to 20 */
	COST_ALLOWED = 4 << 20,
};

static unsigned cost_of(char sign)
{
	static const uint8_t costs[UINT8_MAX + 1] = {
		['{'] = COST_OF_OBJECT, ['['] = COST_OF_ARRAY, ['"'] = COST_OF_TEXT,
		[':'] = COST_OF_KEY,    [','] = COST_OF_VALUE,
	};

	return costs[(uint8_t)sign];
}

/* A document of empty objects would take a hundred times its size. */
static bool is_affordable(struct input *input, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!input->in_text) {
			input->cost += cost_of(bytes[i]);
			input->in_text = bytes[i] == '"';
		} else if (input->escaped) {
			input->escaped = false;
		} else {
			input->escaped = bytes[i] == '\\';
			input->in_text = bytes[i] != '"';
		}
	}
	input->allowed += size * (uint64_t)COST_OF_BYTE;
	return input->cost <= input->allowed + COST_ALLOWED;
}

static size_t read_input(void *buffer, size_t size, void *context)
{
	struct input *input = context;
	ssize_t n;

	do
		n = read(input->fd, buffer, size);
	while (n < 0 && errno == EINTR);
	if (n >= 0 && (uint64_t)n <= input->left) {
		input->left -= (uint64_t)n;
		if (is_affordable(input, buffer, (size_t)n))
			return (size_t)n;
		input->too_costly = true;
		return (size_t)-1;
	}
	input->failed = n < 0 ? errno : EFBIG;
	return (size_t)-1;
}

/* `type` is that of the root, `kind` its name. */
static struct stacksnap_error *open_root(int fd, uint64_t max_bytes, json_type type,
					 const char *kind, struct snap_json **ret)
{
	struct input input = { .fd = fd, .left = max_bytes };
	json_error_t error;
	json_t *root = json_load_callback(read_input, &input, JSON_REJECT_DUPLICATES, &error);
	char clean[4 * sizeof(error.text) + 1];

	if (root && json_typeof(root) == type) {
		*ret = (struct snap_json *)root;
		return NULL;
	}
	if (input.failed)
		return snap_error_os(input.failed, "cannot read JSON");
	if (input.too_costly)
		return snap_error_format(SNAP_ERROR_FORMAT,
					 "not a snapshot: it has too many values");
	if (root) {
		json_decref(root);
		return snap_error_format(SNAP_ERROR_FORMAT, "not a JSON %s", kind);
	}
	/* Without memory jansson 2.14 mostly says nothing. */
	if (json_error_code(&error) == json_error_out_of_memory || !error.text[0])
		return snap_error_no_memory();
	snap_escape(error.text, strlen(error.text), 0, clean, sizeof(clean));
	return snap_error_format(SNAP_ERROR_FORMAT, "not a JSON document: line %d: %s", error.line,
				 clean);
}

struct stacksnap_error *snap_json_pick_open(int fd, uint64_t max_bytes, struct snap_json **ret)
{
	return open_root(fd, max_bytes, JSON_OBJECT, "object", ret);
}

struct stacksnap_error *snap_json_pick_open_array(int fd, uint64_t max_bytes,
						  struct snap_json **ret)
{
	return open_root(fd, max_bytes, JSON_ARRAY, "array", ret);
}

void snap_json_pick_close(struct snap_json *root)
{
	json_decref((json_t *)root);
}

/* ---- values ---- */

void snap_json_pick_refuse(struct snap_json_pick *pick, const char *key, const char *expected)
{
	if (!pick->error)
		pick->error = snap_error_format(
			SNAP_ERROR_FORMAT, "invalid value of \"%s\": expected %s", key, expected);
}

void snap_json_pick_no_memory(struct snap_json_pick *pick)
{
	if (!pick->error)
		pick->error = snap_error_no_memory();
}

void *snap_json_pick_memory(struct snap_json_pick *pick, size_t count, size_t size)
{
	void *memory = snap_arena_array(pick->strings.arena, count, size);

	if (!memory)
		snap_json_pick_no_memory(pick);
	return memory;
}

bool snap_json_pick_has(const struct snap_json *object, const char *key)
{
	return json_object_get(as_json(object), key) != NULL;
}

static const json_t *value_of_key(struct snap_json_pick *pick, const struct snap_json *object,
				  const char *key)
{
	return pick->error ? NULL : json_object_get(as_json(object), key);
}

const struct snap_json *snap_json_pick_object(struct snap_json_pick *pick,
					      const struct snap_json *object, const char *key)
{
	const json_t *value = value_of_key(pick, object, key);

	if (!value || json_is_object(value))
		return as_value(value);
	snap_json_pick_refuse(pick, key, "an object");
	return NULL;
}

struct snap_json_list snap_json_pick_list(struct snap_json_pick *pick,
					  const struct snap_json *object, const char *key)
{
	const json_t *value = value_of_key(pick, object, key);

	if (value && !json_is_array(value))
		snap_json_pick_refuse(pick, key, "an array");
	return (struct snap_json_list){ pick, as_value(value), key, json_array_size(value), 0 };
}

struct snap_json_list snap_json_pick_rows(struct snap_json_pick *pick, const struct snap_json *root)
{
	return (struct snap_json_list){ pick, root, "", json_array_size(as_json(root)), 0 };
}

/* NULL at the end. */
static const json_t *next_element(struct snap_json_list *list)
{
	if (list->pick->error || list->next == list->count)
		return NULL;
	return json_array_get(as_json(list->array), list->next++);
}

const struct snap_json *snap_json_list_object(struct snap_json_list *list)
{
	const json_t *value = next_element(list);

	if (!value || json_is_object(value))
		return as_value(value);
	snap_json_pick_refuse(list->pick, list->key, "an array of objects");
	return NULL;
}

/* The raw bytes of a text, interned. */
static const char *keep_json_text(struct snap_json_pick *pick, const char *text, size_t length,
				  const char *key, size_t max)
{
	const char *kept;
	char *raw;

	snap_buffer_clear(&pick->raw);
	raw = snap_buffer_reserve(&pick->raw, length + 1);
	if (!raw) {
		snap_json_pick_no_memory(pick);
		return NULL;
	}
	length = snap_unescape(text, length, raw);
	if (length > max || memchr(raw, '\0', length)) {
		snap_json_pick_refuse(pick, key, "a string of a reasonable length");
		return NULL;
	}
	kept = snap_intern(&pick->strings, raw, length);
	if (!kept)
		snap_json_pick_no_memory(pick);
	return kept;
}

static const char *pick_json_text(struct snap_json_pick *pick, const json_t *value, const char *key,
				  size_t max)
{
	const char *text = json_string_value(value);

	if (text)
		return keep_json_text(pick, text, json_string_length(value), key, max);
	snap_json_pick_refuse(pick, key, "a string");
	return NULL;
}

struct snap_label *snap_json_pick_labels(struct snap_json_pick *pick,
					 const struct snap_json *object, const char *key,
					 size_t max, size_t *count_ret)
{
	const struct snap_json *from = snap_json_pick_object(pick, object, key);
	size_t count = json_object_size(as_json(from));
	struct snap_label *labels =
		count ? snap_json_pick_memory(pick, count, sizeof(*labels)) : NULL;
	json_t *members = (json_t *)(uintptr_t)from, *value;
	const char *name;

	*count_ret = 0;
	if (!labels)
		return NULL;
	json_object_foreach(members, name, value)
	{
		struct snap_label *label = &labels[*count_ret];

		label->key = keep_json_text(pick, name, strlen(name), key, max);
		label->value = label->key ? pick_json_text(pick, value, key, max) : NULL;
		if (!label->value)
			break;
		++*count_ret;
	}
	return labels;
}

const char *snap_json_list_text(struct snap_json_list *list, size_t max)
{
	const json_t *value = next_element(list);

	return value ? pick_json_text(list->pick, value, list->key, max) : NULL;
}

int64_t snap_json_list_number(struct snap_json_list *list, int64_t least, int64_t most)
{
	const json_t *value = next_element(list);
	int64_t number = json_integer_value(value);

	if (value && json_is_integer(value) && number >= least && number <= most)
		return number;
	if (value)
		snap_json_pick_refuse(list->pick, list->key, "an array of whole numbers");
	return 0;
}

const char *snap_json_pick_text(struct snap_json_pick *pick, const struct snap_json *object,
				const char *key, size_t max)
{
	const json_t *value = value_of_key(pick, object, key);
	const char *text = value ? pick_json_text(pick, value, key, max) : NULL;

	return text && *text ? text : NULL;
}

int64_t snap_json_pick_number(struct snap_json_pick *pick, const struct snap_json *object,
			      const char *key, int64_t least, int64_t most, int64_t absent)
{
	const json_t *value = value_of_key(pick, object, key);
	int64_t number = json_integer_value(value);
	char expected[80];

	if (!value)
		return absent;
	if (json_is_integer(value) && number >= least && number <= most)
		return number;
	snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64, least,
		 most);
	snap_json_pick_refuse(pick, key, expected);
	return absent;
}

int64_t snap_json_pick_required(struct snap_json_pick *pick, const struct snap_json *object,
				const char *key, int64_t least, int64_t most)
{
	if (!pick->error && !snap_json_pick_has(object, key))
		pick->error = snap_error_format(SNAP_ERROR_FORMAT, "missing \"%s\"", key);
	return snap_json_pick_number(pick, object, key, least, most, least);
}

static unsigned find_word(struct snap_json_pick *pick, const char *key, const char *word,
			  const char *(*word_of)(unsigned), unsigned count)
{
	for (unsigned i = 0; word && i < count; i++)
		if (strcmp(word_of(i), word) == 0)
			return i;
	snap_json_pick_refuse(pick, key, "a word listed in stacksnap-json(5)");
	return 0;
}

unsigned snap_json_pick_word(struct snap_json_pick *pick, const struct snap_json *object,
			     const char *key, const char *(*word_of)(unsigned), unsigned count)
{
	return find_word(pick, key, snap_json_pick_text(pick, object, key, 64), word_of, count);
}

unsigned snap_json_list_word(struct snap_json_list *list, const char *(*word_of)(unsigned),
			     unsigned count)
{
	return find_word(list->pick, list->key, snap_json_list_text(list, 64), word_of, count);
}

bool snap_json_pick_flag(struct snap_json_pick *pick, const struct snap_json *object,
			 const char *key)
{
	const json_t *value = value_of_key(pick, object, key);

	if (value && !json_is_boolean(value))
		snap_json_pick_refuse(pick, key, "true or false");
	return json_is_true(value);
}

const char *snap_json_pick_of(struct snap_json_pick *pick, const struct snap_json *object,
			      const char *key, const char *set, size_t max)
{
	const char *text = snap_json_pick_text(pick, object, key, max);

	if (!text || text[strspn(text, set)] == '\0')
		return text;
	snap_json_pick_refuse(pick, key, "a string of the permitted characters");
	return NULL;
}

bool snap_json_pick_hex(struct snap_json_pick *pick, const struct snap_json *object,
			const char *key, uint64_t *ret)
{
	const json_t *value = value_of_key(pick, object, key);
	const char *text = json_string_value(value);
	size_t digits;

	if (!value)
		return false;
	digits = snap_begins_with(text, "0x") ? strlen(text + 2) : 0;
	if (digits == 0 || digits > 16 || text[2 + strspn(text + 2, "0123456789abcdef")]) {
		snap_json_pick_refuse(pick, key, "a string such as 0x1234");
		return false;
	}
	*ret = strtoull(text + 2, NULL, 16);
	return true;
}

/* A number of `count` digits, -1: it is none. */
static int digits_at(const char *text, int count)
{
	int number = 0;

	for (int i = 0; i < count; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		number = number * 10 + (text[i] - '0');
	}
	return number;
}

bool snap_json_parse_time(const char *text, size_t length, int64_t *ret)
{
	static const char form[] = "0000-00-00T00:00:00.000000000Z";
	struct tm tm = { 0 }, back;
	time_t seconds;

	if (length != sizeof(form) - 1)
		return false;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == '0' ? digits_at(text + i, 1) < 0 : text[i] != form[i])
			return false;
	tm.tm_year = digits_at(text, 4) - 1900;
	tm.tm_mon = digits_at(text + 5, 2) - 1;
	tm.tm_mday = digits_at(text + 8, 2);
	tm.tm_hour = digits_at(text + 11, 2);
	tm.tm_min = digits_at(text + 14, 2);
	tm.tm_sec = digits_at(text + 17, 2);
	back = tm;
	seconds = timegm(&back);
	if (back.tm_mon != tm.tm_mon || back.tm_mday != tm.tm_mday || back.tm_hour != tm.tm_hour ||
	    back.tm_min != tm.tm_min || back.tm_sec != tm.tm_sec ||
	    __builtin_mul_overflow((int64_t)seconds, 1000000000, ret))
		return false;
	return !__builtin_add_overflow(*ret, digits_at(text + 20, 9), ret);
}

int64_t snap_json_pick_time(struct snap_json_pick *pick, const struct snap_json *object,
			    const char *key)
{
	const json_t *value = value_of_key(pick, object, key);
	const char *text = json_string_value(value);
	int64_t ns = 0;

	if (value && (!text || !snap_json_parse_time(text, json_string_length(value), &ns)))
		snap_json_pick_refuse(pick, key, "a time such as 2026-11-20T07:52:18.106000000Z");
	return ns;
}
