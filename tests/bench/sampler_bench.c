/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sampling alone, timed: what a look at all threads costs, with a sink that takes whatever comes.
 *
 *     sampler_bench PID|all [HZ] [SECONDS]
 *
 * HZ 0: one tick after the other. Prints the rate reached, microseconds a tick, how the threads
 * were taken and the share of time in which some stood still.
 */
#include "sample/sampler.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct sums {
	uint64_t ticks, threads, kept, unstopped, alone, missed, running;
	int64_t busy_ns, longest_ns, stopped_ns;
	uint64_t samples, bytes;
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static struct stacksnap_error *program(void *context, struct snap_sampled_process *process,
				       bool exec)
{
	(void)context, (void)process, (void)exec;
	return NULL;
}

static struct stacksnap_error *mapped(void *context, struct snap_sampled_process *process)
{
	(void)context, (void)process;
	return NULL;
}

static void ended(void *context, struct snap_sampled_process *process)
{
	(void)context, (void)process;
}

static struct stacksnap_error *ignore(void *context, struct snap_sampled_thread *thread)
{
	(void)context, (void)thread;
	return NULL;
}

static struct stacksnap_error *sample(void *context, struct snap_sampled_thread *thread,
				      const struct snap_thread *copy,
				      enum snap_verdict *verdict_ret)
{
	struct sums *sums = context;

	(void)thread;
	sums->samples++;
	sums->bytes += copy->stack_size;
	*verdict_ret = SNAP_VERDICT_TAKEN;
	return NULL;
}

static void add(struct sums *sums, const struct snap_sampler_tick *tick)
{
	int64_t took = tick->end_ns - tick->begin_ns;

	sums->ticks++;
	sums->threads += tick->threads;
	sums->kept += tick->kept;
	sums->unstopped += tick->unstopped;
	sums->alone += tick->alone;
	sums->missed += tick->missed;
	sums->running += tick->running;
	sums->busy_ns += took;
	sums->stopped_ns += tick->stopped_ns;
	if (took > sums->longest_ns)
		sums->longest_ns = took;
}

static void print(const struct sums *sums, int64_t wall_ns, int64_t cpu_ns)
{
	double ticks = sums->ticks ? (double)sums->ticks : 1;

	printf("%.1f ticks/s, %.1f us a tick (longest %.1f ms), %.1f us of processor time a "
	       "tick\n",
	       (double)sums->ticks * 1e9 / (double)wall_ns, (double)sums->busy_ns / ticks / 1e3,
	       (double)sums->longest_ns / 1e6, (double)cpu_ns / ticks / 1e3);
	printf("a tick: %.1f threads, %.1f kept, %.2f unstopped, %.2f alone, %.2f missed, %.2f "
	       "running; stopped %.1f us a tick, %.2f %% of the time\n",
	       (double)sums->threads / ticks, (double)sums->kept / ticks,
	       (double)sums->unstopped / ticks, (double)sums->alone / ticks,
	       (double)sums->missed / ticks, (double)sums->running / ticks,
	       (double)sums->stopped_ns / ticks / 1e3,
	       (double)sums->stopped_ns * 100 / (double)wall_ns);
	printf("%" PRIu64 " copies shown, %.1f KiB each\n", sums->samples,
	       sums->samples ? (double)sums->bytes / (double)sums->samples / 1024 : 0);
}

static struct stacksnap_error *run(struct snap_sampler *sampler, struct sums *sums, unsigned hz,
				   double seconds)
{
	struct snap_sampler_tick tick;
	struct stacksnap_error *err = snap_sampler_tick(sampler, &tick);
	int64_t begin, next, cpu;

	if (err)
		return err;
	/* The first look at all is not what a tick costs. */
	memset(sums, 0, sizeof(*sums));
	begin = next = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	while (clock_ns(CLOCK_MONOTONIC) - begin < (int64_t)(seconds * 1e9)) {
		struct timespec at;

		err = snap_sampler_tick(sampler, &tick);
		if (err)
			return err;
		add(sums, &tick);
		if (!hz)
			continue;
		next += 1000000000ll / hz;
		if (next < tick.end_ns)
			next = tick.end_ns;
		at = (struct timespec){ next / 1000000000, next % 1000000000 };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	print(sums, clock_ns(CLOCK_MONOTONIC) - begin, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	return NULL;
}

int main(int argc, char **argv)
{
	struct snap_target target = { .kind = SNAP_TARGET_PID,
				      .pid = argc > 1 ? atoi(argv[1]) : 0 };
	struct snap_options options = { .children = true,
					.targets = &target,
					.target_count = 1,
					.max_stack = 1 << 20,
					.max_snapshot = 256 << 20,
					.hz = argc > 2 ? (unsigned)atoi(argv[2]) : 99 };
	struct sums sums = { 0 };
	const struct snap_sampler_sink sink = { &sums,  program, mapped, ended,
						ignore, ignore,  ignore, sample };
	struct snap_sampler *sampler = NULL;
	struct rlimit limit;
	struct stacksnap_error *err;

	if (argc > 1 && strcmp(argv[1], "all") == 0)
		target.kind = SNAP_TARGET_ALL;
	if (argc < 2 || (target.pid <= 0 && target.kind == SNAP_TARGET_PID)) {
		fprintf(stderr, "usage: sampler_bench PID|all [HZ] [SECONDS]\n");
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	err = snap_sampler_create(&options, &sink, &sampler);
	if (!err)
		err = run(sampler, &sums, options.hz, argc > 3 ? atof(argv[3]) : 5);
	snap_sampler_destroy(sampler);
	if (err)
		fprintf(stderr, "sampler_bench: %s\n", snap_error_message(err));
	snap_error_destroy(err);
	return err ? 1 : 0;
}
