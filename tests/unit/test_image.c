/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Images: files as linkers write them, headers without sections, and files that are damaged. */
#include "analyze/elf/internal.h"
#include "own_registers.h"
#include "skip.h"

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

static const char *fixture(const char *name)
{
	const char *path = getenv(name);

	assert_non_null(path);
	return path;
}

static struct snap_image *open_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct snap_image *image;

	assert_true(fd >= 0);
	assert_null(snap_image_open(fd, &image));
	close(fd);
	return image;
}

static void refuse(const void *bytes, size_t size, const char *reason)
{
	struct snap_image *image = NULL;
	struct stacksnap_error *err = snap_image_open_memory(bytes, size, &image);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	assert_string_equal(snap_error_message(err), reason);
	assert_null(image);
	snap_error_destroy(err);
}

/* A copy in the heap, where ASan sees every byte that is read beyond it. */
static uint8_t *copy_of(struct snap_bytes bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, bytes.data, size);
	return copy;
}

static void test_refuses_what_is_no_elf(void **unused)
{
	struct snap_image *image = open_image(fixture("IMAGE_PLAIN"));
	Elf64_Ehdr header;

	(void)unused;
	memcpy(&header, snap_image_bytes(image).data, sizeof(header));
	header.e_shoff = 0;
	refuse("", 0, "not an ELF file");
	refuse(&header, sizeof(header) - 1, "not an ELF file");
	refuse(&header, sizeof(header), "corrupt ELF program headers");
	header.e_ident[EI_CLASS] = ELFCLASS32;
	refuse(&header, sizeof(header), "a 32-bit ELF file");
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2MSB;
	refuse(&header, sizeof(header), "not a 64-bit little-endian ELF file");
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_phoff = UINT64_MAX - 8;
	refuse(&header, sizeof(header), "corrupt ELF program headers");
	header.e_type = 77;
	refuse(&header, sizeof(header), "an ELF file of unknown type");
	memset(&header, 'x', sizeof(header));
	refuse(&header, sizeof(header), "not an ELF file");
	snap_image_close(image);
	snap_image_close(NULL);
}

static void test_refuses_what_is_no_file(void **unused)
{
	struct snap_image *image;
	struct stacksnap_error *err;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)unused;
	err = snap_image_open(fd, &image);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
	close(fd);
	fd = memfd_create("empty", MFD_CLOEXEC);
	err = snap_image_open(fd, &image);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	snap_error_destroy(err);
	close(fd);
}

static void test_inflates_sections(void **unused)
{
	static const char *const sections[] = { ".debug_info", ".debug_abbrev", ".debug_line" };
	struct snap_image *plain = open_image(fixture("IMAGE_PLAIN"));
	struct snap_image *zlib = open_image(fixture("IMAGE_ZLIB"));
	struct snap_image *gnu = open_image(fixture("IMAGE_GNU"));

	(void)unused;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(sections); i++) {
		struct snap_bytes a = snap_image_section(plain, sections[i]);
		struct snap_bytes b = snap_image_section(zlib, sections[i]);
		struct snap_bytes c = snap_image_section(gnu, sections[i]);

		assert_true(a.size > 0);
		assert_int_equal(a.size, b.size);
		assert_int_equal(a.size, c.size);
		assert_memory_equal(a.data, b.data, a.size);
		assert_memory_equal(a.data, c.data, a.size);
		/* Asked again: the same bytes, not new ones. */
		assert_ptr_equal(b.data, snap_image_section(zlib, sections[i]).data);
	}
	assert_int_equal(snap_image_section(plain, ".no_such_section").size, 0);
	assert_int_equal(snap_image_section(plain, ".bss").size, 0);
	snap_image_close(plain);
	snap_image_close(zlib);
	snap_image_close(gnu);
}

/* libdw inflates in the same handle, before or after us. */
static void test_shares_its_handle_with_libdw(void **unused)
{
	static const char *const names[] = { "IMAGE_PLAIN", "IMAGE_ZLIB", "IMAGE_GNU" };

	(void)unused;
	for (size_t i = 0; i < 2 * SNAP_ARRAY_SIZE(names); i++) {
		struct snap_image *image = open_image(fixture(names[i / 2]));
		struct snap_bytes before = { 0 };
		Dwarf *dwarf;

		if (i % 2)
			before = snap_image_section(image, ".debug_info");
		assert_non_null(snap_image_elf(image));
		assert_ptr_equal(snap_image_elf(image), snap_image_elf(image));
		dwarf = dwarf_begin_elf(snap_image_elf(image), DWARF_C_READ, NULL);
		assert_non_null(dwarf);
		assert_true(snap_image_section(image, ".debug_info").size > 0);
		if (i % 2)
			assert_int_equal(snap_image_section(image, ".debug_info").size,
					 before.size);
		dwarf_end(dwarf);
		snap_image_close(image);
	}
}

static bool find_symbol(struct snap_image *image, bool dynamic, const char *name, uint64_t *ret)
{
	struct snap_bytes symbols, strings;

	if (!snap_image_symbols(image, dynamic, &symbols, &strings))
		return false;
	for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;

		memcpy(&symbol, symbols.data + at, sizeof(symbol));
		assert_true(symbol.st_name < strings.size);
		if (strcmp((const char *)strings.data + symbol.st_name, name) == 0) {
			*ret = symbol.st_value;
			return true;
		}
	}
	return false;
}

/* Without a section table the dynamic symbols are found by the segments, and are the same. */
static void test_headers_without_sections(void **unused)
{
	struct snap_image *whole = open_image(fixture("IMAGE_PLAIN")), *bare;
	uint8_t *copy = copy_of(snap_image_bytes(whole), snap_image_bytes(whole).size);
	Elf64_Ehdr *header = (Elf64_Ehdr *)copy;
	struct snap_bytes a, b, strings;
	uint64_t by_section, by_segment;

	(void)unused;
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	assert_null(snap_image_open_memory(copy, snap_image_bytes(whole).size, &bare));
	assert_true(find_symbol(whole, true, "image_fixture_function", &by_section));
	assert_true(find_symbol(bare, true, "image_fixture_function", &by_segment));
	assert_int_equal(by_section, by_segment);
	assert_true(snap_image_symbols(whole, true, &a, &strings));
	assert_true(snap_image_symbols(bare, true, &b, &strings));
	assert_int_equal(a.size, b.size);
	assert_false(snap_image_symbols(bare, false, &b, &strings));
	assert_int_equal(snap_image_section(bare, ".text").size, 0);
	a = snap_image_build_id(whole);
	b = snap_image_build_id(bare);
	assert_int_equal(a.size, 20);
	assert_int_equal(b.size, 20);
	assert_memory_equal(a.data, b.data, 20);
	assert_non_null(snap_image_elf(bare));
	snap_image_close(bare);
	snap_image_close(whole);
	free(copy);
}

static void test_addresses(void **unused)
{
	struct snap_image *image = open_image(fixture("IMAGE_PLAIN"));
	struct snap_bytes text = snap_image_section(image, ".text"), at;
	uint64_t vaddr, data, bias, dev, inode;

	(void)unused;
	assert_true(snap_image_section_address(image, ".text", &vaddr));
	at = snap_image_at(image, vaddr);
	assert_ptr_equal(at.data, text.data);
	assert_true(at.size >= text.size);
	assert_int_equal(snap_image_at(image, UINT64_MAX).size, 0);
	assert_int_equal(snap_image_at(image, 1ull << 40).size, 0);
	assert_true(snap_image_is_constant(image, vaddr));
	assert_true(snap_image_section_address(image, ".data", &data));
	assert_false(snap_image_is_constant(image, data));
	assert_true(snap_image_section_address(image, ".dynamic", &data));
	assert_false(snap_image_is_constant(image, data));
	assert_false(snap_image_section_address(image, ".nothing", &data));
	/* Another segment may share its page with a neighbour; the executable one is meant then. */
	for (size_t i = 0; i < image->segment_count; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		assert_true(snap_image_bias(image, 0x7f0000000000 + (segment->p_vaddr & ~4095ull),
					    segment->p_offset & ~4095ull, &bias));
		assert_int_equal(bias, 0x7f0000000000);
	}
	assert_false(snap_image_bias(image, 0x7f0000000000, 1ull << 40, &bias));
	assert_true(snap_image_identity(image, &dev, &inode));
	snap_image_close(image);
}

static void test_own_vdso(void **unused)
{
	const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
	struct snap_image *image;
	uint64_t address, dev, inode;

	(void)unused;
	if (!vdso)
		skip_because("kernel: no vDSO is mapped");
	assert_null(snap_image_open_memory(vdso, 4096, &image));
	assert_true(find_symbol(image, true, VDSO_CLOCK, &address));
	assert_true(snap_image_at(image, address).size > 0);
	assert_false(snap_image_identity(image, &dev, &inode));
	assert_non_null(snap_image_elf(image));
	snap_image_close(image);
}

static void test_build_id_of_a_captured_page(void **unused)
{
	struct snap_image *image = open_image(fixture("IMAGE_PLAIN"));
	struct snap_bytes whole = snap_image_build_id(image), head;
	uint8_t *page = copy_of(snap_image_bytes(image), 4096);

	(void)unused;
	head = snap_image_build_id_of_head(page, 4096);
	assert_int_equal(head.size, whole.size);
	assert_memory_equal(head.data, whole.data, whole.size);
	assert_true(head.data >= page && head.data + head.size <= page + 4096);
	for (size_t size = 0; size < 1024; size++) {
		uint8_t *less = copy_of(snap_image_bytes(image), size);

		head = snap_image_build_id_of_head(less, size);
		assert_true(head.size == 0 || head.size == whole.size);
		free(less);
	}
	free(page);
	snap_image_close(image);
}

static void test_notes(void **unused)
{
	static const struct {
		Elf64_Nhdr head;
		char name[4];
		uint8_t bytes[4];
	} other = { { 4, 4, NT_GNU_ABI_TAG }, "GNU", { 0 } },
	  id = { { 4, 4, NT_GNU_BUILD_ID }, "GNU", { 1, 2, 3, 4 } };
	uint8_t notes[2 * sizeof(other)];
	struct snap_bytes found;

	(void)unused;
	memcpy(notes, &other, sizeof(other));
	memcpy(notes + sizeof(other), &id, sizeof(id));
	found = snap_image_find_note((struct snap_bytes){ notes, sizeof(notes) }, 4);
	assert_int_equal(found.size, 4);
	assert_memory_equal(found.data, id.bytes, 4);
	/* Lengths that point beyond, and ones that wrap. */
	for (size_t size = 0; size < sizeof(notes); size++)
		assert_int_equal(snap_image_find_note((struct snap_bytes){ notes, size }, 4).size,
				 0);
	memset(notes, 0xff, 8);
	assert_int_equal(snap_image_find_note((struct snap_bytes){ notes, sizeof(notes) }, 4).size,
			 0);
	memset(notes, 0xff, 4);
	memset(notes + 4, 0, 4);
	assert_int_equal(snap_image_find_note((struct snap_bytes){ notes, sizeof(notes) }, 8).size,
			 0);
}

/* Asks everything that can be asked; whatever the file is, no byte outside it is read. */
static void ask_everything(struct snap_image *image)
{
	static const char *const sections[] = { ".text",     ".debug_info", ".debug_line",
						".eh_frame", ".symtab",     ".gnu_debuglink" };
	struct snap_bytes symbols, strings;
	volatile uint8_t sink = 0;
	uint64_t address, bias;

	for (size_t i = 0; i < SNAP_ARRAY_SIZE(sections); i++) {
		struct snap_bytes bytes = snap_image_section(image, sections[i]);

		if (bytes.size > 0)
			sink = sink ^ bytes.data[0] ^ bytes.data[bytes.size - 1];
		snap_image_section_address(image, sections[i], &address);
	}
	for (int dynamic = 0; dynamic < 2; dynamic++)
		if (snap_image_symbols(image, dynamic, &symbols, &strings))
			sink = sink ^ symbols.data[symbols.size - 1] ^
			       strings.data[strings.size - 1];
	for (size_t i = 0; i < image->segment_count; i++) {
		struct snap_bytes at = snap_image_at(image, image->segments[i].p_vaddr);

		if (at.size > 0)
			sink = sink ^ at.data[0] ^ at.data[at.size - 1];
	}
	snap_image_bias(image, 0x7f0000000000, 4096, &bias);
	snap_image_build_id(image);
}

static void open_damaged(const uint8_t *bytes, size_t size)
{
	struct snap_image *image;

	if (snap_error_ignore(snap_image_open_memory(bytes, size, &image)))
		return;
	ask_everything(image);
	snap_image_close(image);
}

static void test_truncated(void **unused)
{
	struct snap_image *image = open_image(fixture("IMAGE_ZLIB"));
	struct snap_bytes whole = snap_image_bytes(image);

	(void)unused;
	for (size_t size = 0; size < whole.size; size += size < 1024 ? 1 : 61) {
		uint8_t *copy = copy_of(whole, size);

		open_damaged(copy, size);
		free(copy);
	}
	snap_image_close(image);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Header, program headers and section table are where offsets and counts are. */
static void test_mutated(void **unused)
{
	static const uint64_t values[] = {
		0, 1, 8, 0x7fffffff, 0xffffffff, UINT64_MAX, 1ull << 63
	};
	static const char *const names[] = { "IMAGE_PLAIN", "IMAGE_ZLIB", "IMAGE_GNU" };
	uint64_t state = 42;

	(void)unused;
	for (size_t round = 0; round < 3000; round++) {
		struct snap_image *image = open_image(fixture(names[round % 3]));
		struct snap_bytes whole = snap_image_bytes(image);
		uint8_t *copy = copy_of(whole, whole.size);
		size_t table = image->header.e_shoff, area, at;

		area = round % 2 ? 1024 : whole.size - table;
		for (size_t i = 0; i < 1 + round % 4; i++) {
			at = (round % 2 ? 0 : table) + next_random(&state) % (area - 8);
			memcpy(copy + at, &values[next_random(&state) % SNAP_ARRAY_SIZE(values)],
			       1u << next_random(&state) % 4);
		}
		open_damaged(copy, whole.size);
		free(copy);
		snap_image_close(image);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refuses_what_is_no_elf),
		cmocka_unit_test(test_refuses_what_is_no_file),
		cmocka_unit_test(test_inflates_sections),
		cmocka_unit_test(test_shares_its_handle_with_libdw),
		cmocka_unit_test(test_headers_without_sections),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_own_vdso),
		cmocka_unit_test(test_build_id_of_a_captured_page),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_mutated),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
