/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Dicts, for the files of this folder that look for objects by their names: dicts.c. All functions
 * return false, or 0, for what cannot be read.
 */
#pragma once

#include "analyze/runtime/python/python.h"

struct snap_python_walk {
	const struct snap_python *python;
	size_t left;   /* entries of dicts that may still be looked at */
	bool has_gaps; /* some entries were not looked at, not read, or have keys that are no text */
};

/* Where a dict has its entries: (hash,) key, value. */
struct snap_python_dict {
	uint64_t keys, entries, count, words;
	uint64_t values; /* in an array of their own; 0: they are not */
};

bool snap_python_dict_open(const struct snap_python_walk *walk, uint64_t dict,
			   struct snap_python_dict *ret);
/* False: at the end. What is empty, or cannot be read, is 0. */
bool snap_python_dict_entry(struct snap_python_walk *walk, const struct snap_python_dict *dict,
			    uint64_t number, uint64_t *key_ret, uint64_t *value_ret);
/* The value of a key; 0: there is none. number_ret may be NULL. */
uint64_t snap_python_dict_find(struct snap_python_walk *walk, const struct snap_python_dict *dict,
			       const char *wanted, uint64_t *number_ret);
/*
 * The attributes of an object of a class that is written in Python: in a dict, or in an array,
 * whose keys its type has: in 3.11 and 3.12 a pointer before the object leads to it, from 3.13 on
 * it lies in the object.
 */
bool snap_python_object_open(const struct snap_python_walk *walk, uint64_t object,
			     struct snap_python_dict *ret);
/* sys.modules of an interpreter. */
bool snap_python_modules_open(const struct snap_python_walk *walk, uint64_t interpreter,
			      struct snap_python_dict *ret);
/* The names that a module has; 0 is no module. */
bool snap_python_module_open(const struct snap_python_walk *walk, uint64_t module,
			     struct snap_python_dict *ret);
