/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Damaged files, on the way that the product takes: a recorded capture is analyzed and rendered,
 * and the finder answers with a file of which some bytes were changed. To be run in a build with
 * sanitizers.
 *
 *	mutants [-f FIRST] [-n COUNT] [-s SEED] FOLDER…
 *
 * A folder has `capture`, `path` (the module's in the maps), `module` and, if there is one,
 * `companion`, the file that is asked for beside it: debug, shared or split information; and
 * `whole`, where the functions are if `module` does not say. Other modules are as on this host.
 *Input number N is the same whatever the others are. Each batch runs in a process of its own; an
 *input that ends it, or takes 2 seconds of processor time, is a finding. `-f N -n 1` repeats one.
 */
#include "analyze/analyze.h"
#include "base/table.h"
#include "fuzz.h"
#include "store/capture/file.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum {
	MAX_CASES = 64,
	MAX_SECTIONS = 96,
	MAX_THREADS = 48, /* that stand in functions of the module */
	BATCH = 50,
	CPU_SECONDS = 2,   /* of one input */
	WALL_SECONDS = 60, /* of one input: it hangs */
	RIP_WORD = 16,
};

/* A part of a file, whose bytes are changed together. */
struct part {
	char name[32];
	uint64_t offset, size;
};

struct file {
	uint8_t *bytes;
	size_t size;
	struct part parts[MAX_SECTIONS];
	size_t part_count;
};

struct one_case {
	const char *folder;
	char path[SNAP_MAX_PATH];
	struct file module, companion;
	struct snap_capture *capture;
	size_t thread_count;
};

/* Seen by the process that watches. */
struct progress {
	uint64_t input; /* at hand */
	uint64_t done;
	int64_t longest_ns;
	uint64_t longest_input;
	char part[80];
};

static struct one_case cases[MAX_CASES];
static size_t case_count;

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* ---- cases ---- */

static bool load(const char *folder, const char *name, uint8_t **bytes_ret, size_t *size_ret)
{
	char path[SNAP_MAX_PATH];
	struct stat status;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	fuzz_check(fstat(fd, &status) == 0, path);
	*size_ret = (size_t)status.st_size;
	*bytes_ret = calloc(1, *size_ret + 1);
	fuzz_check(*bytes_ret && read(fd, *bytes_ret, *size_ret) == (ssize_t)*size_ret, path);
	close(fd);
	return true;
}

static void add_part(struct file *file, const char *name, uint64_t offset, uint64_t size)
{
	struct part *part = &file->parts[file->part_count];

	if (file->part_count == MAX_SECTIONS || size == 0 || offset > file->size ||
	    size > file->size - offset)
		return;
	snprintf(part->name, sizeof(part->name), "%s", name);
	part->offset = offset;
	part->size = size;
	file->part_count++;
}

/* The headers, and all sections that anybody here reads: not the code, not the data. */
static void find_parts(struct file *file)
{
	static const char *const left_out[] = { ".text", ".rodata", ".data", ".shstrtab" };
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)file->bytes;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(file->bytes + header->e_shoff);

	add_part(file, "(header)", 0, sizeof(*header));
	add_part(file, "(segments)", header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
	add_part(file, "(sections)", header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr));
	for (size_t i = 1; i < header->e_shnum; i++) {
		const char *name = (const char *)file->bytes +
				   sections[header->e_shstrndx].sh_offset + sections[i].sh_name;
		bool wanted = sections[i].sh_type != SHT_NOBITS;

		for (size_t k = 0; k < SNAP_ARRAY_SIZE(left_out); k++)
			wanted = wanted && strcmp(name, left_out[k]) != 0;
		if (wanted)
			add_part(file, name, sections[i].sh_offset, sections[i].sh_size);
	}
}

/* Where functions of the module are, evenly chosen; 0 behind the last. */
static void find_functions(const struct file *file, uint64_t ret[MAX_THREADS])
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)file->bytes;
	const Elf64_Shdr *section = (const Elf64_Shdr *)(file->bytes + header->e_shoff),
			 *table = NULL;
	size_t count, found = 0, wanted = 0;

	for (size_t i = 0; i < header->e_shnum; i++, section++)
		if (section->sh_type == SHT_SYMTAB || (!table && section->sh_type == SHT_DYNSYM))
			table = section;
	count = table ? table->sh_size / sizeof(Elf64_Sym) : 0;
	for (int pass = 0; pass < 2; pass++) {
		size_t step = wanted / MAX_THREADS + 1, seen = 0;

		for (size_t i = 0; i < count; i++) {
			Elf64_Sym symbol;

			memcpy(&symbol, file->bytes + table->sh_offset + i * sizeof(symbol),
			       sizeof(symbol));
			if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size < 8 ||
			    symbol.st_shndx == SHN_UNDEF)
				continue;
			if (pass && seen % step == 0 && found < MAX_THREADS)
				ret[found++] = symbol.st_value + symbol.st_size / 2;
			seen++;
		}
		wanted = seen;
	}
}

/* Beside the threads that there were, one in each of these functions, on the stack of the first. */
static void add_threads(struct one_case *one, const struct file *whole)
{
	struct snap_process *process = &one->capture->processes[0];
	struct snap_thread *threads = calloc(process->thread_count + MAX_THREADS, sizeof(*threads));
	uint64_t functions[MAX_THREADS] = { 0 }, bias = 0;
	size_t count = process->thread_count;

	fuzz_check(threads && count > 0, "a capture with threads");
	for (size_t i = process->map_count; i-- > 0;)
		if (process->maps[i].path && strcmp(process->maps[i].path, one->path) == 0)
			bias = process->maps[i].start - process->maps[i].offset;
	fuzz_check(bias > 0, "the module is mapped");
	find_functions(whole->bytes ? whole : &one->module, functions);
	memcpy(threads, process->threads, count * sizeof(*threads));
	for (size_t i = 0; i < MAX_THREADS && functions[i]; i++, count++) {
		uint64_t *registers = malloc(threads[0].registers_size);

		fuzz_check(registers != NULL, "room for registers");
		memcpy(registers, threads[0].registers, threads[0].registers_size);
		registers[RIP_WORD] = bias + functions[i];
		threads[count] = threads[0];
		threads[count].registers = registers;
		threads[count].tid = threads[count - 1].tid + 1;
	}
	process->threads = threads;
	process->thread_count = one->thread_count = count;
}

static void open_case(struct one_case *one, const char *folder)
{
	struct file whole = { .bytes = NULL };
	uint8_t *bytes = NULL;
	size_t size;
	int fd;

	one->folder = folder;
	fuzz_check(load(folder, "capture", &bytes, &size), "a capture");
	fd = fuzz_file(bytes, size);
	fuzz_no_error(snap_capture_read(fd, &one->capture));
	close(fd);
	free(bytes);
	fuzz_check(load(folder, "path", &bytes, &size) && size < sizeof(one->path), "a path");
	memcpy(one->path, bytes, size);
	free(bytes);
	fuzz_check(load(folder, "module", &one->module.bytes, &one->module.size), "a module");
	find_parts(&one->module);
	if (load(folder, "companion", &one->companion.bytes, &one->companion.size))
		find_parts(&one->companion);
	(void)load(folder, "whole", &whole.bytes, &whole.size);
	add_threads(one, &whole);
	free(whole.bytes);
}

/* ---- an input ---- */

static void change(uint8_t *bytes, size_t size, uint64_t *state)
{
	static const uint8_t values[] = { 0,    1,    2,    8,    0x0c, 0x1b, 0x2f, 0x3b,
					  0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xfe, 0xff };
	static const uint32_t words[] = { 0, 1, 8, 0x7fffffff, 0x80000000, 0xffffff00, 0xffffffff };
	size_t at = next_random(state) % size, other = next_random(state) % size, length;
	uint32_t word;

	switch (next_random(state) % 7) {
	case 0:
		bytes[at] = (uint8_t)next_random(state);
		break;
	case 1:
		bytes[at] ^= (uint8_t)(1u << next_random(state) % 8);
		break;
	case 2:
		bytes[at] = values[next_random(state) % sizeof(values)];
		break;
	case 3:
		word = words[next_random(state) % SNAP_ARRAY_SIZE(words)];
		memcpy(bytes + at, &word, size - at < sizeof(word) ? size - at : sizeof(word));
		break;
	case 4:
		length = 1 + next_random(state) % 32;
		length = length < size - at ? length : size - at;
		length = length < size - other ? length : size - other;
		memmove(bytes + at, bytes + other, length);
		break;
	case 5:
		length = 1 + next_random(state) % 8;
		memset(bytes + at, values[next_random(state) % sizeof(values)],
		       length < size - at ? length : size - at);
		break;
	default:
		bytes[at] += (uint8_t)(next_random(state) % 2 ? 1 : -1);
	}
}

struct answer {
	const struct one_case *one;
	int module, companion;
};

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	const struct answer *answer = context;
	const struct snap_map *map = &request->process->maps[request->map];
	int fd = answer->companion;

	if (request->kind == SNAP_FILE_PERF_MAP || request->attempt > 0)
		return snap_error_not_found();
	if (request->kind == SNAP_FILE_MODULE) {
		if (!map->path)
			return snap_error_not_found();
		if (strcmp(map->path, answer->one->path) != 0) {
			*fd_ret = open(map->path, O_RDONLY | O_CLOEXEC);
			return *fd_ret < 0 ? snap_error_not_found() : NULL;
		}
		fd = answer->module;
	}
	if (fd < 0)
		return snap_error_not_found();
	*fd_ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return NULL;
}

/* The file with some bytes of one part changed, now and then cut. */
static int mutate(const struct file *file, uint64_t *state, struct progress *progress)
{
	const struct part *part = &file->parts[next_random(state) % file->part_count];
	uint64_t count = 1 + next_random(state) % 8;
	size_t size = file->size;
	uint8_t *copy = malloc(size);
	int fd;

	fuzz_check(copy != NULL, "room for a copy");
	snprintf(progress->part + strlen(progress->part),
		 sizeof(progress->part) - strlen(progress->part), " %s", part->name);
	memcpy(copy, file->bytes, size);
	while (count--)
		change(copy + part->offset, part->size, state);
	if (next_random(state) % 64 == 0)
		size = next_random(state) % size;
	fd = fuzz_file(copy, size);
	free(copy);
	return fd;
}

static size_t count_threads(const struct snap_snapshot *snapshot)
{
	size_t count = 0;

	for (size_t i = 0; i < snapshot->root_count; i++)
		count += snapshot->processes[i]->thread_count;
	return count;
}

/* How many frames of all stacks have a name, and a line. */
static void count_frames(const struct snap_snapshot *snapshot, size_t *named, size_t *with_line)
{
	const struct snap_node *node = snapshot->processes[0];

	for (size_t i = 0; i < node->stack_count; i++)
		for (size_t k = 0; k < node->stacks[i].frame_count; k++) {
			*named += node->stacks[i].frames[k]->entries[0].symbol != NULL;
			*with_line += node->stacks[i].frames[k]->entries[0].line > 0;
		}
}

static void analyze(const struct one_case *one, struct answer *answer, bool libunwind,
		    size_t *named, size_t *with_line)
{
	_cleanup_(snap_snapshot_destroyp) struct snap_snapshot *snapshot = NULL;
	_cleanup_(snap_options_deinit) struct snap_options options;
	struct snap_file_finder finder = { .find = find, .context = answer };
	struct fuzz_output text, json;

	snap_options_init(&options);
	options.engine = libunwind ? SNAP_ENGINE_LIBUNWIND : SNAP_ENGINE_AUTO;
	fuzz_no_error(snap_analyze(one->capture, &options, &finder, &snapshot));
	if (!snapshot)
		return;
	fuzz_check(count_threads(snapshot) == one->thread_count, "an answer for every thread");
	count_frames(snapshot, named, with_line);
	text = fuzz_render("text", snapshot, &options);
	fuzz_check_text(&text);
	fuzz_output_deinit(&text);
	json = fuzz_render("json", snapshot, &options);
	fuzz_check_json(&json, false);
	fuzz_output_deinit(&json);
}

static void run_input(uint64_t seed, uint64_t number, struct progress *progress)
{
	uint64_t state = snap_hash_bytes(&number, sizeof(number), seed);
	const struct one_case *one = &cases[number % case_count];
	bool in_companion = one->companion.bytes && next_random(&state) % 3 > 0;
	struct answer answer = { one, -1, -1 };
	const char *name = strrchr(one->folder, '/');
	size_t named = 0, with_line = 0;

	snprintf(progress->part, sizeof(progress->part), "%.32s%s", name ? name + 1 : one->folder,
		 in_companion ? " companion" : "");
	answer.module = in_companion ? fuzz_file(one->module.bytes, one->module.size)
				     : mutate(&one->module, &state, progress);
	if (in_companion)
		answer.companion = mutate(&one->companion, &state, progress);
	else if (one->companion.bytes)
		answer.companion = fuzz_file(one->companion.bytes, one->companion.size);
	analyze(one, &answer, next_random(&state) % 4 == 0, &named, &with_line);
	close(answer.module);
	if (answer.companion >= 0)
		close(answer.companion);
}

/* What there is to lose: names and lines of each case as it was made. */
static void run_undamaged(const struct one_case *one)
{
	struct answer answer = { one, fuzz_file(one->module.bytes, one->module.size), -1 };
	const char *name = strrchr(one->folder, '/');
	size_t named = 0, with_line = 0;

	if (one->companion.bytes)
		answer.companion = fuzz_file(one->companion.bytes, one->companion.size);
	analyze(one, &answer, false, &named, &with_line);
	printf("case %s: %zu threads, %zu frames with a name, %zu with a line, %zu parts\n",
	       name ? name + 1 : one->folder, one->thread_count, named, with_line,
	       one->module.part_count + one->companion.part_count);
	close(answer.module);
	if (answer.companion >= 0)
		close(answer.companion);
}

/* ---- batches ---- */

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void run_batch(uint64_t seed, uint64_t first, uint64_t last, struct progress *progress)
{
	for (uint64_t number = first; number < last; number++) {
		const struct itimerval limit = { .it_value = { .tv_sec = CPU_SECONDS } };
		int64_t began = cpu_ns(), took;

		progress->input = number;
		setitimer(ITIMER_PROF, &limit, NULL);
		alarm(WALL_SECONDS);
		run_input(seed, number, progress);
		took = cpu_ns() - began;
		if (took > progress->longest_ns) {
			progress->longest_ns = took;
			progress->longest_input = number;
		}
		progress->done++;
	}
}

/* Returns the input after the one at which the batch ended early, or `last`. */
static uint64_t watch_batch(uint64_t seed, uint64_t first, uint64_t last, struct progress *progress,
			    long *peak_kib, unsigned *findings)
{
	struct rusage usage;
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	fuzz_check(pid >= 0, "fork");
	if (pid == 0) {
		run_batch(seed, first, last, progress);
		exit(0);
	}
	fuzz_check(wait4(pid, &status, 0, &usage) == pid, "wait4");
	*peak_kib = usage.ru_maxrss > *peak_kib ? usage.ru_maxrss : *peak_kib;
	if (status == 0)
		return last;
	++*findings;
	printf("finding: input %llu (%s): %s %d\n", (unsigned long long)progress->input,
	       progress->part,
	       WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF ? "too long, signal"
	       : WIFSIGNALED(status)                              ? "signal"
								  : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return progress->input + 1;
}

int main(int argc, char **argv)
{
	uint64_t first = 0, count = 1000, seed = 1;
	struct progress *progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned findings = 0;
	long peak_kib = 0;
	int letter;

	while ((letter = getopt(argc, argv, "f:n:s:")) >= 0) {
		uint64_t value = letter == '?' ? 0 : strtoull(optarg, NULL, 10);

		if (letter == '?')
			return 64;
		*(letter == 'f' ? &first : letter == 'n' ? &count : &seed) = value;
	}
	for (; optind < argc && case_count < MAX_CASES; optind++)
		open_case(&cases[case_count++], argv[optind]);
	fuzz_check(case_count > 0 && progress != MAP_FAILED, "cases");
	for (size_t i = 0; i < case_count; i++)
		run_undamaged(&cases[i]);
	for (uint64_t at = first; at < first + count;) {
		uint64_t last = at + BATCH < first + count ? at + BATCH : first + count;

		at = watch_batch(seed, at, last, progress, &peak_kib, &findings);
	}
	printf("%llu inputs, %u findings, longest %lld ms (input %llu), peak %ld MiB\n",
	       (unsigned long long)count, findings, (long long)progress->longest_ns / 1000000,
	       (unsigned long long)progress->longest_input, peak_kib / 1024);
	return findings ? 1 : 0;
}
