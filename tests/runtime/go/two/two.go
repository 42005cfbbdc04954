// SPDX-License-Identifier: LGPL-2.1-or-later

// two LIBRARY: a Go program that loads a library in C's way which has a Go runtime of its own. It
// prints "ready PID".
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>

static int load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library)
		return 0;
	((void (*)(int))dlsym(library, "startGo"))(5);
	return 1;
}
*/
import "C"

import (
	"fmt"
	"os"
)

//go:noinline
func waitsInHost() { select {} }

func main() {
	if C.load(C.CString(os.Args[1])) == 0 {
		fmt.Println("cannot load it")
		return
	}
	go waitsInHost()
	fmt.Println("ready", os.Getpid())
	select {}
}
