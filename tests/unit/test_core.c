/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cores that are made by hand, byte by byte: what is read of them; of those that were cut at any
 * place or damaged; of packed ones. The programs that write cores have their turn in
 * e2e/test_core.py.
 */
#include "api/options.h"
#include "core/core.h"
#include "core/unpack.h"
#include "store/capture/file.h"

#include <elf.h>
#include <fcntl.h>
#include <lzma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum {
	MOST = 1 << 16,
	PAGE = 4096,
	CODE = 0x400000,
	DATA = 0x600000,
	STACK = 0x7ff000,
	STACK_BYTES = 2 * PAGE,
	PID = 4711,
	SP = STACK + PAGE, /* of the first thread; others have less */
	RSP = 19 * 8,
	PRSTATUS_BYTES = 336,
	MUTANTS = 4000,
};

/* A core on its way. */
struct made {
	uint8_t bytes[MOST];
	size_t size;
	Elf64_Ehdr elf;
	Elf64_Phdr headers[8];
};

static void put(struct made *made, const void *bytes, size_t size)
{
	assert_true(made->size + size <= sizeof(made->bytes));
	memcpy(made->bytes + made->size, bytes, size);
	made->size += size;
}

static void put_zeros(struct made *made, size_t size)
{
	assert_true(made->size + size <= sizeof(made->bytes));
	memset(made->bytes + made->size, 0, size);
	made->size += size;
}

static void put_note(struct made *made, uint32_t type, const void *bytes, uint32_t size)
{
	const Elf64_Nhdr note = { .n_namesz = 5, .n_descsz = size, .n_type = type };

	put(made, &note, sizeof(note));
	put(made, "CORE\0\0\0", 8);
	put(made, bytes, size);
	put_zeros(made, -size & 3);
}

static void set(uint8_t *bytes, size_t at, uint64_t value, size_t size)
{
	memcpy(bytes + at, &value, size);
}

static void put_thread(struct made *made, pid_t tid, int signal, uint64_t sp)
{
	uint8_t bytes[PRSTATUS_BYTES] = { 0 };

	set(bytes, 12, (uint64_t)signal, 2);
	set(bytes, 32, (uint64_t)tid, 4);
	set(bytes, 112 + RSP, sp, 8);
	put_note(made, NT_PRSTATUS, bytes, sizeof(bytes));
}

static void put_process(struct made *made)
{
	uint8_t bytes[136] = { 0 };

	bytes[1] = 'S';
	set(bytes, 16, 1000, 4);
	set(bytes, 24, PID, 4);
	set(bytes, 28, 1, 4);
	set(bytes, 32, PID, 4);
	strcpy((char *)bytes + 40, "worker");
	strcpy((char *)bytes + 56, "/bin/worker --short ");
	put_note(made, NT_PRPSINFO, bytes, sizeof(bytes));
}

static void put_signal(struct made *made, int signal, int code, uint64_t address)
{
	uint8_t bytes[128] = { 0 };

	set(bytes, 0, (uint64_t)signal, 4);
	set(bytes, 8, (uint64_t)(int64_t)code, 4);
	set(bytes, 16, address, 8);
	put_note(made, NT_SIGINFO, bytes, sizeof(bytes));
}

static const uint64_t vector[] = { AT_PHDR,   CODE + 64,      AT_ENTRY, CODE + 0x100,
				   AT_RANDOM, STACK + 0x1800, AT_NULL,  0 };

static void put_files(struct made *made)
{
	static const char names[] = "/bin/worker\0/bin/worker\0/tmp/gone (deleted)";
	const uint64_t lines[] = { 3,           PAGE, CODE,     CODE + PAGE,     0, DATA,
				   DATA + PAGE, 1,    0x700000, 0x700000 + PAGE, 0 };
	uint8_t bytes[sizeof(lines) + sizeof(names)];

	memcpy(bytes, lines, sizeof(lines));
	memcpy(bytes + sizeof(lines), names, sizeof(names));
	put_note(made, NT_FILE, bytes, sizeof(bytes));
}

static void add_segment(struct made *made, uint64_t address, uint64_t size, uint64_t file_size,
			uint32_t flags)
{
	made->headers[made->elf.e_phnum++] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = flags,
		.p_offset = made->size,
		.p_vaddr = address,
		.p_filesz = file_size,
		.p_memsz = size,
		.p_align = PAGE,
	};
}

/* The stack of the first thread, with arguments and all, as the kernel lays it out. */
static void put_stack(struct made *made)
{
	static const char strings[] = "/bin/worker\0--long\0two words\0HOME=/";
	uint8_t stack[STACK_BYTES] = { 0 };
	size_t at = 0x1400;
	const uint64_t words[] = {
		3, STACK + 0x1900, STACK + 0x1900 + 12, STACK + 0x1900 + 19, 0, STACK + 0x1900 + 29,
		0
	};

	memcpy(stack + 0x1900, strings, sizeof(strings));
	memcpy(stack + at, words, sizeof(words));
	memcpy(stack + at + sizeof(words), vector, sizeof(vector));
	add_segment(made, STACK, sizeof(stack), sizeof(stack), PF_R | PF_W);
	put(made, stack, sizeof(stack));
}

/* A program, its data, one thread that got a signal and two others. */
static void make(struct made *made)
{
	size_t notes;

	memset(made, 0, sizeof(*made));
	made->elf = (Elf64_Ehdr){
		.e_type = ET_CORE,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(made->elf),
		.e_ehsize = sizeof(made->elf),
		.e_phentsize = sizeof(Elf64_Phdr),
	};
	memcpy(made->elf.e_ident, ELFMAG, SELFMAG);
	made->elf.e_ident[EI_CLASS] = ELFCLASS64;
	made->elf.e_ident[EI_DATA] = ELFDATA2LSB;
	put_zeros(made, sizeof(made->elf) + sizeof(made->headers));
	notes = made->size;
	put_thread(made, PID + 2, SIGSEGV, SP - 0x100);
	put_process(made);
	put_signal(made, SIGSEGV, SEGV_MAPERR, 0xdead0);
	put_note(made, NT_AUXV, vector, sizeof(vector));
	put_files(made);
	put_thread(made, PID, 0, SP);
	put_thread(made, PID + 1, 0, 0x10);
	made->headers[made->elf.e_phnum++] = (Elf64_Phdr){
		.p_type = PT_NOTE,
		.p_offset = notes,
		.p_filesz = made->size - notes,
	};
	put_zeros(made, -made->size & (PAGE - 1));
	add_segment(made, CODE, PAGE, PAGE, PF_R | PF_X);
	put_zeros(made, PAGE);
	add_segment(made, DATA, PAGE, 0, PF_R | PF_W);
	put_stack(made);
	memcpy(made->bytes, &made->elf, sizeof(made->elf));
	memcpy(made->bytes + sizeof(made->elf), made->headers, sizeof(made->headers));
}

static int file_of(const void *bytes, size_t size)
{
	int fd = memfd_create("core", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}

/* Parses and fills; false: it is refused. */
static bool read_core(const void *bytes, size_t size, struct snap_core *core)
{
	_cleanup_(snap_options_deinit) struct snap_options options;
	_cleanup_fd_ int fd = file_of(bytes, size);
	struct snap_core_memory memory;

	snap_options_init(&options);
	options.max_snapshot = 4 << 20;
	if (snap_error_ignore(snap_core_parse(fd, core)))
		return false;
	memory = snap_core_memory_of(core, fd);
	assert_null(snap_core_fill(core, &memory, &options, NULL));
	return true;
}

/* What a file of captures holds for true when it is read. */
static void check_sound(const struct snap_core *core)
{
	_cleanup_(snap_capture_destroyp) struct snap_capture *back = NULL;
	_cleanup_fd_ int fd = memfd_create("capture", MFD_CLOEXEC);

	assert_null(snap_capture_write(core->capture, fd));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_null(snap_capture_read(fd, &back));
}

static void test_process(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	const struct snap_process *process;

	(void)state;
	make(&made);
	assert_true(read_core(made.bytes, made.size, &core));
	assert_false(core.truncated);
	assert_int_equal(core.capture->process_count, 1);
	process = core.capture->processes;
	assert_int_equal(process->pid, PID);
	assert_int_equal(process->ppid, 1);
	assert_int_equal(process->uid, 1000);
	assert_int_equal(process->state, 'S');
	assert_int_equal(process->arch, SNAP_ARCH_X86_64);
	assert_string_equal(process->name, "worker");
	assert_string_equal(process->exe, "/bin/worker");
	assert_string_equal(core.capture->host.arch, "x86_64");
	/* As they lie in memory, not as they were cut off. */
	assert_int_equal(process->args_size, 29);
	assert_memory_equal(process->args, "/bin/worker\0--long\0two words", 29);
	assert_int_equal(process->signal.number, SIGSEGV);
	assert_int_equal(process->signal.code, SEGV_MAPERR);
	assert_int_equal(process->signal.tid, PID + 2);
	assert_true(process->signal.has_address);
	assert_int_equal(process->signal.address, 0xdead0);
	check_sound(&core);
}

static void test_threads(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	const struct snap_thread *threads;

	(void)state;
	make(&made);
	assert_true(read_core(made.bytes, made.size, &core));
	assert_int_equal(core.capture->processes[0].thread_count, 3);
	threads = core.capture->processes[0].threads;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(threads[i].tid, PID + i);
		assert_int_equal(threads[i].registers_size, 27 * 8);
		assert_int_equal(threads[i].result, SNAP_THREAD_COPIED);
	}
	/* From the red zone to the end of the mapping. */
	assert_int_equal(threads[0].stack_address, SP - SNAP_STACK_MARGIN);
	assert_int_equal(threads[0].stack_size, STACK + STACK_BYTES - threads[0].stack_address);
	assert_false(threads[0].stack_unreadable);
	assert_string_equal(threads[0].name, "worker");
	/* That points nowhere. */
	assert_true(threads[1].stack_unreadable);
	assert_int_equal(threads[1].stack_size, 0);
	assert_null(threads[1].name);
}

static void test_maps(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	const struct snap_process *process;
	const struct snap_map *map;

	(void)state;
	make(&made);
	assert_true(read_core(made.bytes, made.size, &core));
	process = core.capture->processes;
	assert_int_equal(process->map_count, 4);
	map = snap_process_map(process, CODE);
	assert_true(map->execute && !map->write && map->inode);
	assert_int_equal(map->dev_major, SNAP_NO_DEVICE);
	assert_string_equal(map->path, "/bin/worker");
	assert_int_equal(snap_process_map(process, DATA)->inode, map->inode);
	assert_int_equal(snap_process_map(process, DATA)->offset, PAGE);
	/* No program header tells of it. */
	map = snap_process_map(process, 0x700000);
	assert_string_equal(map->path, "/tmp/gone");
	assert_true(map->deleted && map->read && !map->write);
	assert_string_equal(snap_process_map(process, STACK)->path, "[stack]");
	/* The head of the program alone. */
	assert_int_equal(process->piece_count, 1);
	assert_int_equal(process->pieces[0].address, CODE);
	assert_null(snap_core_set_program(&core, "/elsewhere/worker"));
	assert_string_equal(snap_process_map(process, DATA)->path, "/elsewhere/worker");
	assert_string_equal(process->exe, "/bin/worker");
}

static void test_memory(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	struct snap_core_memory memory;
	_cleanup_fd_ int fd = -1;
	uint8_t bytes[3 * PAGE];
	struct iovec ranges[] = { { (void *)(uintptr_t)(STACK + STACK_BYTES - 16), 16 },
				  { (void *)(uintptr_t)CODE, 8 },
				  { (void *)(uintptr_t)DATA, 8 },
				  { (void *)(uintptr_t)CODE, 8 } };

	(void)state;
	make(&made);
	fd = file_of(made.bytes, made.size);
	assert_null(snap_core_parse(fd, &core));
	memory = snap_core_memory_of(&core, fd);
	/* The data were not written: what is behind them is not read either. */
	assert_int_equal(snap_core_memory_read(&memory, bytes, ranges, 4), 24);
	ranges[0].iov_len = 32;
	assert_int_equal(snap_core_memory_read(&memory, bytes, ranges, 4), 16);
}

static void test_signals(void **state)
{
	static const struct {
		int number, code;
		bool is_told, has_address;
	} cases[] = {
		{ SIGSEGV, SEGV_ACCERR, true, true }, { SIGSEGV, SI_KERNEL, true, false },
		{ SIGABRT, SI_TKILL, true, false },   { SIGBUS, BUS_ADRERR, true, true },
		{ SIGSTOP, SI_USER, false, false },   { 0, 0, false, false },
	};

	(void)state;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(cases); i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
		static struct made made;
		const struct snap_signal *signal;
		size_t notes = sizeof(made.elf) + sizeof(made.headers), siginfo;

		make(&made);
		set(made.bytes, notes + 20 + 12, (uint64_t)cases[i].number, 2);
		siginfo = notes + 2 * 20 + PRSTATUS_BYTES + 136 + 20;
		set(made.bytes, siginfo, (uint64_t)cases[i].number, 4);
		set(made.bytes, siginfo + 8, (uint64_t)(int64_t)cases[i].code, 4);
		assert_true(read_core(made.bytes, made.size, &core));
		signal = &core.capture->processes[0].signal;
		assert_int_equal(signal->number, cases[i].is_told ? cases[i].number : 0);
		assert_int_equal(signal->has_address, cases[i].has_address);
		assert_int_equal(signal->address, cases[i].has_address ? 0xdead0 : 0);
	}
}

static void refuse(const struct made *made, const char *part)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	_cleanup_fd_ int fd = file_of(made->bytes, made->size);
	_cleanup_(snap_error_destroyp) struct stacksnap_error *err = snap_core_parse(fd, &core);

	assert_non_null(err);
	assert_int_equal(snap_error_code(err), SNAP_ERROR_FORMAT);
	if (!strstr(snap_error_message(err), part))
		fail_msg("%s", snap_error_message(err));
}

static void test_refused(void **state)
{
	static struct made made;

	(void)state;
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_type), ET_DYN, 2);
	refuse(&made, "but not a core");
	make(&made);
	made.bytes[EI_CLASS] = ELFCLASS32;
	refuse(&made, "32 bits");
	make(&made);
	made.bytes[EI_CLASS] = ELFCLASS32;
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), EM_386, 2);
	refuse(&made, "a core of i386, which is not supported");
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), EM_PPC64, 2);
	refuse(&made, "a core of ppc64, which is not supported");
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), EM_VAX, 2);
	refuse(&made, "that is not supported (e_machine 75)");
	make(&made);
	made.bytes[EI_DATA] = ELFDATA2MSB;
	set(made.bytes, offsetof(Elf64_Ehdr, e_type), __builtin_bswap16(ET_CORE), 2);
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), __builtin_bswap16(EM_S390), 2);
	refuse(&made, "a core of s390x, which is not supported");
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), __builtin_bswap16(EM_AARCH64), 2);
	refuse(&made, "big-endian program");
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_phnum), 0, 2);
	refuse(&made, "no threads");
	make(&made);
	made.bytes[0] = 'x';
	refuse(&made, "not a core");
	make(&made);
	made.size = sizeof(made.elf) + sizeof(made.headers);
	refuse(&made, "cut off before its threads");
}

/* Another processor is another row. */
static void test_aarch64(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	uint8_t bytes[392] = { 0 };
	size_t notes;

	(void)state;
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_machine), EM_AARCH64, 2);
	notes = made.size;
	set(bytes, 32, PID, 4);
	set(bytes, 112 + 31 * 8, SP, 8);
	put_note(&made, NT_PRSTATUS, bytes, sizeof(bytes));
	made.headers[0].p_offset = notes;
	made.headers[0].p_filesz = made.size - notes;
	memcpy(made.bytes + sizeof(made.elf), made.headers, sizeof(made.headers));
	assert_true(read_core(made.bytes, made.size, &core));
	assert_int_equal(core.capture->processes[0].arch, SNAP_ARCH_AARCH64);
	assert_int_equal(core.capture->processes[0].threads[0].registers_size, 34 * 8);
	assert_int_equal(core.capture->processes[0].threads[0].stack_address,
			 SP - SNAP_STACK_MARGIN);
	check_sound(&core);
}

/* More than 65534 program headers are counted elsewhere. */
static void test_many_headers(void **state)
{
	_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };
	static struct made made;
	Elf64_Shdr section = { .sh_info = 4 };

	(void)state;
	make(&made);
	set(made.bytes, offsetof(Elf64_Ehdr, e_phnum), PN_XNUM, 2);
	set(made.bytes, offsetof(Elf64_Ehdr, e_shoff), made.size, 8);
	put(&made, &section, sizeof(section));
	assert_true(read_core(made.bytes, made.size, &core));
	assert_int_equal(core.segment_count, 3);
	assert_int_equal(core.capture->processes[0].thread_count, 3);
}

/* Wherever it ends, what is there is told, and that it is not all. */
static void test_cut(void **state)
{
	static struct made made;
	size_t read = 0;

	(void)state;
	make(&made);
	for (size_t size = 0; size < made.size; size += size < 2048 ? 7 : 61) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

		if (!read_core(made.bytes, size, &core))
			continue;
		assert_true(core.truncated);
		assert_int_equal(core.capture->warning_count >= 1, 1);
		check_sound(&core);
		read++;
	}
	assert_true(read > 100);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void test_mutants(void **state)
{
	static struct made made, mutant;
	uint32_t seed = 1;
	size_t read = 0, limit;

	(void)state;
	make(&made);
	for (unsigned i = 0; i < MUTANTS; i++) {
		_cleanup_(snap_core_deinit) struct snap_core core = { .capture = NULL };

		mutant = made;
		limit = i % 3 ? 2560 : made.size;
		for (unsigned k = next_random(&seed) % 8 + 1; k > 0; k--) {
			static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
			uint32_t value = next_random(&seed);

			mutant.bytes[next_random(&seed) % limit] =
				value % 2 ? values[value / 2 % 5] : (uint8_t)value;
		}
		if (!read_core(mutant.bytes, mutant.size, &core))
			continue;
		check_sound(&core);
		read++;
	}
	assert_true(read > MUTANTS / 10);
}

/* ---- packed ---- */

/* Unpacks with pieces of these sizes; how much came out. */
static size_t unpack(const uint8_t *bytes, size_t size, size_t in, size_t out, uint8_t *to,
		     size_t room, bool *damaged_ret)
{
	_cleanup_(snap_unpacker_destroyp) struct snap_unpacker *unpacker = NULL;
	size_t done = 0, at = 0;

	*damaged_ret = false;
	assert_null(snap_unpacker_create(snap_packing_of(bytes, size), &unpacker));
	for (unsigned idle = 0; idle < 3 && done < room && !*damaged_ret;) {
		size_t wanted = room - done < out ? room - done : out;
		size_t given = size - at < in ? size - at : in;
		struct snap_unpack_step step = { bytes + at, given, to + done, wanted };

		*damaged_ret = snap_error_ignore(snap_unpacker_step(unpacker, &step));
		idle = step.out_size == wanted && step.in_size == given ? idle + 1 : 0;
		at += given - step.in_size;
		done += wanted - step.out_size;
	}
	return done;
}

static size_t pack_gzip(const uint8_t *bytes, size_t size, uint8_t *to, size_t room)
{
	z_stream stream = { .next_in = (Bytef *)(uintptr_t)bytes,
			    .avail_in = (uInt)size,
			    .next_out = to,
			    .avail_out = (uInt)room };

	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	deflateEnd(&stream);
	return stream.total_out;
}

static size_t pack_xz(const uint8_t *bytes, size_t size, uint8_t *to, size_t room)
{
	size_t packed = 0;

	assert_int_equal(
		lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, bytes, size, to, &packed, room),
		LZMA_OK);
	return packed;
}

static void test_packed(void **state)
{
	size_t (*const packers[])(const uint8_t *, size_t, uint8_t *, size_t) = { pack_gzip,
										  pack_xz };
	static uint8_t packed[2 * MOST], out[2 * MOST];
	static struct made made;
	bool damaged;

	(void)state;
	make(&made);
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(packers); i++) {
		size_t size = packers[i](made.bytes, made.size, packed, MOST);

		assert_int_equal(unpack(packed, size, 100, 1000, out, sizeof(out), &damaged),
				 made.size);
		assert_false(damaged);
		assert_memory_equal(out, made.bytes, made.size);
		/* Two of them behind each other are one. */
		memmove(packed + size, packed, size);
		assert_int_equal(unpack(packed, 2 * size, 7, 100, out, sizeof(out), &damaged),
				 2 * made.size);
		/* Cut off: what was there came out. */
		assert_true(unpack(packed, size / 2, 64, 64, out, sizeof(out), &damaged) <
			    made.size);
		memset(packed + size / 2, 0x5a, 16);
		unpack(packed, size, 64, 64, out, sizeof(out), &damaged);
		assert_true(damaged);
	}
	assert_int_equal(snap_packing_of(made.bytes, made.size), SNAP_PACKING_NONE);
	assert_int_equal(snap_packing_of("\x28\xb5\x2f\xfd", 4), SNAP_PACKING_ZSTD);
	assert_int_equal(snap_packing_of("\x04\x22\x4d\x18", 4), SNAP_PACKING_LZ4);
	assert_int_equal(snap_packing_of("\x28\xb5", 2), SNAP_PACKING_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_maps),    cmocka_unit_test(test_memory),
		cmocka_unit_test(test_signals), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_aarch64), cmocka_unit_test(test_many_headers),
		cmocka_unit_test(test_cut),     cmocka_unit_test(test_mutants),
		cmocka_unit_test(test_packed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
