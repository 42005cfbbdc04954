/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The links of the known chain. */
#pragma once

int f0(int value);
int f1(int value);
int f2(int value);
int f3(int value);
int chain_hold(int value);
