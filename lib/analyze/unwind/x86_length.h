/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many bytes an instruction of x86-64 has. Knows nothing of what it does. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 0: `size` bytes do not hold all of it, or no processor has it. */
size_t snap_x86_length(const uint8_t *code, size_t size);
