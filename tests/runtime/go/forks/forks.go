// SPDX-License-Identifier: LGPL-2.1-or-later

// A goroutine that starts a program, whose child does not get as far: where it runs, setsid() does not return.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

//go:noinline
func forks() {
	command := exec.Command("/bin/true")
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Start()
}

func main() {
	go forks()
	fmt.Println("ready", os.Getpid())
	bufio.NewReader(os.Stdin).ReadString('\n')
}
