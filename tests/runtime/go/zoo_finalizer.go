// SPDX-License-Identifier: LGPL-2.1-or-later

// In 1.24 finalizers and cleanups share a goroutine, which then is in a cleanup (zoo_cleanup.go).
//go:build !go1.24 || go1.25

package main

import (
	"runtime"
	"sync/atomic"
)

type finalized struct {
	next *finalized
	room [64]byte
}

// A function of the program, on a goroutine of the runtime.
func init() { extras = append(extras, finalize) }

func finalize() {
	var entered int32
	forget(&entered)
	collect(&entered)
}

//go:noinline
func forget(entered *int32) {
	runtime.SetFinalizer(&finalized{}, func(*finalized) {
		atomic.StoreInt32(entered, 1)
		outer(receive)
	})
}
