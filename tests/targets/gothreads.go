// SPDX-License-Identifier: LGPL-2.1-or-later
// A Go program whose goroutines sit in system calls on threads of their own.
package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

//go:noinline
func parked(fd int, up chan bool) {
	runtime.LockOSThread()
	up <- true
	buffer := make([]byte, 1)
	syscall.Read(fd, buffer)
}

func main() {
	up := make(chan bool)
	for i := 0; i < 4; i++ {
		var ends [2]int
		if err := syscall.Pipe(ends[:]); err != nil {
			os.Exit(1)
		}
		go parked(ends[0], up)
		<-up
	}
	fmt.Printf("ready %d go\n", os.Getpid())
	buffer := make([]byte, 64)
	for {
		if n, err := os.Stdin.Read(buffer); n == 0 || err != nil {
			os.Exit(0)
		}
	}
}
