// SPDX-License-Identifier: LGPL-2.1-or-later

// worker: a goroutine with labels that computes, and a hundred that wait. It prints "ready PID".
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"time"
)

var sink int

func computes() {
	for i := 0; ; i++ {
		sink += i
	}
}

func waits() {
	time.Sleep(time.Hour)
}

func main() {
	for i := 0; i < 100; i++ {
		go waits()
	}
	go pprof.Do(context.Background(), pprof.Labels("job", "count", "queue", "main"), func(context.Context) { computes() })
	fmt.Println("ready", os.Getpid())
	waits()
}
