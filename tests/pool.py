# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs jobs beside each other: one that computes takes a processor, of those that wait eight share one, and one that
must be alone runs when nothing else does. Spare jobs, one after the other, take what the others leave: they give way by
themselves, as by nice(1). How long a job takes, and how much of that it computes, was measured
(`tests/run.py --measure`) and stands in durations.txt. Knows nothing of tests."""
import collections
import concurrent.futures
import os

WAITERS = 8  # that share a processor
COMPUTES = 0.3  # of its time, and it is no waiter

Job = collections.namedtuple("Job", "name place test run")  # `test` is the caller's
BESIDE, SPARE, ALONE = "beside", "spare", "alone"  # places
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


class Pool:
    def __init__(self, durations, processors, most):
        """`most`: jobs at once, whatever they do."""
        self.durations, self.processors, self.most = durations, processors, most
        self.computing = self.waiting = 0

    def cost(self, name):
        """Where this was not measured: of the other build, or of a job that computes."""
        base = name.rpartition(".")[0]
        for known in (name, base + ".asan", base + ".release"):
            if known in self.durations:
                return self.durations[known]
        return UNKNOWN

    def waits(self, job):
        cost = self.cost(job.name)
        return cost.busy < COMPUTES * cost.seconds

    def may_start(self, waits):
        """The waiters have one processor together, and leave it when the last has ended. Of few jobs at once one is
        left to those that compute."""
        if self.computing + self.waiting >= self.most:
            return False
        if waits:
            return self.waiting < max(1, min(WAITERS, self.most - 1)) and (self.waiting > 0 or self.computing < self.processors)
        return self.computing + (self.waiting > 0) < max(self.processors, 1 + (self.waiting > 0))

    def run(self, jobs, ended):
        """Calls ended(job, what its run() returned) for each; the long ones begin first."""
        in_order = sorted(jobs, key=lambda job: -self.cost(job.name).seconds)
        queues = {True: collections.deque(), False: collections.deque()}
        for job in in_order:
            if job.place == BESIDE:
                queues[self.waits(job)].append(job)
        spare = [job for job in in_order if job.place == SPARE]
        with concurrent.futures.ThreadPoolExecutor(self.processors + WAITERS + 1) as threads, \
                concurrent.futures.ThreadPoolExecutor(1) as rest:
            running = {rest.submit(job.run): (job, None) for job in spare}
            while running or queues[True] or queues[False]:
                for waits in (True, False):
                    while queues[waits] and self.may_start(waits):
                        job = queues[waits].popleft()
                        running[threads.submit(job.run)] = (job, waits)
                        self.count(waits, 1)
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    job, waits = running.pop(future)
                    self.count(waits, -1)
                    ended(job, future.result())
        for job in in_order:
            if job.place == ALONE:
                ended(job, job.run())

    def count(self, waits, change):
        """`waits`: None of a spare job."""
        self.waiting += change if waits else 0
        self.computing += change if waits is False else 0
