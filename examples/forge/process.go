// SPDX-License-Identifier: LGPL-2.1-or-later

package main

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
)

// Types of logical processes.
const (
	normal  = "normal"
	request = "request"
	system  = "system"
)

type processKey struct{}

var lastProcess int64

// begin makes a logical process below that of the context, and this goroutine and whatever it starts a
// part of it. The function that it gives back ends that for this goroutine.
func begin(ctx context.Context, kind, description string) (context.Context, func()) {
	id := atomic.AddInt64(&lastProcess, 1)
	labels := []string{"pid", strconv.FormatInt(id, 10), "process-description", description, "process-type", kind}
	if parent, ok := ctx.Value(processKey{}).(int64); ok {
		labels = append(labels, "ppid", strconv.FormatInt(parent, 10))
	}
	inside := pprof.WithLabels(context.WithValue(ctx, processKey{}, id), pprof.Labels(labels...))
	pprof.SetGoroutineLabels(inside)
	return inside, func() {
		pprof.SetGoroutineLabels(ctx)
	}
}
