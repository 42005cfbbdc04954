// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build go1.24

package main

import (
	"runtime"
	"sync/atomic"
)

type cleaned struct {
	next *cleaned
	room [64]byte
}

// As finalizers are: the runtime calls back on a goroutine of its own.
func init() { extras = append(extras, cleanUp) }

func cleanUp() {
	var entered int32
	forgetCleaned(&entered)
	collect(&entered)
}

//go:noinline
func forgetCleaned(entered *int32) {
	runtime.AddCleanup(&cleaned{}, func(entered *int32) {
		atomic.StoreInt32(entered, 1)
		deep(3, receive)
	}, entered)
}
