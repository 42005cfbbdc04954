/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Modules: mappings made by hand over real files, and a finder that offers what a test wants. */
#include "analyze/elf/module.h"
#include "skip.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

enum { PAGE = 4096, MAX_MAPS = 16 };

/* What the finder offers, attempt by attempt; "" refuses. */
struct offers {
	const char *paths[4];
	unsigned asked;
};

static struct stacksnap_error *find(void *context, const struct snap_file_request *request,
				    int *fd_ret)
{
	struct offers *offers = context;
	const char *path = request->attempt < 4 ? offers->paths[request->attempt] : NULL;

	offers->asked++;
	assert_int_equal(request->kind, SNAP_FILE_MODULE);
	if (!path)
		return snap_error_not_found();
	if (!*path)
		return snap_error_format(SNAP_ERROR_PERMISSION, "not allowed");
	*fd_ret = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(*fd_ret >= 0);
	return NULL;
}

struct bed {
	struct snap_arena arena;
	struct offers offers;
	struct snap_module_set *set;
	struct snap_map maps[MAX_MAPS];
	struct snap_piece pieces[4];
	struct snap_process process;
	uint8_t head[PAGE]; /* of the fixture */
	struct stat status;
	struct snap_image *image; /* the fixture */
};

static void bed_open(struct bed *bed)
{
	struct snap_file_finder finder = { .find = find, .context = &bed->offers };
	int fd = open(getenv("IMAGE_PLAIN"), O_RDONLY | O_CLOEXEC);

	memset(bed, 0, sizeof(*bed));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &bed->status), 0);
	assert_int_equal(pread(fd, bed->head, PAGE, 0), PAGE);
	assert_null(snap_image_open(fd, &bed->image));
	close(fd);
	bed->process.maps = bed->maps;
	bed->process.pieces = bed->pieces;
	bed->offers.paths[0] = getenv("IMAGE_PLAIN");
	assert_null(snap_module_set_create(&finder, &bed->arena, &bed->set));
}

static void bed_close(struct bed *bed)
{
	snap_module_set_destroy(bed->set);
	snap_image_close(bed->image);
	snap_arena_deinit(&bed->arena);
}

static struct snap_map *add_map(struct bed *bed, uint64_t start, uint64_t pages, uint64_t offset,
				const char *mode, const char *path)
{
	struct snap_map *map = &bed->maps[bed->process.map_count++];

	assert_true(bed->process.map_count <= MAX_MAPS);
	*map = (struct snap_map){ .start = start,
				  .end = start + pages * PAGE,
				  .offset = offset,
				  .read = mode[0] == 'r',
				  .write = mode[1] == 'w',
				  .execute = mode[2] == 'x',
				  .path = path };
	if (path && path[0] == '/') {
		map->inode = bed->status.st_ino;
		map->dev_major = major(bed->status.st_dev);
		map->dev_minor = minor(bed->status.st_dev);
	}
	return map;
}

static void add_piece(struct bed *bed, uint64_t address, const void *data, size_t size)
{
	bed->pieces[bed->process.piece_count++] =
		(struct snap_piece){ .address = address, .data = data, .size = size };
}

static struct snap_modules *create(struct bed *bed)
{
	struct snap_modules *modules;

	assert_null(snap_modules_create(bed->set, &bed->process, &modules));
	return modules;
}

static void test_runs_of_maps(void **unused)
{
	struct snap_modules *modules;
	struct snap_module *list;
	struct bed bed;
	size_t count;

	(void)unused;
	bed_open(&bed);
	add_map(&bed, 0x10000, 1, 0, "r--", "/a");
	add_map(&bed, 0x11000, 1, PAGE, "r-x", "/a");
	add_map(&bed, 0x13000, 1, 2 * PAGE, "rw-", "/a"); /* behind a hole */
	add_map(&bed, 0x14000, 1, 0, "rw-", NULL);        /* bss */
	add_map(&bed, 0x15000, 1, 0, "r--", "/a");        /* another copy */
	add_map(&bed, 0x16000, 1, PAGE, "r-x", "/a");
	add_map(&bed, 0x17000, 1, 0, "r-x", NULL); /* JIT code */
	add_map(&bed, 0x18000, 1, 2 * PAGE, "rw-", "/a");
	add_map(&bed, 0x19000, 1, 0, "rw-", "[heap]");
	add_map(&bed, 0x20000, 1, 0, "r-x", "/b");
	add_map(&bed, 0x21000, 1, 0, "rw-", "/b"); /* a program smaller than a page */
	modules = create(&bed);
	list = snap_modules_list(modules, &count);
	assert_int_equal(count, 4);
	assert_int_equal(list[0].start, 0x10000);
	assert_int_equal(list[0].end, 0x14000);
	assert_int_equal(list[0].map_count, 3);
	assert_int_equal(list[1].start, 0x15000);
	assert_int_equal(list[1].end, 0x19000);
	assert_int_equal(list[2].kind, SNAP_MODULE_ANON);
	assert_null(list[2].file);
	assert_ptr_equal(list[0].file, list[1].file);
	assert_string_equal(list[3].path, "/b");
	assert_int_equal(list[3].end, 0x22000);
	assert_int_equal(snap_module_set_count(bed.set), 2);
	assert_ptr_equal(snap_modules_find(modules, 0x11fff), &list[0]);
	assert_null(snap_modules_find(modules, 0x12000)); /* the hole */
	assert_null(snap_modules_find(modules, 0x14000));
	assert_int_equal(bed.offers.asked, 0);
	/* Memory that can be run may be code of /a that was moved: there is no such file. */
	assert_ptr_equal(snap_modules_find(modules, 0x17000), &list[2]);
	assert_int_equal(bed.offers.asked, 1);
	assert_ptr_equal(snap_modules_find(modules, 0x18000), &list[1]);
	assert_null(snap_modules_find(modules, 0));
	assert_null(snap_modules_find(modules, UINT64_MAX));
	bed_close(&bed);
}

/* The fixture as a loader maps it at `base`. */
static void map_fixture(struct bed *bed, uint64_t base, bool with_head)
{
	static const char *const modes[] = {
		"---", "--x", "-w-", "-wx", "r--", "r-x", "rw-", "rwx"
	};
	const Elf64_Ehdr *header = (const void *)bed->head;
	const Elf64_Phdr *segment = (const void *)(bed->head + header->e_phoff);

	for (size_t i = 0; i < header->e_phnum; i++, segment++) {
		uint64_t end = segment->p_vaddr + segment->p_memsz, start;

		if (segment->p_type != PT_LOAD)
			continue;
		start = segment->p_vaddr & ~(PAGE - 1ull);
		add_map(bed, base + start, (end - start + PAGE - 1) / PAGE,
			segment->p_offset & ~(PAGE - 1ull), modes[segment->p_flags & 7],
			getenv("IMAGE_PLAIN"));
	}
	if (with_head)
		add_piece(bed, base, bed->head, PAGE);
}

static void test_opens_and_checks(void **unused)
{
	struct snap_modules *modules;
	struct snap_module *module;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, 0x7f0000000000, true);
	modules = create(&bed);
	module = snap_modules_find(modules, 0x7f0000000000);
	assert_int_equal(module->file->build_id_size, 20);
	assert_int_equal(strlen(module->file->build_id_hex), 40);
	assert_null(module->file->image);
	assert_int_equal(bed.offers.asked, 0);
	assert_true(snap_module_open(bed.set, module));
	assert_int_equal(module->bias, 0x7f0000000000);
	assert_non_null(module->file->image);
	assert_null(module->file->trouble);
	assert_true(snap_module_open(bed.set, module));
	assert_int_equal(bed.offers.asked, 1);
	bed_close(&bed);
}

static void test_one_file_for_many_processes(void **unused)
{
	struct snap_process second;
	struct snap_modules *first_modules, *second_modules;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, 0x7f0000000000, true);
	first_modules = create(&bed);
	second = bed.process;
	assert_null(snap_modules_create(bed.set, &second, &second_modules));
	assert_int_equal(snap_module_set_count(bed.set), 1);
	assert_ptr_equal(snap_modules_find(first_modules, 0x7f0000000000)->file,
			 snap_modules_find(second_modules, 0x7f0000000000)->file);
	/* The same path with another file behind it is another one. */
	bed.head[snap_image_build_id_of_head(bed.head, PAGE).data - bed.head] ^= 1;
	assert_null(snap_modules_create(bed.set, &second, &second_modules));
	assert_int_equal(snap_module_set_count(bed.set), 2);
	bed_close(&bed);
}

/* Opens the one module; `trouble` NULL: it must be taken. */
static void check_open(struct bed *bed, const char *trouble)
{
	struct snap_module *module = snap_modules_find(create(bed), bed->maps[0].start);

	assert_int_equal(snap_module_open(bed->set, module), trouble == NULL);
	if (trouble)
		assert_string_equal(module->file->trouble, trouble);
	else
		assert_null(module->file->trouble);
	/* Asked once, whatever came of it. */
	bed->offers.asked = 0;
	assert_int_equal(snap_module_open(bed->set, module), trouble == NULL);
	assert_int_equal(bed->offers.asked, 0);
}

static void test_candidates(void **unused)
{
	static const char other_id[] = "the build id of the file differs from that of the mapping";
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, 0x10000000, true);
	bed.offers = (struct offers){ .paths = { NULL } };
	check_open(&bed, "the file cannot be found");
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, true);
	bed.offers = (struct offers){ .paths = { "" } };
	check_open(&bed, "not allowed");
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, true);
	bed.offers =
		(struct offers){ .paths = { "", getenv("OTHER_FILE"), getenv("IMAGE_PLAIN") } };
	check_open(&bed, NULL);
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, true);
	bed.offers = (struct offers){ .paths = { "", getenv("OTHER_FILE") } };
	check_open(&bed, other_id);
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, true);
	bed.offers = (struct offers){ .paths = { "/etc/passwd" } };
	check_open(&bed, "not an ELF file");
	bed_close(&bed);
}

/* Without a captured build id: by device and inode. */
static void test_identity_without_build_id(void **unused)
{
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, 0x10000000, false);
	check_open(&bed, NULL);
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, false);
	bed.offers.paths[0] = getenv("OTHER_FILE");
	check_open(&bed, "the file is not the mapped one (no build id)");
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, 0x10000000, false);
	for (size_t i = 0; i < bed.process.map_count; i++)
		bed.maps[i].dev_minor++;
	check_open(&bed, "the file is not on the device of the mapping (no build id)");
	bed_close(&bed);
}

/* A copy inside the capture lies in no file system: its bytes are what says that it was mapped. */
static void test_embedded_copy(void **unused)
{
	struct snap_embedded embedded = { .kind = SNAP_FILE_MODULE };
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, 0x10000000, false);
	for (size_t i = 0; i < bed.process.map_count; i++)
		bed.maps[i].inode = 999999999;
	embedded.data = snap_image_bytes(bed.image).data;
	embedded.size = snap_image_bytes(bed.image).size;
	bed.process.embedded = &embedded;
	bed.process.embedded_count = 1;
	check_open(&bed, NULL);
	bed_close(&bed);
}

/* The fixture's one module, which must not open; whether its bias is known all the same. */
static bool bias_without_image(struct bed *bed, uint64_t *ret)
{
	struct snap_module *module = snap_modules_find(create(bed), bed->maps[0].start);

	assert_false(module->has_bias);
	assert_false(snap_module_open(bed->set, module));
	assert_false(module->usable);
	assert_null(module->file->image);
	assert_non_null(module->file->trouble);
	*ret = module->bias;
	return module->has_bias;
}

/* What is captured of a file says where it was mapped, whatever lies at its path by now. */
static void test_bias_without_image(void **unused)
{
	const uint64_t base = 0x7f0000000000;
	uint64_t bias, word;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, base, true);
	bed.offers = (struct offers){ .paths = { NULL } };
	assert_true(bias_without_image(&bed, &bias));
	assert_int_equal(bias, base);
	/* No image: nothing to be read behind the captured page. */
	assert_false(snap_modules_read(create(&bed), base + 2ull * PAGE, &word, sizeof(word)));
	bed_close(&bed);

	bed_open(&bed);
	map_fixture(&bed, base, true);
	bed.offers = (struct offers){ .paths = { getenv("OTHER_FILE") } };
	assert_true(bias_without_image(&bed, &bias));
	assert_int_equal(bias, base);
	bed_close(&bed);

	/* Not captured. */
	bed_open(&bed);
	map_fixture(&bed, base, false);
	bed.offers = (struct offers){ .paths = { NULL } };
	assert_false(bias_without_image(&bed, &bias));
	bed_close(&bed);
}

/* A program at fixed addresses, whose segments' addresses are not their offsets in the file. */
static void test_bias_of_fixed_program(void **unused)
{
	const uint64_t base = 0x400000;
	Elf64_Ehdr *header;
	Elf64_Phdr *segment;
	struct bed bed;
	uint64_t bias;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, base, true);
	header = (void *)bed.head;
	segment = (void *)(bed.head + header->e_phoff);
	header->e_type = ET_EXEC;
	for (size_t i = 0; i < header->e_phnum; i++)
		segment[i].p_vaddr += base;
	bed.offers = (struct offers){ .paths = { NULL } };
	assert_true(bias_without_image(&bed, &bias));
	assert_int_equal(bias, 0);
	bed_close(&bed);
}

/* Any part of a hostile head is wrong: no bias, and no byte is read behind it. */
static void test_bias_of_hostile_head(void **unused)
{
	enum { START = 0x10000000 };
	Elf64_Ehdr header, good;
	size_t needed;
	struct bed bed;
	uint64_t bias;
	uint8_t *head;

	(void)unused;
	bed_open(&bed);
	memcpy(&good, bed.head, sizeof(good));
	needed = good.e_phoff + good.e_phnum * sizeof(Elf64_Phdr);
	assert_true(snap_image_bias_of_head(bed.head, needed, START, 0, &bias));
	assert_int_equal(bias, START);
	assert_false(snap_image_bias_of_head(bed.head, needed, START, 1ull << 40, &bias));
	/* Cut anywhere, at an odd address, in memory that ends there. */
	for (size_t size = 0; size <= needed; size++) {
		head = malloc(size + 1);
		assert_non_null(head);
		memcpy(head + 1, bed.head, size);
		assert_int_equal(snap_image_bias_of_head(head + 1, size, START, 0, &bias),
				 size == needed);
		free(head);
	}
	for (int fault = 0; fault < 7; fault++) {
		header = good;
		if (fault == 0)
			header.e_ident[0] = 0;
		else if (fault == 1)
			header.e_ident[EI_CLASS] = ELFCLASS32;
		else if (fault == 2)
			header.e_ident[EI_DATA] = ELFDATA2MSB;
		else if (fault == 3)
			header.e_phentsize = 32;
		else if (fault == 4)
			header.e_phnum = PN_XNUM;
		else if (fault == 5)
			header.e_phoff = UINT64_MAX - 8;
		else
			header.e_phnum = 0;
		memcpy(bed.head, &header, sizeof(header));
		assert_false(snap_image_bias_of_head(bed.head, PAGE, START, 0, &bias));
		assert_int_equal(snap_image_build_id_of_head(bed.head, PAGE).size, 0);
	}
	bed_close(&bed);
}

static void test_vdso(void **unused)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct snap_module *module;
	struct bed bed;

	(void)unused;
	if (!vdso)
		skip_because("kernel: no vDSO is mapped");
	bed_open(&bed);
	add_map(&bed, 0x7ffff7fc0000, 2, 0, "r-x", "[vdso]");
	add_piece(&bed, 0x7ffff7fc0000, vdso, PAGE);
	module = snap_modules_find(create(&bed), 0x7ffff7fc0800);
	assert_int_equal(module->kind, SNAP_MODULE_VDSO);
	assert_string_equal(module->path, "[vdso]");
	assert_true(snap_module_open(bed.set, module));
	assert_int_equal(module->bias, 0x7ffff7fc0000);
	assert_int_equal(bed.offers.asked, 0);
	bed_close(&bed);

	bed_open(&bed);
	add_map(&bed, 0x7ffff7fc0000, 2, 0, "r-x", "[vdso]");
	check_open(&bed, "the vDSO was not captured");
	bed_close(&bed);
}

static void test_reads_constant_bytes_alone(void **unused)
{
	const uint64_t base = 0x10000000;
	struct snap_modules *modules;
	struct bed bed;
	uint64_t vaddr, word, expected;
	uint8_t byte;

	(void)unused;
	bed_open(&bed);
	map_fixture(&bed, base, true);
	modules = create(&bed);
	assert_true(snap_image_section_address(bed.image, ".text", &vaddr));
	memcpy(&expected, snap_image_at(bed.image, vaddr).data, sizeof(expected));
	assert_true(snap_modules_read(modules, base + vaddr, &word, sizeof(word)));
	assert_int_equal(word, expected);
	/* The captured page is memory itself, and may be read where it ends. */
	assert_true(snap_modules_read(modules, base + PAGE - 1, &byte, 1));
	assert_true(snap_image_section_address(bed.image, ".data", &vaddr));
	assert_false(snap_modules_read(modules, base + vaddr, &word, sizeof(word)));
	/* Made read-only after relocation: the file has other bytes. */
	for (size_t i = 0; i < bed.process.map_count; i++)
		bed.maps[i].write = false;
	assert_true(snap_image_section_address(bed.image, ".dynamic", &vaddr));
	assert_false(snap_modules_read(modules, base + vaddr, &word, sizeof(word)));
	assert_false(snap_modules_read(modules, 0, &word, sizeof(word)));
	assert_false(snap_modules_read(modules, UINT64_MAX - 3, &word, sizeof(word)));
	bed_close(&bed);
}

/* Code at its file's addresses is the file's, wherever its bytes lie; other code beside it is not. */
static void test_moved_code(void **unused)
{
	const uint64_t base = 0x7f0000000000;
	const char *const places[] = { NULL, "/memfd:text (deleted)", "/anon_hugepage (deleted)" };

	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(places); i++) {
		struct snap_modules *modules;
		struct snap_map *code, *last;
		struct bed bed;

		bed_open(&bed);
		map_fixture(&bed, base, true);
		for (code = bed.maps; !code->execute; code++)
			;
		code->path = places[i];
		code->inode = places[i] ? 77 : 0;
		code->offset = 0;
		last = &bed.maps[bed.process.map_count - 1];
		add_map(&bed, last->end, 1, 0, "r-x", NULL);
		modules = create(&bed);
		assert_ptr_equal(snap_modules_find(modules, code->start),
				 snap_modules_find(modules, base));
		assert_int_equal(snap_modules_find(modules, code->start)->bias, base);
		assert_ptr_equal(snap_modules_find(modules, last->start),
				 snap_modules_find(modules, base));
		assert_int_equal(snap_modules_find(modules, last->end)->kind, SNAP_MODULE_ANON);
		bed_close(&bed);
	}
}

/* Some hundreds of files: the table of the set grows, and each is still found. */
static void test_many_files(void **unused)
{
	struct snap_modules *first, *again;
	static char names[500][16];
	static struct snap_map maps[500];
	struct snap_process process = { .maps = maps, .map_count = 500 };
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	for (size_t i = 0; i < 500; i++) {
		snprintf(names[i], sizeof(names[i]), "/lib%zu.so", i);
		maps[i] = (struct snap_map){ .start = (i + 1) * PAGE,
					     .end = (i + 2) * PAGE,
					     .read = true,
					     .execute = true,
					     .inode = 1 + i,
					     .path = names[i] };
	}
	assert_null(snap_modules_create(bed.set, &process, &first));
	assert_null(snap_modules_create(bed.set, &process, &again));
	assert_int_equal(snap_module_set_count(bed.set), 500);
	for (size_t i = 0; i < 500; i++) {
		struct snap_module *module = snap_modules_find(first, maps[i].start);

		assert_string_equal(module->path, names[i]);
		assert_int_equal(module->file->index, i);
		assert_ptr_equal(module->file, snap_module_set_file(bed.set, i));
		assert_ptr_equal(module->file, snap_modules_find(again, maps[i].start)->file);
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_runs_of_maps),
		cmocka_unit_test(test_opens_and_checks),
		cmocka_unit_test(test_one_file_for_many_processes),
		cmocka_unit_test(test_candidates),
		cmocka_unit_test(test_identity_without_build_id),
		cmocka_unit_test(test_embedded_copy),
		cmocka_unit_test(test_bias_without_image),
		cmocka_unit_test(test_bias_of_fixed_program),
		cmocka_unit_test(test_bias_of_hostile_head),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_reads_constant_bytes_alone),
		cmocka_unit_test(test_moved_code),
		cmocka_unit_test(test_many_files),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
