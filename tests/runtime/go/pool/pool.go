// SPDX-License-Identifier: LGPL-2.1-or-later

// Workers that wait for jobs, and requests that wait for one of a pool, for a reply, and for a lock whose
// holder sleeps. Knows nothing of who looks at it.
package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

type pool struct{ free chan int }

func (p *pool) take() int { return <-p.free }

var lock sync.Mutex

func worker(jobs chan int) {
	for range jobs {
	}
}

func request(p *pool) { fmt.Println(p.take()) }

func query(address string) { http.Get("http://" + address) }

func holder() {
	lock.Lock()
	time.Sleep(time.Hour)
}

func waiter() {
	lock.Lock()
}

func ticker() {
	for range time.Tick(time.Hour) {
	}
}

// Takes connections and answers none.
func mute(listener net.Listener) {
	for {
		listener.Accept()
	}
}

func main() {
	jobs, connections := make(chan int), &pool{make(chan int)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go worker(jobs)
	go func() { worker(jobs) }()
	go ticker()
	go request(connections)
	go mute(listener)
	go query(listener.Addr().String())
	if len(os.Args) > 1 {
		go holder()
		time.Sleep(100 * time.Millisecond)
		go waiter()
	} else {
		go func() { time.Sleep(time.Hour) }()
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Println("ready", os.Getpid())
	bufio.NewReader(os.Stdin).ReadString('\n')
}
