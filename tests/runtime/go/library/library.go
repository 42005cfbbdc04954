// SPDX-License-Identifier: LGPL-2.1-or-later

// A Go library for programs in C (-buildmode=c-shared): five goroutines wait in it, and a thread of
// its host does. It calls its host back.
package main

// typedef int (*callback)(int);
// static int callHost(callback f, int n) { return f(n); }
import "C"

import (
	"context"
	"runtime/pprof"
)

var never = make(chan int)

//export startGo
func startGo(n C.int) {
	for i := 0; i < int(n); i++ {
		ready := make(chan bool)
		pprof.Do(context.Background(), pprof.Labels("kind", "library"), func(context.Context) {
			go waitsInLibrary(ready)
		})
		<-ready
	}
}

//go:noinline
func waitsInLibrary(ready chan bool) {
	close(ready)
	<-never
}

//export sitInGo
func sitInGo() { <-never }

//export callBack
func callBack(f C.callback) C.int { return relayInGo(f) }

//go:noinline
func relayInGo(f C.callback) C.int { return C.callHost(f, 7) }

func main() {}
