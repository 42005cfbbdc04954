/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind information that somebody damaged: whatever is in .eh_frame and .eh_frame_hdr, every
 * thread gets an answer, from both engines. A build with sanitizers is the verdict.
 */
#include "analyze/unwind/cfi_check.h"
#include "unwind_bed.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static struct stacksnap_error *find_in_memory(void *context,
					      const struct snap_file_request *request, int *fd_ret)
{
	if (request->attempt > 0 || request->kind != SNAP_FILE_MODULE)
		return snap_error_not_found();
	*fd_ret = dup(*(int *)context);
	assert_true(*fd_ret >= 0);
	return NULL;
}

/* A copy of the fixture with some bytes of a section changed. */
static int mutate(const struct bed *bed, const char *section, uint64_t *state)
{
	static const uint8_t values[] = { 0, 1, 0x0c, 0x1b, 0x2f, 0x3b, 0x7f, 0x80, 0xfe, 0xff };
	struct snap_bytes whole = snap_image_bytes(bed->image);
	struct snap_bytes bytes = snap_image_section(bed->image, section);
	int fd = memfd_create("mutated", MFD_CLOEXEC);
	uint64_t count = 1 + next_random(state) % 6;

	assert_true(fd >= 0 && bytes.size > 0);
	assert_int_equal(write(fd, whole.data, whole.size), whole.size);
	while (count--) {
		off_t at = bytes.data - whole.data + (off_t)(next_random(state) % bytes.size);
		uint8_t value = next_random(state) % 2 ? values[next_random(state) % sizeof(values)]
						       : (uint8_t)next_random(state);

		assert_int_equal(pwrite(fd, &value, 1, at), 1);
	}
	return fd;
}

static void unwind_all(struct bed *bed, enum snap_engine engine)
{
	static const char *const functions[] = { "simple",           "by_fp",       "outermost",
						 "by_expression",    "by_branch",   "by_location",
						 "far_away",         "stuck",       "endless",
						 "described_return", "bare_return", "no_sense",
						 "underflow",        "in_register", "bare" };

	bed->options.engine = engine;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(functions); i++) {
		uint64_t at = inside(bed, functions[i]);

		begins_in(bed, at);
		bed->registers[FP_WORD] = stack_at + 64;
		for (size_t k = 0; k < 64; k++)
			bed->stack[k] = k % 3 ? at : stack_at + 8 * (k + 5);
		unwind(bed);
		assert_true(bed->pcs.count > 0);
		assert_int_equal(snap_pc_address(bed->pcs.pcs[0]), at);
	}
}

static void check_section(const char *section)
{
	enum { ROUNDS = 200 };
	uint64_t state = 7;

	for (int round = 0; round < ROUNDS; round++) {
		struct snap_file_finder finder = { .find = find_in_memory };
		struct bed bed;
		int fd;

		bed_open(&bed);
		snap_unwinder_destroy(bed.unwinder);
		snap_module_set_destroy(bed.set);
		fd = mutate(&bed, section, &state);
		finder.context = &fd;
		bed.options.max_frames = 512;
		/* The same file by its embedded bytes: a memfd has another inode. */
		bed_add_head(&bed);
		assert_null(snap_module_set_create(&finder, &bed.arena, &bed.set));
		assert_null(snap_modules_create(bed.set, &bed.process, &bed.modules));
		assert_null(snap_unwinder_create(bed.set, &bed.options, &bed.unwinder));
		assert_null(snap_unwinder_enter(bed.unwinder, &bed.process, bed.modules));
		assert_true(snap_module_open(bed.set, snap_modules_find(bed.modules, code_at)));
		unwind_all(&bed, SNAP_ENGINE_AUTO);
		unwind_all(&bed, SNAP_ENGINE_LIBUNWIND);
		bed_close(&bed);
		close(fd);
	}
}

static void test_eh_frame(void **unused)
{
	(void)unused;
	check_section(".eh_frame");
}

static void test_search_table(void **unused)
{
	(void)unused;
	check_section(".eh_frame_hdr");
}

/*
 * Programs for which libdw would take half a gigabyte and more, an address each, and libunwind on
 * aarch64 66 MB, as a state takes a kilobyte there.
 */
/* The header of the section that lies at a place of the file. */
static Elf64_Shdr *header_of_section(uint8_t *file, struct snap_image *image, const char *name)
{
	Elf64_Shdr *headers = (Elf64_Shdr *)(file + ((Elf64_Ehdr *)file)->e_shoff);

	return &headers[snap_image_section_at_offset(
		image,
		(uint64_t)(snap_image_section(image, name).data - snap_image_bytes(image).data))];
}

static bool is_bounded(const uint8_t *file, size_t size)
{
	struct snap_image *image;
	bool ret;

	assert_null(snap_image_open_memory(file, size, &image));
	ret = snap_cfi_is_bounded(image, ".eh_frame");
	snap_image_close(image);
	return ret;
}

/* libdw takes the last header before .eh_frame, and does not unpack: that is not what is checked. */
static void test_sections_that_libdw_reads_in_another_way(void **unused)
{
	struct bed bed;
	struct snap_bytes whole;
	Elf64_Shdr *header, *frames, before;
	uint8_t *file;

	(void)unused;
	bed_open(&bed);
	whole = snap_image_bytes(bed.image);
	file = malloc(whole.size);
	assert_non_null(file);
	memcpy(file, whole.data, whole.size);
	header = header_of_section(file, bed.image, ".eh_frame_hdr");
	frames = header_of_section(file, bed.image, ".eh_frame");
	assert_true(header + 1 == frames && is_bounded(file, whole.size));
	frames->sh_flags |= SHF_COMPRESSED;
	assert_false(is_bounded(file, whole.size));
	frames->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
	before = header[-1];
	header[-1] = *header;
	header->sh_addr = before.sh_addr;
	header->sh_offset = before.sh_offset;
	header->sh_size = before.sh_size;
	assert_false(is_bounded(file, whole.size));
	free(file);
	bed_close(&bed);
}

/* What is written to hide a header may not bring it back, nor change what was checked. */
static void test_tables_that_overlap(void **unused)
{
	uint64_t vaddr, offset;
	struct snap_bytes whole;
	struct snap_image *image;
	Elf64_Ehdr header;
	struct bed bed;
	int fd = memfd_create("overlapping", MFD_CLOEXEC);

	(void)unused;
	bed_open(&bed);
	whole = snap_image_bytes(bed.image);
	memcpy(&header, whole.data, sizeof(header));
	header.e_shoff = header.e_phoff + sizeof(Elf64_Phdr) / 2;
	header.e_shnum = 2;
	header.e_shstrndx = 0;
	assert_int_equal(write(fd, whole.data, whole.size), whole.size);
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	assert_null(snap_image_open(fd, &image));
	snap_image_hide(image, ".eh_frame_hdr", PT_GNU_EH_FRAME);
	assert_true(snap_image_segment(image, PT_GNU_EH_FRAME, &vaddr, &offset));
	snap_image_close(image);
	close(fd);
	bed_close(&bed);
}

static void test_memory_of_programs(void **unused)
{
	static const char *const functions[] = { "many_registers", "many_states" };
	struct rusage before, after;
	struct bed bed;

	(void)unused;
	bed_open(&bed);
	assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
	for (size_t i = 0; i < 2 * SNAP_ARRAY_SIZE(functions); i++) {
		bed.options.engine = i % 2 ? SNAP_ENGINE_LIBUNWIND : SNAP_ENGINE_AUTO;
		begins_in(&bed, inside(&bed, functions[i / 2]));
		unwind(&bed);
		CHECK_PCS(&bed, inside(&bed, functions[i / 2]));
		assert_int_equal(bed.pcs.end, SNAP_UNWIND_FAILED);
		assert_string_equal(bed.pcs.reason, "unwind information is unusable");
	}
	/* The functions beside them are as they were. */
	bed.options.engine = SNAP_ENGINE_AUTO;
	begins_in(&bed, inside(&bed, "simple"));
	bed.stack[2] = inside(&bed, "outermost");
	unwind(&bed);
	CHECK_PCS(&bed, inside(&bed, "simple"), inside(&bed, "outermost"));
	assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
	assert_true(after.ru_maxrss - before.ru_maxrss < 32 << 10);
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections_that_libdw_reads_in_another_way),
		cmocka_unit_test(test_tables_that_overlap),
		cmocka_unit_test(test_memory_of_programs),
		cmocka_unit_test(test_eh_frame),
		cmocka_unit_test(test_search_table),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
