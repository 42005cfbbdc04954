/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is to succeed: a test fails with the error's own words. Who uses it includes cmocka.h. */
#pragma once

#include "base/error.h"

#define fine(call)                                                \
	do {                                                      \
		struct stacksnap_error *_err = (call);            \
		if (_err)                                         \
			fail_msg("%s", snap_error_message(_err)); \
	} while (0)
