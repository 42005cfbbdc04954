// SPDX-License-Identifier: LGPL-2.1-or-later

package main

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// serveQueue has workers that wait for work.
func serveQueue(ctx context.Context, done *sync.WaitGroup, name string, workers int) chan<- string {
	jobs := make(chan string)
	ctx, end := begin(ctx, system, "Queue: "+name)
	defer end()
	for i := 0; i < workers; i++ {
		done.Add(1)
		go work(ctx, done, jobs)
	}
	return jobs
}

func work(ctx context.Context, done *sync.WaitGroup, jobs <-chan string) {
	defer done.Done()
	idleWorkers.enter()
	for {
		select {
		case job := <-jobs:
			handleJob(job)
		case <-ctx.Done():
			return
		}
	}
}

func handleJob(job string) {
	sha256.Sum256([]byte(job))
}

// runCron starts what is due; what it starts is a process below its own.
func runCron(ctx context.Context, done *sync.WaitGroup, jobs chan<- string) {
	defer done.Done()
	ctx, end := begin(ctx, system, "Cron")
	defer end()
	done.Add(1)
	go runTask(ctx, done, "repo_statistics", countCommits)
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			jobs <- "reindex"
		case <-ctx.Done():
			return
		}
	}
}

func runTask(ctx context.Context, done *sync.WaitGroup, name string, task func(context.Context)) {
	defer done.Done()
	ctx, end := begin(ctx, normal, "Cron: "+name)
	defer end()
	task(ctx)
}

// countCommits computes as long as the service runs.
func countCommits(ctx context.Context) {
	sum := sha256.Sum256(nil)
	for ctx.Err() == nil {
		sum = hashCommit(sum)
	}
}

//go:noinline
func hashCommit(sum [sha256.Size]byte) [sha256.Size]byte {
	for i := 0; i < 1000; i++ {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}
