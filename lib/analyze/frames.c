/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Frames -> names: finds the module of each distinct program counter, gathers the addresses of one
 * file over all processes, and has each file symbolized once. Then the perf maps, for code that
 * lies in no file. Knows nothing of threads.
 */
#include "analyze/analysis.h"
#include "analyze/classify.h"
#include "analyze/unwind/arch.h"
#include "base/bsearch.h"
#include "base/clock.h"
#include "base/text.h"

#include <string.h>

/* An address to be named, of a file or (file NULL) of a process's anonymous memory. */
struct wanted {
	uint64_t vaddr;
	struct snap_frame_record *record;
	size_t file; /* index in the set */
	size_t process;
	bool static_program;
};

SNAP_ORDER(compare_wanted, struct wanted, a, b, snap_compare(a->file, b->file),
	   snap_compare(a->vaddr, b->vaddr));

static void find_module_of(struct snap_analysis *analysis, struct snap_raw_process *raw,
			   struct snap_frame_record *record)
{
	struct snap_module *module = snap_modules_find(raw->modules, record->lookup);
	const struct snap_map *map;

	record->module = module;
	if (!module)
		return;
	record->frame.module = snap_analysis_text(analysis, module->path);
	if (!module->file)
		return;
	map = snap_process_map(raw->process, record->lookup);
	if (map)
		record->frame.file_offset = record->lookup - map->start + map->offset;
	if (!snap_options_have_enough(analysis->options) &&
	    snap_module_open(analysis->set, module)) {
		record->file = module->file;
		record->vaddr = record->lookup - module->bias;
	}
	/* Without the file there are no names, but a machine with the file can look them up. */
	if (module->kind != SNAP_MODULE_MADE && (module->has_bias || map)) {
		record->frame.offset = module->has_bias ? record->lookup - module->bias
							: record->frame.file_offset;
		record->frame.has_offset = true;
	}
	record->frame.build_id = snap_analysis_text(analysis, module->file->build_id_hex);
}

static bool find_modules(struct snap_analysis *analysis, struct wanted **wanted_ret,
			 size_t *count_ret)
{
	size_t total = 0, count = 0;
	struct wanted *wanted;

	for (size_t i = 0; i < analysis->capture->process_count; i++)
		total += analysis->processes[i].record_count;
	wanted = malloc((total + 1) * sizeof(*wanted));
	if (!wanted)
		return false;
	for (size_t i = 0; i < analysis->capture->process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];

		for (size_t k = 0; k < raw->record_count; k++) {
			struct snap_frame_record *record = raw->records[k];

			if (record->bits == 0)
				continue;
			find_module_of(analysis, raw, record);
			if (record->file && !record->is_managed)
				wanted[count++] =
					(struct wanted){ record->vaddr, record, record->file->index,
							 i, !raw->has_libc };
		}
	}
	*wanted_ret = wanted;
	*count_ret = count;
	return true;
}

void snap_frames_flag_system(struct snap_query *query, const char *path, bool static_program)
{
	bool module_is_system = snap_classify_system_module(path);

	for (size_t i = 0; i < query->entry_count; i++) {
		struct snap_entry *entry = &query->entries[i];

		if (entry->language)
			entry->system = snap_classify_managed_system(
				entry->language, entry->symbol ? entry->symbol : entry->function,
				entry->file);
		else
			entry->system = module_is_system ||
					snap_classify_system_function(
						entry->symbol, entry->function, static_program) ||
					snap_classify_cxx_library(entry->symbol, entry->function,
								  entry->file);
	}
}

/* A query for each distinct address of `wanted`, which is sorted; to be freed. NULL: no memory. */
static struct snap_query *new_queries(const struct wanted *wanted, size_t count,
				      size_t *distinct_ret)
{
	struct snap_query *queries = calloc(count, sizeof(*queries));

	*distinct_ret = 0;
	for (size_t i = 0; queries && i < count; i++)
		if (i == 0 || wanted[i].vaddr != wanted[i - 1].vaddr)
			queries[(*distinct_ret)++].vaddr = wanted[i].vaddr;
	return queries;
}

/* Hands the answers on. `path`: of their file, NULL without one. */
static void take_names(struct snap_query *queries, const char *path, struct wanted *wanted,
		       size_t count)
{
	for (size_t i = 0, q = 0; i < count; i++) {
		if (i && wanted[i].vaddr != wanted[i - 1].vaddr)
			q++;
		if (i == 0 || wanted[i].vaddr != wanted[i - 1].vaddr)
			snap_frames_flag_system(&queries[q], path, wanted[i].static_program);
		wanted[i].record->start = queries[q].start;
		wanted[i].record->frame.entries = queries[q].entries;
		wanted[i].record->frame.entry_count =
			queries[q].entries ? queries[q].entry_count : 0;
	}
}

/*
 * A module without symbols is worth a warning and counts as missing when it should have had some:
 * executable memory that is backed by no ordinary file (memfd, shared memory), or by one that is no
 * ELF file, mostly holds JIT code.
 */
static bool should_have_symbols(const char *path)
{
	return path && path[0] == '/' && !snap_begins_with(path, "/memfd:") &&
	       !snap_begins_with(path, "/dev/") && !snap_begins_with(path, "/SYSV");
}

static void warn_of_units(struct snap_analysis *analysis, const struct snap_module_file *file)
{
	const char *first;
	size_t count = snap_symbolizer_missing_units(file, &first);

	if (count == 0)
		return;
	analysis->snapshot->missing.modules++;
	snap_snapshot_warn(analysis->snapshot, "module_symbols", 0, 0,
			   "%s: inlined functions of %zu unit%s are missing: %s%s (--debug-dir)",
			   file->path ? file->path : "a module", count, snap_plural(count), first,
			   count == 1 ? "" : " and others");
}

/* The program of a core that tells no more of it than its name. */
static bool is_bare_program(const struct snap_module_file *file)
{
	const char *exe = file->request.process->exe;

	return exe && exe[0] != '/' && file->path && strcmp(snap_base_name(file->path), exe) == 0;
}

static void warn_of_file(struct snap_analysis *analysis, const struct snap_module_file *file)
{
	const char *reason = snap_symbolizer_trouble(analysis->symbolizer, file);

	if (!reason && file->tried && !file->image && !file->is_data &&
	    should_have_symbols(file->path))
		reason = file->trouble;
	if (!reason) {
		warn_of_units(analysis, file);
		return;
	}
	analysis->snapshot->missing.modules++;
	snap_snapshot_warn(analysis->snapshot, "module_symbols", 0, 0,
			   "cannot read the symbols of %s: %s%s",
			   file->path ? file->path : "a module", reason,
			   !file->image && is_bare_program(file) ? " (use --exe FILE)" : "");
}

/* How long files of a process, and of all with its user, took. */
struct served_time {
	int64_t ns, of_user_ns;
};

/* Those whose files take long come last. */
struct served {
	const struct snap_capture *capture;
	struct served_time *times; /* of each process */
};

/*
 * One file may take a second of a processor, and a process may have mapped hundreds of such files. So
 * in a turn a user's processes wait for the next one when they have had that time, and a process when
 * it has had a quarter of it. A file that takes longer is begun anew in the next turn. Files of one
 * process alone wait for none.
 */
static const struct turn {
	int64_t most_of_user_ns, most_of_file_ns;
} turns[] = { { 100000000, 100000000 }, { 1000000000, 1000000000 }, { INT64_MAX, INT64_MAX } };

static void charge_process(struct served *served, size_t process, int64_t ns)
{
	const struct snap_process *all = served->capture->processes;

	served->times[process].ns += ns;
	for (size_t i = 0; i < served->capture->process_count; i++)
		if (all[i].uid == all[process].uid)
			served->times[i].of_user_ns += ns;
}

/* The process for which a file is named: of those that have it the one that was served least. */
static size_t least_served(const struct served *served, const struct wanted *wanted, size_t count)
{
	size_t least = wanted->process;

	for (size_t i = 1; i < count; i++) {
		const struct served_time *other = &served->times[wanted[i].process];

		if (other->of_user_ns < served->times[least].of_user_ns ||
		    (other->of_user_ns == served->times[least].of_user_ns &&
		     other->ns < served->times[least].ns))
			least = wanted[i].process;
	}
	return least;
}

/* *is_left_ret: another turn is to name it. */
static struct stacksnap_error *name_file(struct snap_analysis *analysis, struct served *served,
					 const struct turn *turn, struct wanted *wanted,
					 size_t count, bool *is_left_ret)
{
	size_t process = least_served(served, wanted, count), distinct;
	const struct served_time *had = &served->times[process];
	int64_t began_ns = snap_clock_ns(CLOCK_MONOTONIC);
	_cleanup_free_ struct snap_query *queries = NULL;
	struct snap_module_file *file = wanted->record->file;
	struct stacksnap_error *err;

	*is_left_ret = snap_options_have_enough(analysis->options) ||
		       had->of_user_ns > turn->most_of_user_ns ||
		       had->ns > turn->most_of_user_ns / 4;
	if (*is_left_ret)
		return NULL;
	queries = new_queries(wanted, count, &distinct);
	SNAP_TRY(snap_no_memory_unless(queries));
	err = snap_symbolize(analysis->symbolizer, file, queries, distinct, turn->most_of_file_ns,
			     is_left_ret);
	if (!err)
		take_names(queries, file->path, wanted, count);
	charge_process(served, process, snap_clock_ns(CLOCK_MONOTONIC) - began_ns);
	return err;
}

/* The files that are left come to the front; *left_ret: how many addresses they have. */
static struct stacksnap_error *take_turn(struct snap_analysis *analysis, struct served *served,
					 const struct turn *turn, struct wanted *wanted,
					 size_t count, size_t *left_ret)
{
	size_t left = 0;

	for (size_t i = 0, end; i < count; i = end) {
		bool is_left;

		for (end = i; end < count && wanted[end].file == wanted[i].file;)
			end++;
		SNAP_TRY(snap_options_check(analysis->options));
		SNAP_TRY(name_file(analysis, served, turn, wanted + i, end - i, &is_left));
		if (!is_left)
			continue;
		memmove(wanted + left, wanted + i, (end - i) * sizeof(*wanted));
		left += end - i;
	}
	*left_ret = left;
	return NULL;
}

static bool is_of_one_process(const struct wanted *wanted, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (wanted[i].process != wanted->process)
			return false;
	return true;
}

static size_t count_files(const struct wanted *wanted, size_t count)
{
	return snap_sum(count, i, i == 0 || wanted[i].file != wanted[i - 1].file);
}

static struct stacksnap_error *name_files_in_turn(struct snap_analysis *analysis,
						  struct wanted *wanted, size_t count)
{
	_cleanup_free_ struct served_time *times =
		calloc(analysis->capture->process_count + 1, sizeof(*times));
	struct served served = { analysis->capture, times };
	const struct turn *end = turns + SNAP_ARRAY_SIZE(turns), *turn = turns;

	SNAP_TRY(snap_no_memory_unless(times));
	if (is_of_one_process(wanted, count))
		turn = end - 1;
	for (; turn < end && count; turn++) {
		struct stacksnap_error *err =
			take_turn(analysis, &served, turn, wanted, count, &count);

		if (err)
			return err;
	}
	if (count) {
		size_t files = count_files(wanted, count);

		analysis->snapshot->missing.modules++;
		snap_snapshot_warn(
			analysis->snapshot, "module_symbols", 0, 0,
			"cannot read all symbols of %zu file%s: there was too little time", files,
			snap_plural(files));
	}
	return NULL;
}

static struct stacksnap_error *name_files(struct snap_analysis *analysis, struct wanted *wanted,
					  size_t count)
{
	struct stacksnap_error *err;

	/* Without names none is missing. */
	if (!analysis->options->symbols)
		return NULL;
	qsort(wanted, count, sizeof(*wanted), compare_wanted);
	err = name_files_in_turn(analysis, wanted, count);
	for (size_t i = 0; !err && i < snap_module_set_count(analysis->set); i++)
		warn_of_file(analysis, snap_module_set_file(analysis->set, i));
	return err;
}

/* Code in executable memory that no file backs, or one that is no ELF file, as of .NET and Wine. */
static bool is_jit(const struct snap_raw_process *raw, const struct snap_frame_record *record)
{
	const struct snap_module_file *file = record->module ? record->module->file : NULL;
	const struct snap_map *map;

	if (record->bits == 0 || record->file || record->is_managed)
		return false;
	map = snap_process_map(raw->process, record->lookup);
	return map && map->execute && (!should_have_symbols(map->path) || (file && file->is_data));
}

static struct stacksnap_error *name_jit(struct snap_analysis *analysis,
					struct snap_raw_process *raw)
{
	_cleanup_free_ struct wanted *wanted = malloc((raw->record_count + 1) * sizeof(*wanted));
	_cleanup_free_ struct snap_query *queries = NULL;
	const char *reason = NULL;
	size_t count = 0, distinct;

	SNAP_TRY(snap_no_memory_unless(wanted));
	for (size_t i = 0; i < raw->record_count; i++)
		if (is_jit(raw, raw->records[i]))
			wanted[count++] = (struct wanted){ raw->records[i]->lookup, raw->records[i],
							   0, 0, false };
	if (count == 0)
		return NULL;
	qsort(wanted, count, sizeof(*wanted), compare_wanted);
	queries = new_queries(wanted, count, &distinct);
	SNAP_TRY(snap_no_memory_unless(queries));
	SNAP_TRY(snap_symbolize_perf_map(analysis->symbolizer, raw->process, queries, distinct,
					 &reason));
	take_names(queries, NULL, wanted, count);
	if (reason)
		snap_snapshot_warn(analysis->snapshot, "perf_map_refused", raw->process->pid, 0,
				   "perf map of process %d not used: %s", raw->process->pid,
				   reason);
	return NULL;
}

/* The code to which a signal handler returns: its frame was made by the kernel. */
static bool is_signal_frame(const struct snap_raw_process *raw,
			    const struct snap_frame_record *record)
{
	const struct snap_arch_ops *arch = snap_arch_ops(raw->process->arch);
	uint8_t code[SNAP_SIGNAL_RETURN_BYTES];

	return record->module && !record->is_managed && arch && arch->is_signal_return &&
	       snap_pc_is_exact((struct snap_pc){ record->bits }) &&
	       snap_modules_read(raw->modules, record->lookup, code, sizeof(code)) &&
	       arch->is_signal_return(code);
}

/*
 * A frame without a name is still one entry, which says at least whether it is system code. That
 * of a signal has gdb's words for its name.
 */
static bool fill_blanks(struct snap_analysis *analysis, struct snap_raw_process *raw)
{
	struct snap_entry *blanks =
		snap_arena_new_array(snap_analysis_arena(analysis), 3, struct snap_entry);
	const struct snap_options *options = analysis->options;

	if (!blanks)
		return false;
	blanks[1].system = blanks[2].system = true;
	blanks[2].function = "<signal handler called>";
	for (size_t i = 0; i < raw->record_count; i++) {
		struct snap_frame *frame = &raw->records[i]->frame;
		bool signal = options->symbols && is_signal_frame(raw, raw->records[i]);

		if (frame->entry_count && frame->entries) {
			if (signal && !options->raw_names)
				frame->entries[0].function = blanks[2].function;
			frame->entries[0].system |= signal;
			continue;
		}
		frame->entries = &blanks[signal ? 2 : snap_classify_system_module(frame->module)];
		frame->entry_count = 1;
	}
	return true;
}

struct stacksnap_error *snap_frames_name(struct snap_analysis *analysis)
{
	_cleanup_free_ struct wanted *wanted = NULL;
	size_t count;

	SNAP_TRY(snap_no_memory_unless(find_modules(analysis, &wanted, &count)));
	SNAP_TRY(name_files(analysis, wanted, count));
	for (size_t i = 0; i < analysis->capture->process_count; i++) {
		struct snap_raw_process *raw = &analysis->processes[i];

		if (raw->record_count == 0)
			continue;
		if (analysis->options->symbols && !snap_options_have_enough(analysis->options))
			SNAP_TRY(name_jit(analysis, raw));
		SNAP_TRY(snap_no_memory_unless(fill_blanks(analysis, raw)));
	}
	return NULL;
}
