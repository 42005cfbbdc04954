/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What another process shares, by its list of mappings. */
#pragma once

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <cmocka.h>

struct shared_range {
	uintptr_t start, end;
};

/*
 * The shared mappings of a process, of which `max` are stored; with sanitizers, which map what they
 * like, those that can be written. Returns how many there are; -1: we may not know.
 */
static inline int shared_mappings(pid_t pid, struct shared_range *ret, int max)
{
#ifdef __SANITIZE_ADDRESS__
	static const char format[] = "%lx-%lx %*1[r-]w%*1[x-]%1[s]";
#else
	static const char format[] = "%lx-%lx %*3[rwx-]%1[s]";
#endif
	_cleanup_fclose_ FILE *file = NULL;
	char path[64], line[8192], letter[2];
	unsigned long start, end;
	int count = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, format, &start, &end, letter) != 3)
			continue;
		if (count < max)
			ret[count] = (struct shared_range){ start, end };
		count++;
	}
	return file ? count : -1;
}
