/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * PHP's data, for the files of this folder: where things lie in its memory, and where the
 * interpreter is. Offsets are the constants below; find.c has a table of those that differ between
 * versions.
 */
#pragma once

#include "analyze/runtime/runtime.h"

/* What has been at the same place since 7.3. */
enum {
	SNAP_PHP_FRAME = 56,           /* struct _zend_execute_data, as much as is wanted */
	SNAP_PHP_FRAME_OPLINE = 0,     /* where it is */
	SNAP_PHP_FRAME_FUNCTION = 24,  /* zend_function *; NULL: none, see frames.c */
	SNAP_PHP_FRAME_THIS = 32,      /* the object */
	SNAP_PHP_FRAME_TYPE = 40,      /* u32: type of `this` and what kind of call it is */
	SNAP_PHP_FRAME_PREVIOUS = 48,  /* the caller's */
	SNAP_PHP_FUNCTION = 24,        /* zend_function, before what versions moved */
	SNAP_PHP_FUNCTION_NAME = 8,    /* zend_string * */
	SNAP_PHP_FUNCTION_CLASS = 16,  /* zend_class_entry * */
	SNAP_PHP_CLASS_NAME = 8,       /* zend_string * */
	SNAP_PHP_OPLINE = 32,          /* zend_op */
	SNAP_PHP_OPLINE_EXTENDED = 20, /* u32 */
	SNAP_PHP_OPLINE_LINE = 24,     /* u32 */
	SNAP_PHP_OPLINE_CODE = 28,     /* u8 */
	SNAP_PHP_STRING_LENGTH = 16,   /* zend_string */
	SNAP_PHP_STRING = 24,          /* its bytes */
	/* zend_generator: up to 7.4 one word further on */
	SNAP_PHP_GENERATOR_FRAME = 56,
	SNAP_PHP_GENERATOR_PARENT = 152,
	SNAP_PHP_GENERATOR_STAND_IN = 200, /* in such a one, or behind: a frame in its place */
	SNAP_PHP_LARGEST_GENERATOR = 256,
	SNAP_PHP_GENERATOR = 168,
	SNAP_PHP_REQUEST_METHOD = 8, /* of sapi_globals: char * */
	SNAP_PHP_REQUEST_QUERY = 16,
	SNAP_PHP_REQUEST_URI = 48,
	SNAP_PHP_REQUEST = 56,
	SNAP_PHP_INTERNAL = 1, /* types of functions: written in C, */
	SNAP_PHP_USER = 2,     /* in PHP, or a whole file, */
	SNAP_PHP_EVAL = 4,     /* text */
	SNAP_PHP_IS_OBJECT = 8,
	SNAP_PHP_TOP_CALL = 1 << 17, /* in TYPE: called from C */
	SNAP_PHP_MOST_NAME = 4096,
	SNAP_PHP_MOST_TEXT = 1024, /* of a request's address */
	SNAP_PHP_MOST_FRAMES = 1 << 16,
	SNAP_PHP_PLANNED_FRAMES = 20000,
	SNAP_PHP_MOST_GENERATORS = 1000, /* that delegate to each other */
};

struct snap_php {
	const struct snap_runtime_process *process;
	struct snap_module *module; /* that has the interpreter */
	uint64_t executor;          /* address of executor_globals; 0: a threaded build */
	uint64_t mark;              /* the same, or of what such a build has in place of it */
	uint64_t request;           /* address of sapi_globals; 0: unknown */
	unsigned major, minor;      /* 0: unknown */
	const char *version;        /* "8.2.36"; NULL: unknown */
	/* by version */
	uint32_t current;   /* in executor_globals: the innermost frame */
	uint32_t file_name; /* in zend_op_array: zend_string * */
	uint32_t opcodes;   /* in zend_op_array: its first instruction, */
	uint32_t last;      /* and how many they are, u32 */
	uint32_t generator; /* bytes that zend_generator has in front of its frame, besides */
	/* while frames are read */
	uint64_t innermost; /* address of the innermost frame */
};

/* ---- find.c ---- */

/* Finds the interpreter; false: no PHP. */
bool snap_php_find(const struct snap_runtime_process *process, struct snap_php *ret);
/* Fills what depends on the version; NULL: fine, else why it is not understood, static. */
const char *snap_php_layout(struct snap_php *php);

/* ---- plan.c ---- */

/* Adds what is to be copied; false: the plan has no room. */
bool snap_php_plan(const struct snap_php *php, struct snap_memory_plan *plan);
/* The same of one that is not understood: a reader needs some memory to say so. */
void snap_php_plan_refusal(const struct snap_php *php, struct snap_memory_plan *plan);

/* ---- frames.c ---- */

/*
 * The frames of the thread that runs PHP, if any; `refused` of the result, without the version, if
 * they make no sense.
 */
struct stacksnap_error *snap_php_frames(const struct snap_php *php,
					struct snap_runtime_result *result) _must_check_;

/* ---- function.c ---- */

/* A frame with what it runs, before it has a name. */
struct snap_php_call {
	uint8_t frame[SNAP_PHP_FRAME];
	uint8_t function[SNAP_PHP_FUNCTION];
	uint64_t function_address;
	bool is_internal;       /* written in C */
	const char *name;       /* NULL: code of a file, or of eval() */
	const char *class_name; /* NULL: none */
	const char *file;       /* NULL: written in C */
	uint32_t line;
};

/* What a frame runs. False in *there_ret: it makes no sense. False: no memory. */
bool snap_php_call_read(const struct snap_php *php, const uint8_t *frame, bool is_innermost,
			struct snap_php_call *call, bool *there_ret) _must_check_;
/* What code without a name is called that nothing has included. */
extern const char snap_php_main[];
/*
 * How code without a name was called, by the frame that did: "include"; snap_php_main: it does not
 * tell. False: what the frame runs was not copied.
 */
bool snap_php_include(const struct snap_php *php, const struct snap_php_call *caller,
		      const char **ret) _must_check_;
/* "App\User->save", interned; NULL without memory. `how`: of code without a name. */
const char *snap_php_name(const struct snap_php *php, const struct snap_php_call *call,
			  const char *how);
/*
 * A text that ends with NUL, interned, with "..." behind it if its end was not copied; NULL in
 * *ret: none is there. False: no memory.
 */
bool snap_php_text(const struct snap_php *php, uint64_t address, const char **ret) _must_check_;
