// SPDX-License-Identifier: LGPL-2.1-or-later

// holds LIBRARY WHAT LIST: goroutines wait, some on larger stacks, and then an object of the runtime
// lies on a page that nobody gives back (hold_page() of the library): a goroutine's descriptor or
// stack, or of the list of all goroutines its beginning, its end, or what says where it is: that is
// at the address LIST (runtime.allgs, hexadecimal).
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void hold(const char *library, uint64_t object)
{
	void *loaded = dlopen(library, RTLD_NOW);
	void (*hold_page)(uint64_t) = loaded ? dlsym(loaded, "hold_page") : NULL;

	if (hold_page)
		hold_page(object);
}
*/
import "C"

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
	"unsafe"
)

const (
	count  = 900
	middle = count / 2
)

var (
	started sync.WaitGroup
	never   = make(chan int)
)

//go:noinline
func waits(depth int) int {
	var room [256]byte
	room[depth] = 1
	if depth > 0 {
		return waits(depth-1) + int(room[depth])
	}
	started.Done()
	return <-never
}

func main() {
	at, _ := strconv.ParseUint(os.Args[3], 16, 64)
	started.Add(count)
	for i := 0; i < count; i++ {
		go waits(1)
	}
	started.Wait()
	// Nothing looks at all goroutines from here on.
	time.Sleep(50 * time.Millisecond)
	runtime.GC()
	debug.SetGCPercent(-1)
	header := uintptr(at)
	list := *(*[]uintptr)(unsafe.Pointer(header))
	first := uintptr(unsafe.Pointer(&list[0]))
	object := map[string]uintptr{
		"descriptor": list[middle],
		"stack":      *(*uintptr)(unsafe.Pointer(list[middle] + 8)) - 1,
		"list":       first,
		"list's end": first + uintptr(len(list)-1)*8,
		"header":     header,
	}[os.Args[2]]
	C.hold(C.CString(os.Args[1]), C.uint64_t(object))
}
