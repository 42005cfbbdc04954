/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The line and the name of a wait, as people read them: see wait.h. Knows no columns and no
 * escapes; who prints a line does both.
 */
#include "model/wait/wait.h"

#include <string.h>

char *snap_wait_object(const struct snap_wait *wait)
{
	return strdup(snap_wait_kind_word(wait->kind));
}

char *snap_wait_line(const struct snap_wait *wait, bool all)
{
	(void)all;
	return snap_wait_object(wait);
}
