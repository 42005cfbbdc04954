// SPDX-License-Identifier: LGPL-2.1-or-later

// busy: goroutines that never sit still. It prints "ready PID", and ends with its input.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sort"
	"time"
)

var sink int

func computes() {
	for i := 0; ; i++ {
		sink += i
	}
}

func asksTheTime() {
	for {
		sink += time.Now().Nanosecond()
	}
}

func allocates() {
	for {
		list := make([]int, 100)
		for i := range list {
			list[i] = (i * 7919) % 101
		}
		sort.Slice(list, func(a, b int) bool { return list[a] < list[b] })
		sink += list[0]
	}
}

func faults() {
	for {
		func() {
			defer func() { recover() }()
			var p *int
			sink += *p
		}()
	}
}

func grows(n int) int {
	var room [128]int
	if n == 0 {
		return sink
	}
	room[n%128] = n
	return grows(n-1) + room[n%128]
}

func comesAndGoes() {
	for {
		done := make(chan int)
		go func() { done <- grows(100) }()
		sink += <-done
	}
}

func main() {
	runtime.GOMAXPROCS(3)
	for _, f := range []func(){computes, asksTheTime, allocates, faults, comesAndGoes} {
		go f()
	}
	fmt.Println("ready", os.Getpid())
	io.ReadAll(os.Stdin)
}
