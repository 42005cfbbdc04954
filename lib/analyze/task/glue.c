/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The interpreter's own frames among native ones: see glue.h. */
#include "analyze/task/glue.h"

#include "base/text.h"

#include <fnmatch.h>
#include <string.h>

/* An interpreter's own functions, in the file that its loop is in. */
struct glue {
	const char *language;
	bool whole_file;        /* all of them: what is left shows as managed frames, too */
	const char *program;    /* whose main() is the interpreter's: a pattern of file names */
	const char *const *own; /* prefixes of names */
};

static const char *const python_own[] = {
	"Py",
	"_Py",
	"async_gen_",
	"bounded_lru_cache_",
	"builtin___build_class__",
	"builtin_eval",
	"builtin_exec",
	"builtin_next",
	"cfunction_",
	"context_run",
	"coro_",
	"call_function",
	"do_call",
	"func_vectorcall",
	"function_code_fastcall",
	"gen_",
	"import_",
	"method_",
	"object_vacall",
	"partial_",
	"pymain_",
	"pyrun_",
	"pythread_wrapper",
	"run_eval_code_obj",
	"run_file",
	"run_mod",
	"slot_",
	"t_bootstrap",
	"thread_run",
	"type_call",
	"vectorcall_",
	"wrap_",
	"wrapperdescr_",
	NULL,
};
static const char *const no_names[] = { NULL };

static const struct glue glues[] = {
	{ "python", false, "python*", python_own },
	{ "php", true, "*", no_names },
};

static const struct glue *find_glue(const char *language)
{
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(glues); i++)
		if (strcmp(glues[i].language, language) == 0)
			return &glues[i];
	return NULL;
}

const char *snap_glue_name(const struct snap_frame *frame)
{
	const struct snap_entry *entry = &frame->entries[frame->entry_count - 1];

	return entry->symbol ? entry->symbol : entry->function;
}

static bool is_own_glue(const struct glue *glue, const struct snap_frame *frame)
{
	const char *name = snap_glue_name(frame);

	if (glue->whole_file || !name)
		return true;
	if (strcmp(name, "main") == 0 || strcmp(name, "_start") == 0)
		return frame->module &&
		       fnmatch(glue->program, snap_base_name(frame->module), 0) == 0;
	for (const char *const *own = glue->own; *own; own++)
		if (snap_begins_with(name, *own))
			return true;
	return false;
}

/* ---- which frames ---- */

struct walk {
	const struct snap_frame **frames;
	size_t count;
	bool has_gap;
	size_t gap_frame; /* the last one before the gap */
};

/* Of what an interpreter runs: Go is machine code, which nothing runs. */
static const char *language_of(const struct snap_frame *frame)
{
	const char *language = frame->entries->language;

	return language && strcmp(language, "go") == 0 ? NULL : language;
}

/* A native frame right behind managed ones: the loop that runs them. */
static bool is_loop(const struct walk *walk, size_t i)
{
	return i > 0 && !language_of(walk->frames[i]) && language_of(walk->frames[i - 1]) &&
	       !(walk->has_gap && walk->gap_frame == i - 1);
}

/* The first loop; SIZE_MAX: there is none. */
static size_t first_loop(const struct walk *walk)
{
	for (size_t i = 0; i < walk->count; i++)
		if (is_loop(walk, i))
			return i;
	return SIZE_MAX;
}

/* Behind the last managed frame. */
static size_t end_of_managed(const struct walk *walk)
{
	size_t end = walk->count;

	while (end > 0 && !language_of(walk->frames[end - 1]))
		end--;
	return end;
}

size_t snap_glue_leave_out(const struct snap_frame **frames, size_t count, bool is_whole,
			   bool has_gap, size_t *gap_frame)
{
	const struct walk walk = { frames, count, has_gap, *gap_frame };
	size_t first = first_loop(&walk), kept = 0, kept_gap = 0;
	size_t end = is_whole ? count : end_of_managed(&walk);
	bool follows_managed = false;
	const struct glue *glue;
	const char *module;

	if (first == SIZE_MAX)
		return count;
	glue = find_glue(language_of(frames[first - 1]));
	module = frames[first]->module;
	for (size_t i = 0; i < count; i++) {
		const struct snap_frame *frame = frames[i];
		bool is_managed = language_of(frame);
		bool leaves = i < end && !is_managed && !frame->entries->kernel &&
			      (follows_managed || (glue && snap_same_text(frame->module, module) &&
						   is_own_glue(glue, frame)));

		if (!leaves)
			frames[kept++] = frame;
		follows_managed = is_managed && !(has_gap && walk.gap_frame == i);
		if (has_gap && walk.gap_frame == i)
			kept_gap = kept ? kept - 1 : 0;
	}
	*gap_frame = kept_gap;
	return kept;
}
