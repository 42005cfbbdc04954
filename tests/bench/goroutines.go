// SPDX-License-Identifier: LGPL-2.1-or-later

// goroutines N LABELS: N goroutines some 12 frames deep, that wait for four things, each with that many
// labels: keys are constants, values its own. Built with cgo, so that the heartbeat can be preloaded.
package main

import "C"

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var (
	never   = make(chan int)
	mutex   sync.Mutex
	started sync.WaitGroup
	sink    int
)

//go:noinline
func deep(n int, f func()) {
	if n > 0 {
		deep(n-1, f)
	} else {
		f()
	}
	sink++
}

var waits = []func(){
	func() { <-never },
	func() { mutex.Lock() },
	func() { time.Sleep(time.Hour) },
	func() {
		select {
		case <-never:
		case <-time.After(time.Hour):
		}
	},
}

var keys = []string{"handler", "tenant", "request", "user", "region", "shard", "queue", "client"}

func labels(i, count int) pprof.LabelSet {
	var list []string
	for k := 0; k < count; k++ {
		list = append(list, keys[k], fmt.Sprintf("value %d of %d", k, i))
	}
	return pprof.Labels(list...)
}

func start(i, count int) {
	run := func(context.Context) {
		go func() {
			started.Done()
			deep(8, waits[i%len(waits)])
		}()
	}
	if count > 0 {
		pprof.Do(context.Background(), labels(i, count), run)
	} else {
		run(context.Background())
	}
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	count, _ := strconv.Atoi(os.Args[2])
	mutex.Lock()
	started.Add(n)
	for i := 0; i < n; i++ {
		start(i, count)
	}
	started.Wait()
	fmt.Println("ready", os.Getpid())
	os.Stdin.Read(make([]byte, 1))
}
