// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build go1.25 || goexperiment.synctest

package main

import (
	"context"
	"iter"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

var bubbled int32

func init() { extras = append(extras, bubbles) }

func bubbles() {
	go inNewBubble(bubble)
	for atomic.LoadInt32(&bubbled) <= int32(len(inBubble)) {
		time.Sleep(time.Millisecond)
	}
}

// What waits for something of the bubble, and what waits for something from outside: that keeps the
// bubble's time from going on.
var inBubble = []func(){
	func() { <-make(chan int) },
	func() { make(chan int) <- 1 },
	func() {
		select {
		case <-make(chan int):
		case make(chan int) <- 2:
		}
	},
	func() {
		var g sync.WaitGroup
		g.Add(1)
		g.Wait()
	},
	func() {
		c := sync.NewCond(&sync.Mutex{})
		c.L.Lock()
		c.Wait()
	},
	func() { <-time.After(time.Hour) },
	func() {
		next, _ := iter.Pull(numbers)
		next()
		<-never
		next()
	},
	func() {
		next, _ := iter.Pull(neverYields)
		next()
	},
	nilReceive, nilSend, selectNone, sleeps, timers, receive, locks, readLocks, selectTwo, contextDone, goGeneric,
}

func bubble() {
	for i, f := range inBubble {
		pprof.Do(context.Background(), labels(i, "bubble"), func(context.Context) {
			go func() {
				atomic.AddInt32(&bubbled, 1)
				f()
			}()
		})
	}
	atomic.AddInt32(&bubbled, 1)
	synctest.Wait()
}
