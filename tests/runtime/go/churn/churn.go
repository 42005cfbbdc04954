// SPDX-License-Identifier: LGPL-2.1-or-later

// churn: the list of all goroutines grows again and again, by new programs of the same kind, and
// labels of goroutines that run change all the time. It prints "ready PID", and becomes a new
// program after a while: the number of its process stays. With "once" it does not, and ends.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
)

const generation = "CHURN_GENERATION"

func waitsForEnd(end chan bool) { <-end }

func grows(until time.Time) {
	for time.Now().Before(until) {
		end := make(chan bool)
		for i := 0; i < 500; i++ {
			go waitsForEnd(end)
		}
		close(end)
	}
}

// Values are always those of one turn.
func changesLabels(until time.Time) {
	for i := 0; time.Now().Before(until); i++ {
		n := strconv.Itoa(i % 10)
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(),
			pprof.Labels("a", "a"+n, "b", "b"+n, "c", "c"+n)))
		if i%16 == 0 {
			pprof.SetGoroutineLabels(context.Background())
		}
	}
}

func main() {
	until := time.Now().Add(60 * time.Millisecond)
	if os.Getenv(generation) == "" {
		fmt.Println("ready", os.Getpid())
		os.Stdout.Sync()
	}
	go changesLabels(until)
	grows(until)
	if len(os.Args) > 1 {
		return
	}
	n, _ := strconv.Atoi(os.Getenv(generation))
	os.Setenv(generation, strconv.Itoa(n+1))
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[0], os.Args, os.Environ()))
}
