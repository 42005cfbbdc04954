// SPDX-License-Identifier: LGPL-2.1-or-later

// A Go library for programs in C (-buildmode=c-shared): five goroutines wait in it, and a thread of
// its host does.
package main

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

func main() {}
