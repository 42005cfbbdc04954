// SPDX-License-Identifier: LGPL-2.1-or-later

// What plugin_host loads (-buildmode=plugin).
package main

var never = make(chan int)

func Waits(ready chan bool) { waitsInPlugin(ready) }

//go:noinline
func waitsInPlugin(ready chan bool) {
	close(ready)
	<-never
}

func main() {}
