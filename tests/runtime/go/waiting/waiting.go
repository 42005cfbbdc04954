// SPDX-License-Identifier: LGPL-2.1-or-later

// Goroutines that wait, each in a way of its own, some with labels; until standard input ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var started sync.WaitGroup

func receive(never chan int) { started.Done(); <-never }

func lock(held *sync.Mutex) { started.Done(); held.Lock() }

func choose(never, other chan int) {
	started.Done()
	select {
	case <-never:
	case other <- 1:
	}
}

func nap() { started.Done(); time.Sleep(time.Hour) }

func main() {
	never, other := make(chan int), make(chan int)
	held := &sync.Mutex{}
	held.Lock()
	started.Add(34)
	for i := 0; i < 30; i++ {
		labels := pprof.Labels("request", strconv.Itoa(i%3), "queue", "main")
		go pprof.Do(context.Background(), labels, func(context.Context) { receive(never) })
	}
	go lock(held)
	go choose(never, other)
	go nap()
	go nap()
	started.Wait()
	time.Sleep(50 * time.Millisecond)
	fmt.Println("ready", os.Getpid())
	bufio.NewReader(os.Stdin).ReadString('\n')
}
