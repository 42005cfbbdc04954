/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the parts of a Go program, with or without symbols: its version, its table of functions,
 * the runtime's description of its text (moduledata), the list of all goroutines (allgs), and the
 * texts of wait reasons. Each is believed only if it agrees with the others. Knows no goroutine.
 */
#include "analyze/runtime/go/internal.h"
#include "analyze/runtime/symbol.h"

#include "base/bsearch.h"
#include "base/text.h"

#include <string.h>

enum {
	HEAD = 4096,
	MOST_OPENED = 16, /* files that do not say what they are */
	MOST_REASON = 64,
	SAMPLES = 16, /* goroutines that a list is held to */
	MOST_CANDIDATES = 4096,
	MOST_SCANNED = 256 << 20, /* bytes of a range that are looked through */
};

/* ---- which files ---- */

static bool is_piece_there(const struct snap_process *process, uint64_t address,
			   const struct snap_piece **ret)
{
	size_t next =
		snap_first_not(process->piece_count, i, process->pieces[i].address <= address);

	if (next == 0 || process->pieces[next - 1].address != address)
		return false;
	*ret = &process->pieces[next - 1];
	return true;
}

/* Whether there is a note that the Go linker makes in the first page. */
static bool has_note(const uint8_t *head, size_t size)
{
	static const uint8_t name[] = { 4, 0, 0, 0, 'G', 'o', 0, 0 }; /* type 4 */

	for (size_t i = 8; i + sizeof(name) <= size; i += 4)
		if (memcmp(head + i, name, sizeof(name)) == 0 && head[i - 8] == 4)
			return true;
	return false;
}

static bool is_system_path(const char *path)
{
	return snap_begins_with(path, "/lib") || snap_begins_with(path, "/usr/lib");
}

/* The program itself, and libraries whose first page says that Go has linked them. */
static bool is_candidate(const struct snap_go *go, const struct snap_module *module)
{
	const struct snap_process *process = go->process->process;
	const struct snap_piece *piece;
	uint8_t head[HEAD];

	if (module->kind != SNAP_MODULE_FILE)
		return false;
	if (process->exe && strcmp(process->exe, module->path) == 0)
		return true;
	if (is_piece_there(process, module->start, &piece))
		return has_note(piece->data, piece->size);
	return !is_system_path(module->path) && snap_runtime_has_code(module) &&
	       snap_runtime_read(go->process, module->start, head, sizeof(head)) &&
	       has_note(head, sizeof(head));
}

/* ---- version ---- */

/* False: Go has not linked the file. */
static bool note_version(struct snap_go *go, struct snap_image *image, struct snap_go_text *text)
{
	char version[SNAP_GO_VERSION_BYTES + 1];

	if (!snap_go_version_find(image, version, &text->minor))
		return false;
	if (version[0] != '\0') {
		text->version = snap_intern(go->process->strings, version, strlen(version));
		go->no_memory |= !text->version;
	}
	if (!go->version) {
		go->version = text->version;
		go->minor = text->minor;
	}
	return true;
}

/* ---- the runtime's description of a text ---- */

static bool take_description(struct snap_go *go, struct snap_go_text *text,
			     struct snap_image *image, uint64_t address)
{
	uint64_t words[SNAP_GO_MODULE_WORDS], code[2];

	if (!snap_runtime_read(go->process, address, words, sizeof(words)) ||
	    !snap_go_words_fit(&text->table, text->table_at, words))
		return false;
	snap_go_words_code(&text->table, words, code);
	text->header_at = address;
	text->start = code[0];
	text->end = code[1];
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(text->data); i++) {
		text->data[i][0] = words[24 + 2 * i];
		text->data[i][1] = words[25 + 2 * i];
		if (text->data[i][1] < text->data[i][0])
			text->data[i][1] = text->data[i][0];
		if (text->data[i][1] - text->data[i][0] > MOST_SCANNED)
			text->data[i][1] = text->data[i][0] + MOST_SCANNED;
	}
	snap_go_trees_find(image, &text->table, text->minor ? text->minor : go->minor,
			   text->module->bias, words);
	return true;
}

/* A search for the description in bytes. */
struct description_search {
	struct snap_go *go;
	struct snap_go_text *text;
	struct snap_image *image;
	bool found;
};

static bool visit_description(void *context, uint64_t address, const uint8_t *bytes, size_t size)
{
	struct description_search *search = context;
	uint64_t word;

	for (size_t at = -address & 7; at + sizeof(word) <= size && !search->found; at += 8) {
		memcpy(&word, bytes + at, sizeof(word));
		search->found =
			word == search->text->table_at &&
			take_description(search->go, search->text, search->image, address + at);
	}
	return !search->found;
}

static bool find_description(struct snap_go *go, struct snap_go_text *text,
			     struct snap_image *image)
{
	struct description_search search = { go, text, image, false };
	const uint64_t bias = text->module->bias;
	struct snap_go_segment segment;
	uint64_t address;

	if ((snap_image_section_address(image, ".go.module", &address) &&
	     take_description(go, text, image, address + bias)) ||
	    (snap_go_symbol(image, "runtime.firstmoduledata", &address) &&
	     take_description(go, text, image, address + bias)))
		return true;
	/* What is not moved lies in the file as it is in memory. */
	for (size_t i = 0;
	     bias == 0 && !search.found && snap_go_next_segment(image, &i, &segment);) {
		struct snap_bytes bytes = snap_image_at(image, segment.address);

		if (segment.write)
			visit_description(&search, segment.address, bytes.data, bytes.size);
	}
	for (size_t i = 0; !search.found && snap_go_next_segment(image, &i, &segment);)
		if (segment.write && segment.file_size <= MOST_SCANNED)
			snap_go_scan(go->process, segment.address + bias,
				     segment.address + bias + segment.file_size, sizeof(uint64_t),
				     visit_description, &search);
	return search.found;
}

SNAP_ORDER(compare_texts, struct snap_go_text, a, b, snap_compare(a->start, b->start));

static void add_go_text(struct snap_go *go, struct snap_module *module)
{
	struct snap_go_text text = { .module = module };
	struct snap_image *image;

	if (go->text_count == SNAP_GO_MOST_TEXTS || !snap_module_open(go->process->set, module))
		return;
	snap_module_set_note(go->process->set, module->file);
	image = module->file->image;
	if (!note_version(go, image, &text))
		return;
	go->is_there = true;
	if (!snap_go_table_find(image, &text.table, &text.table_at))
		return;
	text.table_at += module->bias;
	if (find_description(go, &text, image))
		go->texts[go->text_count++] = text;
}

bool snap_go_find_texts(struct snap_go *go)
{
	size_t count, opened = 0;
	struct snap_module *list = snap_modules_list(go->process->modules, &count);

	for (size_t i = 0; i < count; i++)
		if (is_candidate(go, &list[i]))
			add_go_text(go, &list[i]);
	/* A build without an id leaves no note: then the sections of a few files decide. */
	for (size_t i = 0; i < count && !go->is_there && opened < MOST_OPENED; i++)
		if (list[i].kind == SNAP_MODULE_FILE && !is_system_path(list[i].path) &&
		    snap_runtime_has_code(&list[i])) {
			opened++;
			add_go_text(go, &list[i]);
		}
	qsort(go->texts, go->text_count, sizeof(*go->texts), compare_texts);
	return go->text_count > 0;
}

const struct snap_go_text *snap_go_text_of(const struct snap_go *go, uint64_t pc)
{
	for (size_t i = 0; i < go->text_count; i++)
		if (pc >= go->texts[i].start && pc < go->texts[i].end)
			return &go->texts[i];
	return NULL;
}

bool snap_go_is_entry(const struct snap_go *go, uint64_t pc)
{
	const struct snap_go_text *text = snap_go_text_of(go, pc);
	struct snap_go_function function;

	return text &&
	       snap_go_function_find(&text->table, (uint32_t)(pc - text->start), &function) &&
	       function.entry == pc - text->start;
}

void snap_go_find_code(struct snap_go *go, const char *name, uint64_t ret[2])
{
	const struct snap_go_text *text = go->runtime;
	struct snap_go_function function;

	for (uint32_t i = 0; !go->code_is_known && i < text->table.function_count; i++) {
		if (!snap_go_function_by_number(&text->table, i, &function) ||
		    strcmp(snap_go_function_name(&text->table, &function), name) != 0)
			continue;
		go->code[0] = text->start + function.entry;
		go->code[1] = text->start + function.end;
		break;
	}
	go->code_is_known = true;
	ret[0] = go->code[0];
	ret[1] = go->code[1];
}

bool snap_go_read_constant(const struct snap_go *go, uint64_t address, void *out, size_t size)
{
	const struct snap_map *map;
	struct snap_module *module;
	struct snap_bytes bytes;

	if (snap_runtime_read(go->process, address, out, size) ||
	    snap_modules_read(go->process->modules, address, out, size))
		return true;
	/* Letters are nothing that is relocated. */
	map = snap_process_map(go->process->process, address);
	module = map && !map->write ? snap_modules_find(go->process->modules, address) : NULL;
	if (!module || !module->usable)
		return false;
	bytes = snap_image_at(module->file->image, address - module->bias);
	if (bytes.size < size)
		return false;
	memcpy(out, bytes.data, size);
	return true;
}

/* ---- the list of all goroutines ---- */

/* The best list so far. */
struct list_search {
	struct snap_go *go;
	uint64_t address, count, capacity;
	unsigned tried;
	bool is_named; /* a symbol says that it is one */
};

/*
 * Goroutines say of themselves where they are: g.sched.g. Some may not be there: of a copy that was
 * cut, or on a page that is not filled; but few of a list that nothing else speaks for.
 */
static bool are_goroutines(const struct list_search *search, uint64_t list, uint64_t count)
{
	const struct snap_go *go = search->go;
	const bool any_may_miss = search->is_named || go->process->memory->next != NULL;
	uint64_t step = count > SAMPLES ? count / SAMPLES : 1;
	unsigned own = 0, missing = 0;

	/* Of the rest there is nothing. */
	if (go->process->is_of_thread && count > SNAP_GO_FEW) {
		count = SNAP_GO_FEW;
		step = 1;
	}
	for (uint64_t i = 0; i < count; i += step) {
		uint64_t goroutine, self;

		if (!snap_runtime_word(go->process, list + 8 * i, &goroutine)) {
			missing++;
			continue;
		}
		if (goroutine == 0 || goroutine % 8 != 0)
			return false;
		if (!snap_runtime_word(go->process, goroutine + SNAP_GO_SAVED_SELF, &self)) {
			missing++;
			continue;
		}
		if (self != 0 && self != goroutine)
			return false;
		own += self == goroutine;
	}
	return own >= 2 && (any_may_miss || missing < own);
}

/* The collector keeps an older copy, which is not longer, and has no room to grow. */
static bool is_better(const struct list_search *best, uint64_t count, uint64_t capacity)
{
	if (best->address == 0 || count != best->count)
		return best->address == 0 || count > best->count;
	return count < capacity && best->count == best->capacity;
}

static bool visit_list(void *context, uint64_t address, const uint8_t *bytes, size_t size)
{
	struct list_search *search = context;
	uint64_t words[3];

	for (size_t at = -address & 7; at + sizeof(words) <= size; at += 8) {
		memcpy(words, bytes + at, sizeof(words));
		if (words[1] < 4 || words[1] > words[2] || words[2] > SNAP_GO_MOST_FUNCTIONS ||
		    words[0] % 8 != 0 || words[0] < HEAD || words[0] >> 47 != 0 ||
		    !is_better(search, words[1], words[2]))
			continue;
		if (search->tried++ == MOST_CANDIDATES)
			return false;
		if (!are_goroutines(search, words[0], words[1]))
			continue;
		search->address = address + at;
		search->count = words[1];
		search->capacity = words[2];
	}
	return true;
}

static bool find_list(struct snap_go *go, const struct snap_go_text *text)
{
	struct list_search search = { .go = go };
	uint8_t words[24];
	uint64_t address;

	if (snap_go_symbol(text->module->file->image, "runtime.allgs", &address)) {
		address += text->module->bias;
		search.is_named = true;
		if (snap_runtime_read(go->process, address, words, sizeof(words)))
			visit_list(&search, address, words, sizeof(words));
		search.is_named = false;
	}
	for (size_t i = 3; i >= 2 && search.address == 0; i--)
		snap_go_scan(go->process, text->data[i][0], text->data[i][1], sizeof(words),
			     visit_list, &search);
	go->list_at = search.address;
	return search.address != 0;
}

/* ---- reasons to wait ---- */

/* A short text without controls; NULL: it is none. */
static const char *reason_at(struct snap_go *go, uint64_t address, uint64_t length)
{
	char text[MOST_REASON];

	if (length == 0 || length > sizeof(text) ||
	    !snap_go_read_constant(go, address, text, length))
		return NULL;
	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return NULL;
	return snap_intern(go->process->strings, text, length);
}

struct reason_search {
	struct snap_go *go;
	uint64_t address;
};

/* The first text is empty, the second one is known. */
static bool visit_reasons(void *context, uint64_t address, const uint8_t *bytes, size_t size)
{
	static const char second[] = "GC assist marking";
	struct reason_search *search = context;
	uint64_t words[4];

	for (size_t at = -address & 7; at + sizeof(words) <= size; at += 8) {
		const char *text;

		memcpy(words, bytes + at, sizeof(words));
		if (words[0] != 0 || words[1] != 0 || words[3] != sizeof(second) - 1)
			continue;
		text = reason_at(search->go, words[2], words[3]);
		if (!text || strcmp(text, second) != 0)
			continue;
		search->address = address + at;
		return false;
	}
	return true;
}

static void find_reasons(struct snap_go *go, const struct snap_go_text *text)
{
	struct reason_search search = { .go = go };
	uint8_t words[32];
	uint64_t address;

	if (snap_go_symbol(text->module->file->image, "runtime.waitReasonStrings", &address)) {
		address += text->module->bias;
		if (snap_runtime_read(go->process, address, words, sizeof(words)))
			visit_reasons(&search, address, words, sizeof(words));
	}
	for (size_t i = 0; i < 2 && search.address == 0; i++)
		snap_go_scan(go->process, text->data[i][0], text->data[i][1], sizeof(words),
			     visit_reasons, &search);
	go->reasons_at = search.address;
	if (search.address == 0)
		return;
	go->reason_count = 1;
	while (go->reason_count < SNAP_GO_MOST_REASONS) {
		uint64_t header[2];
		const char *reason = NULL;

		if (snap_runtime_read(go->process, search.address + 16 * go->reason_count, header,
				      sizeof(header)))
			reason = reason_at(go, header[0], header[1]);
		if (!reason)
			return;
		go->reasons[go->reason_count++] = reason;
	}
}

bool snap_go_find_runtime(struct snap_go *go)
{
	for (size_t i = 0; i < go->text_count; i++) {
		if (!find_list(go, &go->texts[i]))
			continue;
		go->runtime = &go->texts[i];
		if (go->runtime->version) {
			go->version = go->runtime->version;
			go->minor = go->runtime->minor;
		}
		find_reasons(go, go->runtime);
		return true;
	}
	return false;
}
