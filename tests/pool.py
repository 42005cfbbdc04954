# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs jobs beside each other: so many that together they ask for somewhat more than the processors have, since one
computes while another waits. One that must be alone runs when nothing else does. How long a job takes, and how much of
that it computes, was measured (`tests/run.py --measure`) and stands in durations.txt. Knows nothing of tests.

    tests/pool.py [durations.txt] NAME…     how long those jobs take by these figures, on 2 processors; - reads names"""
import collections
import concurrent.futures
import os
import sys

ASKED = 1.25  # of what there is of processors, by all that run
MOST = 5  # jobs a processor, whatever they do: many have limits of time that more would make them miss
LEAST_SHARE = 0.05  # of a processor, of one that waits: it starts programs, too

# `test` is the caller's. `only` names what one job at a time has: others that want it leave their room to the rest.
Job = collections.namedtuple("Job", "name place test run only", defaults=[None])
BESIDE, ALONE = "beside", "alone"  # places
Cost = collections.namedtuple("Cost", "seconds busy")  # until it has ended; of a processor
UNKNOWN = Cost(3.0, 3.0)


def read_durations(path):
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, seconds, busy = line.split()
                found[name] = Cost(float(seconds), float(busy))
    return found


def write_durations(path, costs):
    with open(path, "w", encoding="utf-8") as file:
        for name, cost in sorted(costs.items()):
            file.write(f"{name} {cost.seconds:.1f} {cost.busy:.1f}\n")


def share(cost):
    """Of a processor. More than one is no more than one: such a job takes what there is."""
    return max(LEAST_SHARE, min(1.0, cost.busy / max(cost.seconds, 0.1)))


def most_at_once(processors):
    return MOST * processors


class Pool:
    def __init__(self, durations, processors, most):
        """`most`: jobs at once, whatever they do."""
        self.durations, self.processors, self.most = durations, processors, most

    def cost(self, name):
        """Where this was not measured: of the other build, or of a job that computes."""
        base = name.rpartition(".")[0]
        for known in (name, base + ".asan", base + ".release"):
            if known in self.durations:
                return self.durations[known]
        return UNKNOWN

    def in_order(self, jobs):
        """The long ones first; those of one kind, of which one runs at a time, are as long as all of them."""
        jobs, together = list(jobs), collections.Counter()
        for job in jobs:
            together[job.only or job.name] += self.cost(job.name).seconds
        return sorted(jobs, key=lambda job: (-together[job.only or job.name], -self.cost(job.name).seconds))

    def next_of(self, queue, running):
        """The longest that there is room for, which leaves the queue; None if there is none. One runs in any case."""
        asked = sum(share(self.cost(job.name)) for job in running)
        taken = {job.only for job in running} - {None}
        for job in queue if len(running) < self.most else ():
            if job.only in taken:
                continue
            if not running or asked + share(self.cost(job.name)) <= ASKED * self.processors + 1e-9:
                queue.remove(job)
                return job
        return None

    def run(self, jobs, ended):
        """Calls ended(job, what its run() returned) for each; the long ones begin first."""
        queue = self.in_order(job for job in jobs if job.place == BESIDE)
        with concurrent.futures.ThreadPoolExecutor(self.most) as threads:
            running = {}
            while running or queue:
                while job := self.next_of(queue, running.values()):
                    running[threads.submit(job.run)] = job
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    ended(running.pop(future), future.result())
        for job in self.in_order(job for job in jobs if job.place == ALONE):
            ended(job, job.run())


def speeds(shares, processors):
    """How fast each runs, of what was measured: what it computes takes so much longer that all get done what there is
    of processors; waiting takes as long as ever."""
    low, high = 1.0, max(1.0, sum(shares) / processors) ** 2 * len(shares)
    for _ in range(60):
        slower = (low + high) / 2
        found = [1 / (1 + share * (slower - 1)) for share in shares]
        done = sum(share * speed for share, speed in zip(shares, found))
        low, high = (slower, high) if done > processors else (low, slower)
    return found


def simulated(pool, names):
    """Seconds until all have ended, where those that run get equal parts of the processors."""
    queue = pool.in_order(Job(name, BESIDE, None, None) for name in names)
    running, now = {}, 0.0
    while running or queue:
        while job := pool.next_of(queue, running):
            running[job] = max(pool.cost(job.name).seconds, 0.1)
        speed = dict(zip(running, speeds([share(pool.cost(job.name)) for job in running], pool.processors)))
        step = min(left / speed[job] for job, left in running.items())
        now += step
        running = {job: left - step * speed[job] for job, left in running.items() if left - step * speed[job] > 1e-6}
    return now


def main():
    path, *names = sys.argv[1:]
    names = sys.stdin.read().split() if names == ["-"] else names
    pool = Pool(read_durations(path), 2, most_at_once(2))
    costs = [pool.cost(name) for name in names]
    print(f"{len(names)} jobs: {simulated(pool, names):.0f} s; of a processor {sum(c.busy for c in costs):.0f} s, "
          f"the longest {max(c.seconds for c in costs):.0f} s")


if __name__ == "__main__":
    main()
