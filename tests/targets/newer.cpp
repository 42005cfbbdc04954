// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions whose symbols are as newer compilers mangle them: a constrained template, an explicit object parameter.
#include <cstdio>
#include <unistd.h>

namespace box {

struct A {
	static void method(int i) __asm__("_ZNH3box1A6methodETk1CS0_i");
};

__attribute__((noinline)) void A::method(int i)
{
	char byte;

	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	printf("%d %d\n", i, (int)read(0, &byte, 1));
}

void through(int i) __asm__("_ZN3box7throughITk1CiEvT_");

__attribute__((noinline)) void through(int i)
{
	A::method(i);
	puts("through");
}

static inline void inl(int i) __asm__("_ZN3box3inlITk1CiEvT_");

static inline __attribute__((always_inline)) void inl(int i)
{
	through(i);
	puts("inl");
}

} // namespace box

int main()
{
	box::inl(3);
	puts("main");
}
