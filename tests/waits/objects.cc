// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads that wait for what C++'s library has, and say so as truth.h tells.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{
struct Line {
	pid_t tid;
	std::string text;
};

std::mutex lines_mutex; // is free once all are in position
std::vector<Line> lines;

pid_t own_tid()
{
	return static_cast<pid_t>(syscall(SYS_gettid));
}

// The calling thread is about to wait. ' stands for ".
__attribute__((format(printf, 2, 3))) void truth(const char *row, const char *format, ...)
{
	char rest[256], all[512];
	va_list args;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	snprintf(all, sizeof(all), "{'row':'%s','pid':%d,'tid':%d,%s}", row, getpid(), own_tid(), rest);
	for (char *at = all; *at; at++)
		if (*at == '\'')
			*at = '"';
	std::lock_guard<std::mutex> guard(lines_mutex);
	lines.push_back({ own_tid(), all });
}

[[noreturn]] void rest()
{
	truth("holder", "'kind':'signal','call':'pause'");
	for (;;)
		pause();
}

bool asleep(pid_t tid)
{
	char path[64], text[128] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool read_it = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0;
	close(fd);
	return read_it && strncmp(text, "running", 7) != 0;
}

// Starts a thread and returns its tid, when it has said its truth. Threads that it starts may say theirs first, or later.
pid_t start(std::function<void()> act)
{
	std::atomic<pid_t> tid = 0;

	std::thread([&tid, act = std::move(act)] {
		tid = own_tid();
		act();
	}).detach();
	for (;;) {
		std::lock_guard<std::mutex> guard(lines_mutex);
		for (const Line &line : lines)
			if (line.tid == tid)
				return tid;
	}
}

template <class Mutex> void owned(const char *row, const char *kind, const char *more = "")
{
	static Mutex mutex;
	pid_t owner = start([] {
		mutex.lock();
		rest();
	});

	start([=] {
		truth(row, "'kind':'%s','address':'%p','owner':%d%s", kind, static_cast<void *>(&mutex), owner, more);
		mutex.lock();
	});
}

template <class Mutex> void timed(const char *row, const char *kind)
{
	static Mutex mutex;
	pid_t owner = start([] {
		mutex.lock();
		rest();
	});

	start([=] {
		truth(row, "'kind':'%s','address':'%p','owner':%d,'timed':true,'most_s':3000", kind,
		      static_cast<void *>(&mutex), owner);
		if (mutex.try_lock_for(std::chrono::seconds(3000)))
			abort();
	});
}

void locks()
{
	static std::shared_mutex shared;
	pid_t owner;

	owned<std::mutex>("cpp.mutex", "mutex");
	owned<std::recursive_mutex>("cpp.recursive_mutex", "mutex");
	owned<std::shared_mutex>("cpp.shared_mutex", "rwlock", ",'mode':'write'");
	timed<std::timed_mutex>("cpp.timed_mutex", "mutex");
	timed<std::recursive_timed_mutex>("cpp.recursive_timed_mutex", "mutex");
	timed<std::shared_timed_mutex>("cpp.shared_timed_mutex", "rwlock");
	owner = start([] {
		shared.lock();
		rest();
	});
	start([owner] {
		truth("cpp.shared_lock", "'kind':'rwlock','mode':'read','address':'%p','owner':%d",
		      static_cast<void *>(&shared), owner);
		shared.lock_shared();
	});
}

void conditions()
{
	static std::condition_variable plain;
	static std::condition_variable_any any;
	static std::mutex mutex, other;

	start([] {
		std::unique_lock<std::mutex> lock(mutex);
		truth("cpp.condition_variable", "'kind':'condition','owner':0,'address':'%p','mutex':'%p'",
		      static_cast<void *>(&plain), static_cast<void *>(&mutex));
		plain.wait(lock, [] { return false; });
	});
	start([] {
		std::unique_lock<std::mutex> lock(other);
		truth("cpp.condition_variable_any", "'kind':'condition','owner':0,'address':'%p'",
		      static_cast<void *>(&any));
		any.wait(lock, [] { return false; });
	});
	start([] {
		std::unique_lock<std::mutex> lock(mutex);
		truth("cpp.wait_for", "'kind':'condition','owner':0,'timed':true,'most_s':3000");
		plain.wait_for(lock, std::chrono::seconds(3000), [] { return false; });
	});
}

int slow_value()
{
	rest();
}

void promises()
{
	static std::promise<int> promise;
	static auto future = promise.get_future().share();
	static std::once_flag once;
	pid_t owner;

	start([] {
		truth("cpp.future", "'kind':'future','owner':0");
		future.get();
	});
	owner = start([] { std::call_once(once, slow_value); });
	start([owner] {
		truth("cpp.call_once", "'kind':'once','owner':%d,'address':'%p'", owner, static_cast<void *>(&once));
		std::call_once(once, slow_value);
	});
	start([] {
		static std::atomic<pid_t> tid;
		std::thread thread([] {
			tid = own_tid();
			rest();
		});
		while (!tid)
			std::this_thread::yield();
		truth("cpp.join", "'kind':'thread','owner':%d", tid.load());
		thread.join();
	});
}

int initialised()
{
	static int value = slow_value();

	return value;
}

void statics()
{
	pid_t owner = start(initialised);

	start([owner] {
		truth("cpp.static", "'kind':'static_init','owner':%d", owner);
		initialised();
	});
}

void words()
{
	static std::latch latch(1);
	static std::barrier<> barrier(2);
	static std::counting_semaphore<4> semaphore(0);
	static std::atomic<int> word;
	static std::atomic<long> wide;

	start([] {
		truth("cpp.latch", "'kind':['latch','atomic'],'owner':0,'address':'%p'", static_cast<void *>(&latch));
		latch.wait();
	});
	// Who waits for what is no int sleeps at a word that such objects share.
	start([] {
		truth("cpp.barrier", "'kind':['barrier','latch','atomic'],'owner':0,'address':0");
		barrier.arrive_and_wait();
	});
	start([] {
		truth("cpp.semaphore", "'kind':['semaphore','atomic'],'owner':0,'address':'%p'",
		      static_cast<void *>(&semaphore));
		semaphore.acquire();
	});
	start([] {
		truth("cpp.atomic", "'kind':'atomic','owner':0,'address':'%p'", static_cast<void *>(&word));
		word.wait(0);
	});
	start([] {
		truth("cpp.atomic-wide", "'kind':'atomic','owner':0,'address':0");
		wide.wait(0);
	});
}
}

int main()
{
	char byte;

	locks();
	conditions();
	promises();
	statics();
	words();
	for (const Line &line : lines)
		while (!asleep(line.tid))
			std::this_thread::yield();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	printf("ready %d truth=%zu\n", getpid(), lines.size());
	for (const Line &line : lines)
		puts(line.text.c_str());
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(0);
}
