// SPDX-License-Identifier: LGPL-2.1-or-later

// wide: a goroutine that waits with a large array on its stack, as those that read inotify have one. It prints
// "ready PID" and ends with its input.
package main

import (
	"fmt"
	"io"
	"os"
)

//go:noinline
func readEvents(input, gone *os.File, count chan int) {
	var buffer [16 * 4096]byte
	for {
		n, err := input.Read(buffer[:])
		if err != nil {
			gone.Close()
			return
		}
		count <- int(buffer[n-1])
	}
}

func main() {
	input, output, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	count := make(chan int)
	go readEvents(input, output, count)
	output.Write([]byte{1})
	<-count
	fmt.Printf("ready %d\n", os.Getpid())
	io.Copy(io.Discard, os.Stdin)
}
