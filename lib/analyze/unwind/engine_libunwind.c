/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libunwind over the copy: its remote interface with accessors of our own. See engine.h. The search
 * table of a file is checked before libunwind reads it, as libunwind 1.6.2 aborts on an unknown
 * encoding there. The reads of one step are counted, as expressions and CFI may loop.
 */
#include "analyze/unwind/engine.h"

#include "analyze/unwind/cfi_check.h"
#include "model/arch/registers.h"

#include <libunwind.h>
#include <string.h>

enum {
	MAX_READS = 1 << 16, /* of one step: some ten milliseconds */
	/*
	 * Where libunwind says that it is in a signal frame: on aarch64 it stands at the code that
	 * returns from the handler, on x86-64 it has made the step from there.
	 */
	TELLS_BEFORE = SNAP_OWN_ARCH == SNAP_ARCH_AARCH64,
};

/* Exported by libunwind for programs that find tables themselves; declared in no header. */
extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *,
					      unw_proc_info_t *, int, void *);

struct snap_libunwind {
	unw_addr_space_t space;
	unw_cursor_t cursor;
	struct snap_modules *modules;
	struct snap_module_set *set;
	const struct snap_frame_state *state;
	const struct snap_arch_ops *arch; /* of this machine */
	uint64_t pc;
	size_t reads;    /* of this step */
	bool is_used;    /* in this process: something is remembered */
	bool is_missing; /* this step asked for memory that is not there */
	bool is_lookup;  /* inside find_proc_info(): what is read describes code, it is no stack */
};

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info,
			  int need_unwind_info, void *argument)
{
	struct snap_libunwind *engine = argument;
	struct snap_module *module = snap_modules_find(engine->modules, ip);
	unw_dyn_info_t table = { .format = UNW_INFO_FORMAT_REMOTE_TABLE };
	struct snap_frame_header header;
	int result;

	if (!module || !snap_module_open(engine->set, module) ||
	    !snap_frame_header_find(module->file->image, &header) || header.table.size == 0)
		return -UNW_ENOINFO;
	snap_module_set_note(engine->set, module->file);
	table.start_ip = module->start;
	table.end_ip = module->end;
	table.u.rti.segbase = header.vaddr + module->bias;
	table.u.rti.table_data = table.u.rti.segbase + SNAP_FRAME_HEADER_SIZE;
	table.u.rti.table_len = header.table.size / sizeof(unw_word_t);
	engine->is_lookup = true;
	result = UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, info, need_unwind_info,
						    argument);
	engine->is_lookup = false;
	return result;
}

static void put_unwind_info(unw_addr_space_t space _unused_, unw_proc_info_t *info _unused_,
			    void *argument _unused_)
{
}

static int get_dyn_info_list_addr(unw_addr_space_t space _unused_, unw_word_t *address _unused_,
				  void *argument _unused_)
{
	return -UNW_ENOINFO;
}

/*
 * libunwind reads a word of code to see whether a pc can be right at all. JIT code was not copied;
 * that it lies in an executable mapping is the answer.
 */
static bool is_code_not_copied(struct snap_libunwind *engine, uint64_t address)
{
	const struct snap_module *module = snap_modules_find(engine->modules, address);
	const struct snap_map *map = module ? snap_process_map(module->process, address) : NULL;

	return map && map->execute && map->end - address >= sizeof(unw_word_t);
}

/*
 * A CIE with a personality routine, as C++ has, names it by a pointer in writable data
 * (DW_EH_PE_indirect), and so may an FDE its LSDA. libunwind follows the pointer while it parses,
 * and gives the whole entry up if it cannot, though only throwing needs either: no rule for a
 * register depends on them. Writable data is not copied, so any value does.
 */
static bool is_indirect_pointer(struct snap_libunwind *engine, uint64_t address)
{
	struct snap_module *module =
		engine->is_lookup ? snap_modules_find(engine->modules, address) : NULL;

	return module && snap_module_open(engine->set, module) &&
	       !snap_image_is_constant(module->file->image, address - module->bias);
}

static int access_mem(unw_addr_space_t space _unused_, unw_word_t address, unw_word_t *value,
		      int is_write, void *argument)
{
	struct snap_libunwind *engine = argument;
	uint64_t word = 0;

	if (is_write || ++engine->reads > MAX_READS)
		return -UNW_EINVAL;
	if (!engine->state->read(engine->state->context, address, &word) &&
	    !is_code_not_copied(engine, address) && !is_indirect_pointer(engine, address)) {
		engine->is_missing = true;
		return -UNW_EINVAL;
	}
	*value = word;
	return 0;
}

/* libunwind's numbers are DWARF's up to the pc, both on x86-64 and on aarch64. */
static int access_reg(unw_addr_space_t space _unused_, unw_regnum_t number, unw_word_t *value,
		      int is_write, void *argument)
{
	const struct snap_libunwind *engine = argument;

	if (is_write)
		return -UNW_EREADONLYREG;
	if (number < 0 || (unsigned)number > engine->arch->pc)
		return -UNW_EBADREG;
	*value = (unsigned)number == engine->arch->pc ? engine->pc
						      : engine->state->registers[number];
	return 0;
}

static int access_fpreg(unw_addr_space_t space _unused_, unw_regnum_t number _unused_,
			unw_fpreg_t *value _unused_, int is_write _unused_, void *argument _unused_)
{
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space _unused_, unw_cursor_t *cursor _unused_,
		  void *argument _unused_)
{
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space _unused_, unw_word_t address _unused_,
			 char *text _unused_, size_t size _unused_, unw_word_t *offset _unused_,
			 void *argument _unused_)
{
	return -UNW_ENOINFO;
}

struct snap_libunwind *snap_libunwind_create(void)
{
	unw_accessors_t accessors = { .find_proc_info = find_proc_info,
				      .put_unwind_info = put_unwind_info,
				      .get_dyn_info_list_addr = get_dyn_info_list_addr,
				      .access_mem = access_mem,
				      .access_reg = access_reg,
				      .access_fpreg = access_fpreg,
				      .resume = resume,
				      .get_proc_name = get_proc_name };
	struct snap_libunwind *engine = calloc(1, sizeof(*engine));

	if (!engine)
		return NULL;
	engine->arch = snap_arch_ops(SNAP_OWN_ARCH);
	engine->space = unw_create_addr_space(&accessors, 0);
	if (!engine->space) {
		free(engine);
		return NULL;
	}
	unw_set_caching_policy(engine->space, UNW_CACHE_GLOBAL);
	return engine;
}

void snap_libunwind_destroy(struct snap_libunwind *engine)
{
	if (!engine)
		return;
	unw_destroy_addr_space(engine->space);
	free(engine);
}

void snap_libunwind_enter(struct snap_libunwind *engine, struct snap_modules *modules,
			  struct snap_module_set *set)
{
	engine->modules = modules;
	engine->set = set;
	if (engine->is_used)
		unw_flush_cache(engine->space, 0, 0);
	engine->is_used = false;
}

bool snap_libunwind_begin(struct snap_libunwind *engine, const struct snap_frame_state *state,
			  uint64_t pc)
{
	engine->state = state;
	engine->pc = pc;
	engine->reads = 0;
	engine->is_missing = false;
	engine->is_used = true;
	return unw_init_remote(&engine->cursor, engine->space, engine) == 0;
}

enum snap_libunwind_result snap_libunwind_step(struct snap_libunwind *engine, bool *signal_ret)
{
	bool is_signal = false;
	int result;

	engine->reads = 0;
	engine->is_missing = false;
	if (TELLS_BEFORE)
		is_signal = unw_is_signal_frame(&engine->cursor) > 0;
	result = unw_step(&engine->cursor);
	if (!TELLS_BEFORE)
		is_signal = unw_is_signal_frame(&engine->cursor) > 0;
	*signal_ret = is_signal;
	if (result > 0)
		return SNAP_LIBUNWIND_CALLER;
	if (engine->reads > MAX_READS)
		return SNAP_LIBUNWIND_FAILED;
	if (engine->is_missing)
		return SNAP_LIBUNWIND_UNREADABLE;
	if (result == 0)
		return SNAP_LIBUNWIND_LAST;
	return result == -UNW_ENOINFO ? SNAP_LIBUNWIND_NO_CFI : SNAP_LIBUNWIND_FAILED;
}

void snap_libunwind_position(struct snap_libunwind *engine, uint64_t *pc_ret, uint64_t *sp_ret)
{
	unw_word_t pc = 0, sp = 0;

	unw_get_reg(&engine->cursor, UNW_REG_IP, &pc);
	unw_get_reg(&engine->cursor, UNW_REG_SP, &sp);
	*pc_ret = pc;
	*sp_ret = sp;
}

void snap_libunwind_registers(struct snap_libunwind *engine, const struct snap_arch_ops *arch,
			      uint64_t *registers)
{
	uint64_t caller[SNAP_MAX_DWARF_REGISTERS];

	for (unsigned i = 0; i < arch->dwarf_registers; i++) {
		unw_word_t value;

		caller[i] = unw_get_reg(&engine->cursor, (unw_regnum_t)i, &value) == 0
				    ? value
				    : registers[i];
	}
	memcpy(registers, caller, arch->dwarf_registers * sizeof(*caller));
}

bool snap_libunwind_covers(struct snap_libunwind *engine, const struct snap_frame_state *state,
			   uint64_t address)
{
	unw_proc_info_t info = { 0 };

	engine->state = state;
	engine->reads = 0;
	return find_proc_info(engine->space, address, &info, 0, engine) == 0;
}
