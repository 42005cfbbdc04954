/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sites: a pc of Go code, looked up once however many goroutines are there. A site has the
 * function, the size of its frame, and the frame to show, named as Go names it. Knows no stack.
 */
#include "analyze/runtime/go/internal.h"

#include "base/buffer.h"
#include "base/escape.h"
#include "base/text.h"

#include <string.h>

/* Functions of which Go shows the wrapper that they were called by. */
static bool is_panic(const char *name)
{
	return strcmp(name, "runtime.gopanic") == 0 || strcmp(name, "runtime.sigpanic") == 0 ||
	       strcmp(name, "runtime.panicwrap") == 0;
}

/* What a signal puts on the stack: the code below it was interrupted, and has called nothing. */
static bool interrupts(const char *name)
{
	return strcmp(name, "runtime.sigpanic") == 0 || strcmp(name, "runtime.asyncPreempt") == 0 ||
	       strcmp(name, "runtime.debugCallV2") == 0;
}

const char *snap_go_site_name(const struct snap_go_site *site)
{
	return site->text ? snap_go_function_name(&site->text->table, &site->function) : "";
}

/* Which offset of code is looked up: that of the call, for a return address. */
static uint32_t offset_of(const struct snap_go_site *site)
{
	uint32_t offset = (uint32_t)(site->pc - site->text->start);

	return site->is_exact || offset == site->function.entry ? offset : offset - 1;
}

static void look_up(const struct snap_go *go, struct snap_go_site *site)
{
	const struct snap_go_text *text = snap_go_text_of(go, site->pc);
	const char *name;

	/* Code goes on behind each call, even behind one that does not return. */
	if (!text)
		return;
	if (!snap_go_function_find(&text->table, (uint32_t)(site->pc - text->start),
				   &site->function))
		return;
	site->text = text;
	site->has_size =
		snap_go_frame_size(&text->table, &site->function, offset_of(site), &site->size);
	site->keeps_return = !site->has_size &&
			     snap_go_keeps_return(&text->table, &site->function, offset_of(site));
	name = snap_go_site_name(site);
	site->is_panic = is_panic(name);
	site->interrupts = interrupts(name);
}

const struct snap_go_site *snap_go_site(struct snap_go *go, uint64_t pc, bool is_exact)
{
	uint64_t hash = snap_hash_mix(pc * 2 + is_exact);
	struct snap_probe probe = snap_hash_table_probe(&go->site_table, hash);
	struct snap_go_site *site;

	while (snap_probe_next(&probe)) {
		site = go->sites[probe.number];
		if (site->pc == pc && site->is_exact == is_exact)
			return site;
	}
	if (go->site_count == SNAP_GO_MOST_SITES)
		return NULL;
	site = snap_arena_new(go->process->arena, struct snap_go_site);
	if (!site || !snap_reserve_array(go->sites, go->site_capacity, go->site_count + 1) ||
	    !snap_hash_table_add(&go->site_table, hash, go->site_count)) {
		go->no_memory = true;
		return NULL;
	}
	go->sites[go->site_count++] = site;
	site->pc = pc;
	site->is_exact = is_exact;
	look_up(go, site);
	return site;
}

/* ---- names ---- */

static const char *shown_name(struct snap_go *go, const char *name)
{
	char text[SNAP_MAX_NAME];
	const char *shown;

	if (go->process->options->raw_names)
		return name;
	shown = snap_go_shown_name(name, text, sizeof(text));
	if (shown != text)
		return shown;
	name = snap_intern(go->process->strings, text, strlen(text));
	go->no_memory |= !name;
	return name;
}

static const char *interned(struct snap_go *go, const char *text)
{
	const char *made;

	if (!text || !*text)
		return NULL;
	made = snap_intern(go->process->strings, text,
			   snap_text_cut(text, strnlen(text, SNAP_MAX_NAME + 4), SNAP_MAX_NAME));
	go->no_memory |= !made;
	return made;
}

static void make_entry(struct snap_go *go, const struct snap_go_place *place,
		       struct snap_entry *ret)
{
	*ret = (struct snap_entry){ .symbol = interned(go, place->name),
				    .inlined = place->inlined,
				    .language = "go" };
	if (ret->symbol) {
		ret->function = interned(go, shown_name(go, ret->symbol));
		ret->system = snap_begins_with(ret->symbol, "runtime.");
	}
	if (go->process->options->lines) {
		ret->file = interned(go, place->file);
		ret->line = place->line;
	}
}

static size_t places_of(const struct snap_go *go, const struct snap_go_site *site,
			struct snap_go_place places[SNAP_GO_MOST_INLINED])
{
	size_t count = snap_go_places(&site->text->table, &site->function, offset_of(site), places,
				      SNAP_GO_MOST_INLINED);

	if (count == 0 ||
	    (go->process->options->inlines && go->entry_count + count <= SNAP_GO_MOST_ENTRIES))
		return count;
	places[0] = places[count - 1];
	return 1;
}

/* Without the wrappers that Go does not print. */
static const struct snap_runtime_frame *
make_site_frame(struct snap_go *go, const struct snap_go_site *site, bool calls_panic)
{
	struct snap_go_place places[SNAP_GO_MOST_INLINED];
	size_t count = places_of(go, site, places), shown = 0;
	const uint8_t wrapper = site->text->table.wrapper_kind;
	struct snap_runtime_frame *frame;

	for (size_t i = 0; i < count; i++) {
		bool is_hidden = wrapper && places[i].kind == wrapper && !calls_panic;

		calls_panic = places[i].name && is_panic(places[i].name);
		if (!is_hidden)
			places[shown++] = places[i];
	}
	if (shown == 0)
		return NULL;
	/* The rest of a frame whose own function is hidden is a frame itself. */
	places[shown - 1].inlined = false;
	frame = snap_arena_new(go->process->arena, struct snap_runtime_frame);
	if (frame)
		frame->entries = snap_arena_new_array(go->process->arena, shown, struct snap_entry);
	if (!frame || !frame->entries) {
		go->no_memory = true;
		return NULL;
	}
	frame->pc = site->pc;
	frame->is_exact = site->is_exact;
	frame->entry_count = shown;
	go->entry_count += shown;
	for (size_t i = 0; i < shown; i++)
		make_entry(go, &places[i], &frame->entries[i]);
	return frame;
}

const struct snap_runtime_frame *snap_go_frame(struct snap_go *go, const struct snap_go_site *site,
					       bool calls_panic)
{
	/* All sites are ours: only their users may not change them. */
	struct snap_go_site *own = (struct snap_go_site *)site;

	if (!site->text)
		return NULL;
	if (!site->made[calls_panic]) {
		own->frames[calls_panic] = make_site_frame(go, site, calls_panic);
		own->made[calls_panic] = true;
	}
	return site->frames[calls_panic];
}

const struct snap_entry *snap_go_entry(struct snap_go *go, uint64_t pc, bool is_exact)
{
	const struct snap_go_site *site = snap_go_site(go, pc, is_exact);
	struct snap_go_site *own = (struct snap_go_site *)site;
	struct snap_go_place places[SNAP_GO_MOST_INLINED], one;
	struct snap_entry *entry;
	size_t count;

	if (!site || !site->text)
		return NULL;
	if (site->entry)
		return site->entry;
	count = snap_go_places(&site->text->table, &site->function, offset_of(site), places,
			       SNAP_GO_MOST_INLINED);
	entry = snap_arena_new(go->process->arena, struct snap_entry);
	if (count == 0 || !entry) {
		go->no_memory |= !entry;
		return NULL;
	}
	/* As Go prints it: the function of the table, and the line of the innermost one. */
	one = places[count - 1];
	one.file = places[0].file;
	one.line = places[0].line;
	make_entry(go, &one, entry);
	own->entry = entry;
	return entry;
}
