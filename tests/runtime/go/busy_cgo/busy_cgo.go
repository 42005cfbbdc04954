// SPDX-License-Identifier: LGPL-2.1-or-later

// busy_cgo: Go that calls C that calls Go, and none of it sits still; a handler of signals on threads
// that compute in C; a thread made by C that goes in and out of Go. It prints "ready PID", and ends
// with its input.
package main

/*
#include <pthread.h>

extern void computesInGo(int);
static volatile int sink;
__attribute__((noinline)) static void computes_in_c(int n)
{
	for (int i = 0; i < n; i++)
		sink += i;
}
__attribute__((noinline)) static void calls_go(int n)
{
	computes_in_c(n);
	computesInGo(n);
	computes_in_c(n);
}
static void *goes_in_and_out(void *unused)
{
	for (;;) {
		computesInGo(20000);
		computes_in_c(20000);
	}
	return unused;
}
static void make_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, goes_in_and_out, 0);
}
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

var sink int

//export computesInGo
func computesInGo(n C.int) {
	for i := 0; i < int(n); i++ {
		sink += i
	}
}

func callsC() {
	for {
		C.calls_go(20000)
	}
}

func staysInC() {
	for {
		C.computes_in_c(2000000)
	}
}

func main() {
	runtime.GOMAXPROCS(3)
	go callsC()
	go staysInC()
	C.make_thread()
	fmt.Println("ready", os.Getpid())
	io.ReadAll(os.Stdin)
}
