// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build cgo

package main

/*
#include <pthread.h>
#include <unistd.h>

extern void goFromC(int);
static void sleep_in_c(void) { for (;;) pause(); }
static void call_go(int n) { goFromC(n); }
static void *thread_calls_go(void *unused) { goFromC(3); return unused; }
static void make_thread(void) { pthread_t t; pthread_create(&t, 0, thread_calls_go, 0); }
*/
import "C"

//export goFromC
func goFromC(n C.int) {
	if n == 3 {
		started.Done()
		<-never
	}
	if n == 1 {
		C.sleep_in_c()
	}
	started.Done()
	<-never
}

func more() {
	go func() { C.sleep_in_c() }()
	go func() { C.call_go(1) }()
	started.Add(2)
	go func() { C.call_go(2) }()
	C.make_thread()
}
