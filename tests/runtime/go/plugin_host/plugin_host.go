// SPDX-License-Identifier: LGPL-2.1-or-later

// plugin_host PLUGIN: three goroutines wait in functions of the plugin. It prints "ready PID".
package main

import (
	"fmt"
	"os"
	"plugin"
)

func main() {
	loaded, err := plugin.Open(os.Args[1])
	if err != nil {
		fmt.Println("cannot", err)
		return
	}
	waits, _ := loaded.Lookup("Waits")
	for i := 0; i < 3; i++ {
		ready := make(chan bool)
		go waits.(func(chan bool))(ready)
		<-ready
	}
	fmt.Println("ready", os.Getpid())
	select {}
}
