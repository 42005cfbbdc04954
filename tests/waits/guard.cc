// SPDX-License-Identifier: LGPL-2.1-or-later
// A static variable whose initialiser waits: for a lock of the thread that waits for the variable (guard dead), or for time.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <unistd.h>

static std::mutex lock;
static bool is_dead;

__attribute__((noinline)) static int make()
{
	char byte;

	usleep(200000); // until the other thread has the lock
	if (!is_dead)
		return (int)read(0, &byte, 1);
	std::lock_guard<std::mutex> guard(lock);
	return 42;
}

__attribute__((noinline)) static int table()
{
	static int value = make();

	return value;
}

int main(int argc, char **argv)
{
	is_dead = argc > 1 && strcmp(argv[1], "dead") == 0;
	std::thread runner([] { return table(); });
	usleep(50000);
	std::thread waiter([] {
		std::lock_guard<std::mutex> guard(lock);
		return table();
	});
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	runner.join();
	waiter.join();
	return 0;
}
