// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build go1.23

package main

import "iter"

// Goroutines that wait for their turn, and one that waits for one of those.
func init() { extras = append(extras, pulls) }

func numbers(yield func(int) bool) {
	for i := 0; yield(i); i++ {
	}
}

func neverYields(yield func(int) bool) { <-never }

func pulls() {
	started.Add(2)
	go func() {
		next, _ := iter.Pull(numbers)
		next()
		started.Done()
		<-never
		next()
	}()
	go func() {
		next, _ := iter.Pull(neverYields)
		started.Done()
		next()
	}()
}
