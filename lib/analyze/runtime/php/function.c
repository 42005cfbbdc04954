/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The function of one frame of PHP, with its class, file and line. Knows nothing of the frames
 * around it.
 */
#include "analyze/runtime/memory.h"
#include "analyze/runtime/php/php.h"

#include "model/arch/registers.h"

#include <string.h>

enum {
	MOST_LINE = 1 << 28,
	HANDLE_EXCEPTION = 149, /* zend_vm_opcodes.h */
	INCLUDE_OR_EVAL = 73,
	PIECE = 64,
};

const char snap_php_main[] = "{main}";

/*
 * A zend_string, interned; NULL in *ret: there is none, or it makes no sense. What follows a NUL
 * tells classes without a name from each other. False: no memory.
 */
static bool read_string(const struct snap_php *php, uint64_t address, const char **ret)
{
	char text[SNAP_PHP_MOST_NAME];
	uint64_t length;

	*ret = NULL;
	if (!address ||
	    !snap_runtime_word(php->process, address + SNAP_PHP_STRING_LENGTH, &length) ||
	    length == 0 || length > sizeof(text) ||
	    !snap_runtime_read(php->process, address + SNAP_PHP_STRING, text, length) || !text[0])
		return true;
	*ret = snap_intern(php->process->strings, text, strnlen(text, length));
	return *ret;
}

bool snap_php_text(const struct snap_php *php, uint64_t address, const char **ret)
{
	static const char cut[] = "...";
	char text[SNAP_PHP_MOST_TEXT + sizeof(cut)];
	size_t size = 0, piece = PIECE;
	const char *end = NULL;

	*ret = NULL;
	while (address && !end && size + piece <= SNAP_PHP_MOST_TEXT) {
		if (!snap_runtime_read(php->process, address + size, text + size, piece)) {
			if (piece == 1)
				break;
			piece = 1; /* near the end of what is there */
			continue;
		}
		end = memchr(text + size, 0, piece);
		size += piece;
	}
	if (size == 0)
		return true;
	if (end) {
		size = (size_t)(end - text);
	} else {
		memcpy(text + size, cut, strlen(cut));
		size += strlen(cut);
	}
	*ret = snap_intern(php->process->strings, text, size);
	return *ret;
}

/* While the interpreter's own loop runs: where the innermost frame is. 0: the loop does not run. */
static uint64_t opline_in_register(const struct snap_php *php)
{
	const struct snap_process *process = php->process->process;
	struct snap_x86_64_registers registers;

	for (size_t i = 0; i < process->thread_count; i++) {
		const struct snap_thread *thread = &process->threads[i];

		if (thread->tid != process->pid || thread->partial ||
		    thread->registers_size != sizeof(registers) ||
		    process->arch != SNAP_ARCH_X86_64)
			continue;
		memcpy(&registers, thread->registers, sizeof(registers));
		return registers.r14 == php->innermost ? registers.r15 : 0;
	}
	return 0;
}

/* The line of an instruction; 0: unknown. */
static uint32_t line_at(const struct snap_php *php, uint64_t address)
{
	uint8_t opline[SNAP_PHP_OPLINE];
	uint64_t line;

	if (!snap_runtime_read(php->process, address, opline, sizeof(opline)) ||
	    opline[SNAP_PHP_OPLINE_CODE] == HANDLE_EXCEPTION)
		return 0;
	line = snap_runtime_field(opline, SNAP_PHP_OPLINE_LINE, 4);
	return line < MOST_LINE ? (uint32_t)line : 0;
}

/*
 * Where the innermost frame is. Its own word and the register may be of another call:
 * i_init_func_execute_data() of zend_execute.c sets the register alone, and a return changes the
 * frame first. Only an instruction of this function counts; without one it has just begun.
 */
static uint32_t innermost_line(const struct snap_php *php, uint64_t function, uint64_t saved)
{
	const uint64_t found[] = { opline_in_register(php), saved };
	uint8_t last[4], opline[SNAP_PHP_OPLINE];
	uint64_t opcodes, size;

	if (!snap_runtime_word(php->process, function + php->opcodes, &opcodes) ||
	    !snap_runtime_read(php->process, function + php->last, last, sizeof(last)))
		return line_at(php, saved);
	size = snap_runtime_field(last, 0, sizeof(last)) * SNAP_PHP_OPLINE;
	for (size_t i = 0; i < SNAP_ARRAY_SIZE(found); i++) {
		uint64_t distance = found[i] - opcodes; /* large in front of it, too */
		uint32_t line;

		if (distance >= size || distance % SNAP_PHP_OPLINE != 0)
			continue;
		line = line_at(php, found[i]);
		if (line != 0)
			return line;
	}
	/* executor_globals have an instruction for an exception that is on its way. */
	if (snap_runtime_read(php->process, saved, opline, sizeof(opline)) &&
	    opline[SNAP_PHP_OPLINE_CODE] == HANDLE_EXCEPTION)
		return 0;
	return line_at(php, opcodes);
}

/* *fits_ret: what it has of a name and of a class was found; without, it is not shown. */
static bool read_names(const struct snap_php *php, struct snap_php_call *call, bool *fits_ret)
{
	uint64_t name = snap_runtime_field(call->function, SNAP_PHP_FUNCTION_NAME, 8);
	uint64_t class = snap_runtime_field(call->function, SNAP_PHP_FUNCTION_CLASS, 8);
	uint64_t class_name = 0;

	if (class)
		snap_runtime_word(php->process, class + SNAP_PHP_CLASS_NAME, &class_name);
	if (!read_string(php, name, &call->name) ||
	    !read_string(php, class_name, &call->class_name))
		return false;
	*fits_ret = !name == !call->name && !class == !call->class_name;
	return true;
}

/* Where user code is. */
static bool read_place(const struct snap_php *php, uint64_t function, bool is_innermost,
		       struct snap_php_call *call)
{
	uint64_t opline = snap_runtime_field(call->frame, SNAP_PHP_FRAME_OPLINE, 8), name = 0;

	if (!snap_runtime_word(php->process, function + php->file_name, &name))
		return true;
	if (!read_string(php, name, &call->file))
		return false;
	call->line = is_innermost ? innermost_line(php, function, opline) : line_at(php, opline);
	return true;
}

bool snap_php_call_read(const struct snap_php *php, const uint8_t *frame, bool is_innermost,
			struct snap_php_call *call, bool *there_ret)
{
	uint64_t function = snap_runtime_field(frame, SNAP_PHP_FRAME_FUNCTION, 8);
	bool fits = false;
	uint8_t type;

	*there_ret = false;
	*call = (struct snap_php_call){ .name = NULL };
	memcpy(call->frame, frame, SNAP_PHP_FRAME);
	if (!snap_runtime_read(php->process, function, call->function, sizeof(call->function)))
		return true;
	type = call->function[0];
	call->is_internal = type == SNAP_PHP_INTERNAL;
	if (!call->is_internal && type != SNAP_PHP_USER && type != SNAP_PHP_EVAL)
		return true;
	if (!read_names(php, call, &fits))
		return false;
	if (!fits)
		return true;
	if (!call->is_internal && !read_place(php, function, is_innermost, call))
		return false;
	*there_ret = call->is_internal || call->file;
	return true;
}

bool snap_php_include(const struct snap_php *php, const struct snap_php_call *caller,
		      const char **ret)
{
	uint8_t opline[SNAP_PHP_OPLINE];

	*ret = snap_php_main;
	if (caller->is_internal)
		return true;
	if (!snap_runtime_read(php->process,
			       snap_runtime_field(caller->frame, SNAP_PHP_FRAME_OPLINE, 8), opline,
			       sizeof(opline)))
		return false;
	if (opline[SNAP_PHP_OPLINE_CODE] != INCLUDE_OR_EVAL)
		return true;
	switch (snap_runtime_field(opline, SNAP_PHP_OPLINE_EXTENDED, 4)) {
	case 1:
		*ret = "eval";
		break;
	case 2:
		*ret = "include";
		break;
	case 4:
		*ret = "include_once";
		break;
	case 8:
		*ret = "require";
		break;
	case 16:
		*ret = "require_once";
		break;
	default:
		break;
	}
	return true;
}

const char *snap_php_name(const struct snap_php *php, const struct snap_php_call *call,
			  const char *how)
{
	struct snap_interner *strings = php->process->strings;
	char text[SNAP_MAX_NAME];
	bool is_method =
		snap_runtime_field(call->frame, SNAP_PHP_FRAME_TYPE, 1) == SNAP_PHP_IS_OBJECT;
	int length;

	if (!call->name)
		return snap_intern(strings, how, strlen(how));
	if (!call->class_name)
		return call->name;
	length = snprintf(text, sizeof(text), "%s%s%s", call->class_name,
			  is_method ? "->" : "::", call->name);
	if (length < 0)
		return call->name;
	return snap_intern(strings, text,
			   (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1);
}
