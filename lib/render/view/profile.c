/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What all formats of profiles say in the same way: see profile.h. */
#include "render/view/profile.h"

#include "base/escape.h"
#include "base/text.h"
#include "render/view/elide.h"

#include <inttypes.h>
#include <string.h>

struct stacksnap_error *snap_profile_init(struct snap_profile *profile,
					  const struct snap_recording *recording)
{
	*profile = (struct snap_profile){ .recording = recording };
	snap_arena_init(&profile->arena);
	snap_interner_init(&profile->interner, &profile->arena);
	profile->stacks = calloc(recording->stack_count + 1, sizeof(*profile->stacks));
	return profile->stacks ? NULL : snap_error_no_memory();
}

void snap_profile_deinit(struct snap_profile *profile)
{
	snap_pointer_table_deinit(&profile->names);
	snap_interner_deinit(&profile->interner);
	free(profile->stacks);
	snap_arena_deinit(&profile->arena);
}

void snap_profile_show_labels(struct snap_profile *profile, const struct snap_options *options)
{
	profile->options = options;
}

void snap_profile_shorten_names(struct snap_profile *profile, const struct snap_options *options)
{
	profile->dots = options->full_names ? NULL : options->utf8 ? "…" : "...";
}

struct snap_labels_of snap_profile_labels(const struct snap_recording *recording,
					  const struct snap_track *track,
					  const struct snap_run *run)
{
	const struct snap_recorded_stack *stack = &recording->stacks[run->stack];

	if (track->task)
		return (struct snap_labels_of){ track->task->labels, track->task->label_count };
	return (struct snap_labels_of){ stack->labels, stack->label_count };
}

const char *snap_profile_escaped(struct snap_profile *profile, const char *text)
{
	size_t length = strlen(text), size = 4 * length + 1;
	char *out;

	if (snap_escape_is_clean(text, length, 0))
		return text;
	out = snap_arena_alloc(&profile->arena, size);
	if (out)
		snap_escape(text, length, 0, out, size);
	return out;
}

static const char *intern_text(struct snap_profile *profile, const char *text)
{
	return text ? snap_intern(&profile->interner, text, strlen(text)) : NULL;
}

/* A frame in doubt has a mark wherever its name stands, and so has what is inlined into it. */
static const char *mark_guess(struct snap_profile *profile, const struct snap_frame *frame,
			      const char *name)
{
	if (name && frame->trust != SNAP_TRUST_CFI)
		name = snap_arena_printf(&profile->arena, "%s [?]", name);
	return intern_text(profile, name);
}

/* The name as it is shown, or the address; NULL without memory. */
static const char *name_or_address(struct snap_profile *profile, const struct snap_frame *frame,
				   const struct snap_entry *entry)
{
	const char *module = frame->module;

	if (entry->function && entry->function[0])
		return snap_profile_escaped(profile, entry->function);
	if (entry->symbol && entry->symbol[0])
		return snap_profile_escaped(profile, entry->symbol);
	if (!module)
		return snap_arena_printf(&profile->arena, "0x%" PRIx64, frame->address);
	module = snap_profile_escaped(profile, snap_base_name(module));
	if (!module)
		return NULL;
	return snap_arena_printf(&profile->arena, "%s+0x%" PRIx64, module,
				 frame->has_offset ? frame->offset : frame->address);
}

static const char *make_name(struct snap_profile *profile, const struct snap_frame *frame,
			     const struct snap_entry *entry)
{
	const char *name = name_or_address(profile, frame, entry);
	char *brief = name && profile->dots ? snap_arena_strdup(&profile->arena, name) : NULL;

	if (brief)
		snap_shorten_name(brief, SNAP_NAME_COLUMNS, profile->dots);
	return mark_guess(profile, frame, brief ? brief : name);
}

const char *snap_profile_name(struct snap_profile *profile, const struct snap_frame *frame,
			      size_t entry)
{
	struct snap_pointer_entry *found = snap_pointer_table_get(&profile->names, frame);
	const char **names;

	if (found && !found->pointer)
		found->pointer =
			snap_arena_new_array(&profile->arena, frame->entry_count + 1, const char *);
	if (!found || !found->pointer)
		return NULL;
	names = found->pointer;
	if (!names[entry])
		names[entry] = make_name(profile, frame, &frame->entries[entry]);
	return names[entry];
}

const char *snap_profile_brief_name(struct snap_profile *profile, const struct snap_frame *frame,
				    size_t entry)
{
	const struct snap_entry *of = &frame->entries[entry];
	const char *module = frame->module;

	if (of->function || of->symbol)
		return snap_profile_name(profile, frame, entry);
	module = snap_profile_escaped(profile, module ? snap_base_name(module) : "anon");
	if (module)
		module = snap_arena_printf(&profile->arena, "[%s]", module);
	return mark_guess(profile, frame, module);
}

const char *snap_profile_why_empty(enum snap_unwind_end end)
{
	return end == SNAP_UNWIND_NOT_STOPPED ? "(not stopped)" : "(no frames)";
}

static bool add_profile_gap(struct snap_profile *profile, const struct snap_recorded_stack *stack,
			    struct snap_line *line)
{
	const char *text = snap_arena_printf(&profile->arena, "(%" PRIu64 " frames left out)",
					     stack->gap_count);

	*line = (struct snap_line){ .name = intern_text(profile, text) };
	return line->name != NULL;
}

/* By its key, or by the one that it is shown with where it has that of one of ours. */
static const struct snap_label *find_label(const struct snap_recorded_stack *stack, const char *key)
{
	for (size_t i = 0; i < stack->label_count; i++) {
		const char *own = stack->labels[i].key;

		if (strcmp(own, key) == 0 ||
		    (snap_begins_with(own, "label.") && strcmp(own + 6, key) == 0))
			return &stack->labels[i];
	}
	return NULL;
}

/* "KEY=VALUE" for each label that is asked for. */
static bool add_profile_labels(struct snap_profile *profile,
			       const struct snap_recorded_stack *stack, struct snap_line *lines,
			       size_t *count)
{
	const struct snap_options *options = profile->options;

	for (size_t i = 0; options && i < options->group_label_count; i++) {
		const struct snap_label *label = find_label(stack, options->group_labels[i]);
		const char *text;

		if (!label)
			continue;
		text = snap_arena_printf(&profile->arena, "%s=%s", label->key, label->value);
		if (text)
			text = intern_text(profile, snap_profile_escaped(profile, text));
		if (!text)
			return false;
		lines[(*count)++].name = text;
	}
	return true;
}

/* Outermost first: the entries of a frame from the real function to the innermost inlined one. */
static bool make_lines(struct snap_profile *profile, const struct snap_recorded_stack *stack,
		       struct snap_line *lines, size_t *count_ret)
{
	size_t count = 0, labels;

	if (!add_profile_labels(profile, stack, lines, &count))
		return false;
	labels = count;
	for (size_t i = stack->frame_count; i > 0; i--) {
		const struct snap_frame *frame = stack->frames[i - 1];

		if (stack->gap_count && stack->gap_frame == i - 1 &&
		    !add_profile_gap(profile, stack, &lines[count++]))
			return false;
		for (size_t k = frame->entry_count; k > 0; k--) {
			lines[count] = (struct snap_line){
				.frame = frame,
				.entry = &frame->entries[k - 1],
				.name = snap_profile_name(profile, frame, k - 1),
			};
			if (!lines[count++].name)
				return false;
		}
	}
	if (count == labels)
		lines[count++].name = snap_profile_why_empty(stack->unwind);
	*count_ret = count;
	return true;
}

const struct snap_lines_of *snap_profile_stack(struct snap_profile *profile, size_t number)
{
	const struct snap_recorded_stack *stack = &profile->recording->stacks[number];
	struct snap_lines_of *result = &profile->stacks[number];
	size_t count = 2 + (profile->options ? profile->options->group_label_count : 0);
	struct snap_line *lines;

	if (result->lines)
		return result;
	for (size_t i = 0; i < stack->frame_count; i++)
		count += stack->frames[i]->entry_count;
	lines = snap_arena_new_array(&profile->arena, count, struct snap_line);
	if (!lines || !make_lines(profile, stack, lines, &result->count))
		return NULL;
	result->lines = lines;
	return result;
}

const char *snap_profile_process(struct snap_profile *profile, size_t process)
{
	const struct snap_node *node = profile->recording->processes[process].node;
	const char *name = snap_profile_escaped(profile, node->name ? node->name : "?");

	return name ? snap_arena_printf(&profile->arena, "%s[%d]", name, node->pid) : NULL;
}

const char *snap_profile_thread(struct snap_profile *profile, const struct snap_track *track)
{
	const char *name = snap_profile_escaped(profile, track->name ? track->name : "?"), *id;

	if (track->task) {
		id = snap_profile_escaped(profile, track->task->id);
		return name && id ? snap_arena_printf(&profile->arena, "%s/%s", name, id) : NULL;
	}
	return name ? snap_arena_printf(&profile->arena, "%s/%d", name, track->tid) : NULL;
}

const char *snap_profile_wait(struct snap_profile *profile, const char *object)
{
	const char *text = snap_profile_escaped(profile, object);

	return text ? intern_text(profile, snap_arena_printf(&profile->arena, "wait=%s", text))
		    : NULL;
}

const char *snap_profile_state(enum snap_state state)
{
	static const char *const frames[SNAP_STATE_COUNT] = {
		[SNAP_STATE_UNKNOWN] = "[unknown]",   [SNAP_STATE_RUNNING] = "[running]",
		[SNAP_STATE_SLEEPING] = "[sleeping]", [SNAP_STATE_DISK] = "[disk]",
		[SNAP_STATE_STOPPED] = "[stopped]",   [SNAP_STATE_TRACED] = "[traced]",
		[SNAP_STATE_ZOMBIE] = "[zombie]",     [SNAP_STATE_DEAD] = "[dead]",
		[SNAP_STATE_IDLE] = "[idle]",         [SNAP_STATE_PARKED] = "[parked]",
		[SNAP_STATE_FROZEN] = "[frozen]",
	};

	return state < SNAP_STATE_COUNT ? frames[state] : frames[SNAP_STATE_UNKNOWN];
}
