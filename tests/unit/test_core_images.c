/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cores without a list of their files, made by hand: what their memory tells, and what becomes of
 * memory that lies: headers, dynamic sections, lists that are circles, texts without an end.
 */
#include "api/options.h"
#include "core/core.h"
#include "store/capture/file.h"

#include <elf.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PAGE = 4096,
	PID = 4711,
	BEGIN = 8 << 20, /* of memory in the file, behind all program headers */
	MOST_SEGMENTS = 1 << 16,
	PROGRAM = 0x400000,
	DATA = 0x403000, /* of the program: its dynamic section, and all that the list has */
	LIBRARY = 0x700000,
	OTHER = 0x800000,
	STACK = 0x900000,
	DYNAMIC = DATA + 0x100,
	DEBUG = DATA + 0x200,
	LIST = DATA + 0x300,
	NAMES = DATA + 0x800,
	MUTANTS = 300,
};

/* The memory of a process; pages are written into its core. */
struct made {
	int fd;
	uint64_t end; /* of the file */
	Elf64_Phdr headers[MOST_SEGMENTS];
	size_t count;
	uint64_t vector[12]; /* AT_PHDR, AT_EXECFN, AT_PAGESZ … */
	const char *name;    /* of the process */
	uint8_t program[PAGE], data[PAGE], library[PAGE], other[PAGE], stack[PAGE];
};

struct library {
	uint64_t bias, name, dynamic, next, previous;
};

static struct made made;

static void write_at(uint64_t offset, const void *bytes, size_t size)
{
	assert_int_equal(pwrite(made.fd, bytes, size, (off_t)offset), size);
}

static void add_header(uint64_t address, uint64_t size, uint64_t file_size, uint64_t offset,
		       uint32_t flags)
{
	assert_true(made.count < MOST_SEGMENTS);
	made.headers[made.count++] = (Elf64_Phdr){ .p_type = PT_LOAD,
						   .p_flags = flags,
						   .p_offset = offset,
						   .p_vaddr = address,
						   .p_filesz = file_size,
						   .p_memsz = size };
}

static void add_page(uint64_t address, const void *bytes, uint32_t flags)
{
	add_header(address, PAGE, PAGE, made.end, flags);
	write_at(made.end, bytes, PAGE);
	made.end += PAGE;
}

static void put_image_note(uint32_t type, const void *bytes, uint32_t size)
{
	const Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = size, .n_type = type };

	write_at(made.end, &note, sizeof(note));
	write_at(made.end + sizeof(note), "CORE\0\0\0", 8);
	write_at(made.end + sizeof(note) + 8, bytes, size);
	made.end += sizeof(note) + 8 + ((size + 3) & ~3u);
}

/* Headers, notes of one thread; the count is that of program headers in all. */
static void finish(void)
{
	Elf64_Ehdr elf = { .e_type = ET_CORE,
			   .e_machine = EM_X86_64,
			   .e_phoff = sizeof(elf),
			   .e_phentsize = sizeof(Elf64_Phdr) };
	uint8_t status[336] = { 0 }, process[136] = { 0 };
	const pid_t pid = PID;
	uint64_t notes = made.end;
	Elf64_Shdr section = { .sh_info = (uint32_t)made.count + 1 };

	memcpy(elf.e_ident, ELFMAG, SELFMAG);
	elf.e_ident[EI_CLASS] = ELFCLASS64;
	elf.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(status + 32, &pid, sizeof(pid));
	memcpy(process + 24, &pid, sizeof(pid));
	strncpy((char *)process + 40, made.name, 16);
	put_image_note(NT_PRSTATUS, status, sizeof(status));
	put_image_note(NT_PRPSINFO, process, sizeof(process));
	put_image_note(NT_AUXV, made.vector, sizeof(made.vector));
	made.headers[made.count++] =
		(Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = notes, .p_filesz = made.end - notes };
	elf.e_phnum = made.count < PN_XNUM ? (uint16_t)made.count : PN_XNUM;
	elf.e_shoff = made.end;
	write_at(made.end, &section, sizeof(section));
	write_at(sizeof(elf), made.headers, made.count * sizeof(*made.headers));
	write_at(0, &elf, sizeof(elf));
}

/* An ELF header, a segment of the header, one of code, and a dynamic section if there is one. */
static void put_image(uint8_t *page, uint64_t dynamic)
{
	const Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
				 .e_type = ET_DYN,
				 .e_machine = EM_X86_64,
				 .e_phoff = sizeof(elf),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = dynamic ? 4 : 2 };
	const Elf64_Phdr headers[] = {
		{ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x800, .p_memsz = 0x800 },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_X,
		  .p_offset = PAGE,
		  .p_vaddr = PAGE,
		  .p_filesz = 2 * PAGE,
		  .p_memsz = 2 * PAGE },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R | PF_W,
		  .p_offset = 3 * PAGE,
		  .p_vaddr = 3 * PAGE,
		  .p_filesz = PAGE,
		  .p_memsz = PAGE },
		{ .p_type = PT_DYNAMIC, .p_vaddr = dynamic },
	};

	memcpy(page, &elf, sizeof(elf));
	memcpy(page + sizeof(elf), headers, elf.e_phnum * sizeof(*headers));
}

static struct library *library_of(size_t index)
{
	return (struct library *)(void *)(made.data + LIST - DATA) + index;
}

/*
 * A program with a library in the linker's list, and another one that is in no list but has a name.
 * Code is not in the core.
 */
static void make(void)
{
	const uint64_t vector[] = { AT_PHDR,   PROGRAM + 64, AT_EXECFN, NAMES,
				    AT_PAGESZ, PAGE,         AT_NULL,   0 };
	const Elf64_Dyn dynamic[] = { { DT_DEBUG, { DEBUG } }, { DT_NULL, { 0 } } };
	const Elf64_Dyn named[] = { { DT_STRTAB, { 0x600 } }, { DT_SONAME, { 1 } }, { 0 } };
	const uint64_t debug[] = { 1, LIST };

	made.fd = memfd_create("core", MFD_CLOEXEC);
	assert_true(made.fd >= 0);
	made.end = BEGIN;
	made.count = 0;
	made.name = "program";
	memset(made.vector, 0, sizeof(made.vector));
	memcpy(made.vector, vector, sizeof(vector));
	memset(made.program, 0, (size_t)(made.stack + PAGE - made.program));
	put_image(made.program, DYNAMIC - PROGRAM);
	put_image(made.library, 0x500);
	put_image(made.other, 0x500);
	memcpy(made.other + 0x500, named, sizeof(named));
	strcpy((char *)made.other + 0x601, "libother.so.1");
	memcpy(made.data + DYNAMIC - DATA, dynamic, sizeof(dynamic));
	memcpy(made.data + DEBUG - DATA, debug, sizeof(debug));
	*library_of(0) = (struct library){ PROGRAM, 0, DYNAMIC, LIST + 40, 0 };
	*library_of(1) = (struct library){ LIBRARY, NAMES + 32, LIBRARY + 0x500, 0, LIST };
	strcpy((char *)made.data + NAMES - DATA, "/bin/program");
	strcpy((char *)made.data + NAMES - DATA + 32, "/lib/liblisted.so.1");
}

static void add_all(bool with_headers)
{
	if (with_headers) {
		add_page(PROGRAM, made.program, PF_R);
		add_page(LIBRARY, made.library, PF_R);
		add_page(OTHER, made.other, PF_R);
	}
	add_page(DATA, made.data, PF_R | PF_W);
	add_page(STACK, made.stack, PF_R | PF_W);
}

/* Reads the core and closes it. Whatever it says, the capture is sound. */
static void read_made(struct snap_core *core)
{
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	_cleanup_fd_ int fd = memfd_create("capture", MFD_CLOEXEC), core_fd = made.fd;
	struct snap_core_memory memory;

	finish();
	snap_options_init(&options);
	options.max_snapshot = 4 << 20;
	assert_null(snap_core_parse(core_fd, core));
	memory = snap_core_memory_of(core, core_fd);
	assert_null(snap_core_fill(core, &memory, &options, NULL));
	assert_null(snap_capture_write(core->capture, fd));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(snap_capture_read(fd, &back));
}

static const char *path_at(const struct snap_core *core, uint64_t address)
{
	const struct snap_map *map = snap_process_map(core->capture->processes, address);

	return map && map->inode ? map->path : NULL;
}

static void test_memory_tells(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	const struct snap_map *map;

	(void)state;
	make();
	add_all(true);
	read_made(&core);
	assert_string_equal(core.capture->processes->exe, "/bin/program");
	assert_string_equal(path_at(&core, PROGRAM), "/bin/program");
	assert_string_equal(path_at(&core, DATA), "/bin/program");
	assert_string_equal(path_at(&core, LIBRARY), "/lib/liblisted.so.1");
	assert_string_equal(path_at(&core, OTHER), "/libother.so.1");
	assert_null(path_at(&core, STACK));
	map = snap_process_map(core.capture->processes, PROGRAM + 2 * PAGE);
	assert_true(map->execute && !map->write);
	assert_int_equal(map->offset + PROGRAM + 2 * PAGE - map->start, 2 * PAGE);
	assert_int_equal(core.capture->warning_count, 0);
}

/* Files that are only read are no modules, nor are those of another machine. */
static void test_no_modules(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static uint8_t code[PAGE];

	(void)state;
	make();
	made.library[offsetof(Elf64_Ehdr, e_machine)] = EM_AARCH64;
	add_all(true);
	add_page(OTHER + PAGE, code, PF_R);
	read_made(&core);
	assert_string_equal(path_at(&core, PROGRAM), "/bin/program");
	assert_null(path_at(&core, OTHER));
	/* It is in the list, so it is one without a header that fits. */
	assert_string_equal(path_at(&core, LIBRARY), "/lib/liblisted.so.1");
}

/* The list is found by a tag; a gap in the program is its code. */
static void test_no_headers(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

	(void)state;
	make();
	add_all(false);
	add_page(LIBRARY + 3 * PAGE, made.stack, PF_R | PF_W);
	library_of(1)->dynamic = LIBRARY + 3 * PAGE;
	write_at(BEGIN, made.data, PAGE);
	read_made(&core);
	assert_string_equal(core.capture->processes->exe, "/bin/program");
	assert_string_equal(path_at(&core, PROGRAM + PAGE), "/bin/program");
	assert_int_equal(snap_process_map(core.capture->processes, PROGRAM)->start, PROGRAM);
	assert_string_equal(path_at(&core, DATA), "/bin/program");
	assert_string_equal(path_at(&core, LIBRARY + PAGE), "/lib/liblisted.so.1");
	assert_null(path_at(&core, OTHER));
	assert_null(path_at(&core, STACK));
}

/* How it was started, or else its short name; then the caller may say where it is. */
static void test_program(void **state)
{
	static const struct {
		const char *started, *name, *exe, *path;
	} cases[] = {
		{ "./folder/started", "short", "started", "/started" },
		{ "", "short", "short", "/short" },
		{ "", "", "program", "/program" },
		{ "", "a/b", "b", "/b" },
		{ "folder/", "short", "folder/", "/folder/" },
	};

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
		const struct snap_process *process;

		make();
		strcpy((char *)made.data + NAMES - DATA, cases[i].started);
		made.name = cases[i].name;
		add_all(true);
		read_made(&core);
		process = core.capture->processes;
		assert_string_equal(process->exe, cases[i].exe);
		assert_string_equal(path_at(&core, PROGRAM), cases[i].path);
		assert_string_equal(path_at(&core, LIBRARY), "/lib/liblisted.so.1");
		assert_null(snap_core_set_program(&core, "/elsewhere/program"));
		assert_string_equal(process->exe, "/elsewhere/program");
		assert_string_equal(path_at(&core, DATA), "/elsewhere/program");
		assert_true(snap_process_map(process, PROGRAM)->is_callers);
		assert_false(snap_process_map(process, LIBRARY)->is_callers);
	}
}

/* Each number of a header, of a dynamic section and of the list, one after the other. */
static void test_lies(void **state)
{
	static const uint64_t values[] = {
		0, 1, 63, 64, 65, 0xfff, 0xffff, DATA - 1, INT64_MAX, UINT64_MAX - PAGE, UINT64_MAX
	};
	uint8_t *const begins[] = { made.program, made.library, made.data + (DYNAMIC - DATA),
				    made.data + (DEBUG - DATA), made.data + (LIST - DATA) };
	const size_t sizes[] = { 64 + 4 * 56, 64 + 4 * 56, 32, 16, 80 };

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(begins); i++)
		for (size_t at = 0; at < sizes[i] * SNAP_ARRAY_SIZE(values); at += 13) {
			_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
			size_t size = at % 2 ? 8 : 2, to = at / SNAP_ARRAY_SIZE(values);

			make();
			memcpy(begins[i] + to / size * size, &values[at % SNAP_ARRAY_SIZE(values)],
			       size);
			add_all(i % 2 == 0 || at % 4);
			read_made(&core);
		}
}

/* The size of pages is no number that the processor knows: it is 4096 then. */
static void test_pages(void **state)
{
	static const uint64_t pages[] = { 0, 1, 3, 4095, 4097, 1 << 20, UINT64_MAX };

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(pages); i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

		make();
		made.vector[5] = pages[i];
		add_all(true);
		read_made(&core);
		assert_string_equal(path_at(&core, LIBRARY), "/lib/liblisted.so.1");
		assert_int_equal(snap_process_map(core.capture->processes, DATA)->offset, 3 * PAGE);
	}
}

/* A list that leads back into itself, and one whose entries have no images. */
static void test_circles(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

		make();
		library_of(1)->next = i & 1 ? LIST : LIST + 40;
		if (i & 2)
			library_of(1)->dynamic = STACK;
		if (i & 4)
			library_of(1)->name = UINT64_MAX - 1;
		add_all(true);
		read_made(&core);
		assert_string_equal(path_at(&core, PROGRAM), "/bin/program");
		assert_non_null(path_at(&core, LIBRARY));
	}
}

/* A text goes on to the end of memory, or is longer than any path. */
static void test_endless_texts(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static uint8_t text[2 * PAGE];

	(void)state;
	make();
	memset(text, '/', sizeof(text));
	made.vector[3] = STACK + 16;
	library_of(1)->name = STACK + PAGE + 16;
	memset(made.other + 0x601, 'x', PAGE - 0x601);
	memcpy(made.stack, text, PAGE);
	add_all(true);
	add_page(STACK + PAGE, text, PF_R | PF_W);
	add_page(STACK + 2 * PAGE, text, PF_R | PF_W);
	read_made(&core);
	assert_string_equal(core.capture->processes->exe, "program");
	assert_string_equal(path_at(&core, LIBRARY), "/ELF-700000");
	assert_string_equal(path_at(&core, OTHER), "/ELF-800000");
}

/* Nothing but notes; and a header at each of so many places that they are counted elsewhere. */
static void test_segments(void **state)
{
	uint8_t page[PAGE] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
		size_t count = i ? PN_XNUM - 1 : 0;
		Elf64_Phdr *headers = (Elf64_Phdr *)(void *)(page + sizeof(Elf64_Ehdr));

		make();
		put_image(page, i == 2 ? 0 : 0x700);
		/* In the last round the code of each is data: none counts. */
		if (i == 3)
			headers[1].p_vaddr = headers[1].p_offset = 0;
		write_at(made.end, page, PAGE);
		for (size_t k = 0; k < count; k++)
			add_header(PROGRAM + k * 16 * PAGE, PAGE, PAGE, made.end, PF_R);
		made.end += PAGE;
		made.vector[3] = 0;
		read_made(&core);
		assert_int_equal(core.segment_count, count);
		if (i == 0) {
			assert_null(core.capture->processes->exe);
			continue;
		}
		assert_string_equal(path_at(&core, PROGRAM), "/program");
		/* Of the program it is known that it was loaded. */
		assert_true(!path_at(&core, PROGRAM + 16 * PAGE) == (i == 3));
	}
}

static uint32_t next_image_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void test_image_mutants(void **state)
{
	uint32_t seed = 3;

	(void)state;
	for (unsigned i = 0; i < MUTANTS; i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

		make();
		for (unsigned k = next_image_random(&seed) % 12 + 1; k > 0; k--) {
			uint8_t *const pages[] = { made.program, made.data, made.library,
						   made.other, made.data + 0x100 };
			uint8_t *page = pages[next_image_random(&seed) % 5];
			uint32_t value = next_image_random(&seed);

			page[next_image_random(&seed) % 0x400] = value % 3   ? (uint8_t)(value >> 8)
								 : value % 2 ? 0xff
									     : 0;
		}
		add_all(next_image_random(&seed) % 4);
		read_made(&core);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_tells), cmocka_unit_test(test_no_modules),
		cmocka_unit_test(test_no_headers),   cmocka_unit_test(test_program),
		cmocka_unit_test(test_lies),         cmocka_unit_test(test_pages),
		cmocka_unit_test(test_circles),      cmocka_unit_test(test_endless_texts),
		cmocka_unit_test(test_segments),     cmocka_unit_test(test_image_mutants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
