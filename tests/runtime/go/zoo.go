// SPDX-License-Identifier: LGPL-2.1-or-later

// zoo [N [leaks]]: N goroutines (10000) with labels, in all states that Go knows; with "leaks" it then
// has Go look for those that can never go on, which stay marked. It prints "ready PID" when all of
// them stand still. Each line of its input makes it say what it knows of itself: "debug1 FILE" and
// "debug2 FILE" write its profile of goroutines there; at the end of its input it ends. SIGQUIT is
// Go's own: it prints all stacks.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	started sync.WaitGroup
	sink    uint64
	never   = make(chan int)
	nilChan chan int
	sending = make(chan int)
	mutex   sync.Mutex
	shared  sync.RWMutex
	cond    = sync.NewCond(&sync.Mutex{})
	group   sync.WaitGroup
	pipes   [2]int
	// What only some versions have: started before it is waited for `started`.
	extras []func()
)

//go:noinline
func deep(n int, f func()) {
	if n > 0 {
		deep(n-1, f)
		sink++
		return
	}
	f()
	sink++
}

// Inlined, three deep.
func inner(f func()) { f(); sink++ }
func middle(f func()) { inner(f); sink++ }
func outer(f func()) { middle(f); sink++ }

type waiter interface{ wait() }
type byValue struct{ n int }

func (v byValue) wait() { <-never; sink += uint64(v.n) }

type embeds struct{ byValue }

func generic[T any](v T, f func()) { f(); sink += uint64(len(fmt.Sprint(v))) }

type box[T any] struct{ v T }

func (b *box[T]) wait(f func()) { f(); sink++ }

func receive() { <-never }
func ranges() {
	for range never {
	}
}
func sendTo() { sending <- 1 }
func nilReceive() { <-nilChan }
func nilSend() { nilChan <- 1 }
func selectTwo() {
	select {
	case <-never:
	case sending <- 2:
	}
}
func selectNone() { select {} }
func sleeps() { time.Sleep(time.Hour) }
func locks() { mutex.Lock() }
func readLocks() { shared.RLock() }
func writeLocks() { shared.Lock() }
func waits() { group.Wait() }
func condWaits() {
	cond.L.Lock()
	cond.Wait()
}
func deferred() {
	defer receive()
	panicking()
}
func panicking() {
	defer func() {
		defer receive()
		recover()
	}()
	var p *byValue
	sink += uint64(p.n)
}
func panicsPlainly() {
	defer func() { <-never }()
	panic("on purpose")
}
func exits() {
	defer receive()
	runtime.Goexit()
}
func once() {
	var o sync.Once
	o.Do(receive)
}
func wrapped() {
	var w waiter = &embeds{byValue{1}}
	w.wait()
}
func methodValue() {
	f := byValue{2}.wait
	f()
}
func goGeneric() { generic(box[string]{"x"}, func() { (&box[int]{}).wait(receive) }) }
func inlines() { outer(receive) }
func isDeep() { deep(60, receive) }
func locked() {
	runtime.LockOSThread()
	<-never
}
func timers() {
	t := time.NewTimer(time.Hour)
	<-t.C
}
func contextDone() { <-context.WithValue(context.Background(), &sink, 1).Done() }
func parent() {
	done := make(chan bool)
	go func() { close(done); <-never }()
	<-done
	<-never
}

// Nobody else knows of what these wait for.
func lost() { <-make(chan int) }
func lostSelect() {
	select {
	case <-make(chan int):
	case make(chan int) <- 3:
	}
}
func lostLock() {
	var m sync.Mutex
	m.Lock()
	m.Lock()
}
func lostGroup() {
	var g sync.WaitGroup
	g.Add(1)
	g.Wait()
}

var kinds = []struct {
	name string
	f    func()
}{
	{"receive", receive}, {"range", ranges}, {"send", sendTo}, {"nil receive", nilReceive},
	{"nil send", nilSend}, {"select", selectTwo}, {"select none", selectNone},
	{"sleep", sleeps}, {"lock", locks}, {"rlock", readLocks}, {"wlock", writeLocks},
	{"group", waits}, {"cond", condWaits}, {"deferred", deferred}, {"panic", panicsPlainly},
	{"exit", exits}, {"once", once}, {"wrapper", wrapped}, {"method value", methodValue},
	{"generic", goGeneric}, {"inlined", inlines}, {"deep", isDeep}, {"timer", timers},
	{"context", contextDone}, {"parent", parent}, {"lost", lost}, {"lost select", lostSelect},
	{"lost lock", lostLock}, {"lost group", lostGroup},
}

func labels(i int, kind string) pprof.LabelSet {
	switch i % 7 {
	case 0:
		return pprof.Labels("kind", kind)
	case 1:
		return pprof.Labels("pid", strconv.Itoa(i), "ppid", strconv.Itoa(i/2),
			"process-description", "Request: GET /"+kind, "process-type", "request")
	case 2:
		return pprof.Labels("", "empty key", "empty value", "", "line", "a\nb\tc", "kind", kind)
	case 3:
		var many []string
		for k := 0; k < 20; k++ {
			many = append(many, fmt.Sprintf("key%02d", k), fmt.Sprintf("%d-%d", i, k))
		}
		return pprof.Labels(many...)
	case 4:
		return pprof.Labels("kind", kind, "utf8", "gr\u00fc\u00df \u4e16\u754c", "quote", `"\`)
	case 5:
		return pprof.Labels("kind", kind, "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6",
			"g", "7", "h", "8")
	}
	return pprof.Labels()
}

func start(i int) {
	kind := kinds[i%len(kinds)]
	started.Add(1)
	pprof.Do(context.Background(), labels(i, kind.name), func(context.Context) {
		go func() {
			started.Done()
			kind.f()
		}()
	})
}

func special() {
	started.Add(1)
	go func() { started.Done(); locked() }()
	started.Add(1)
	go func() {
		started.Done()
		var b [1]byte
		syscall.Read(pipes[0], b[:])
	}()
	started.Add(1)
	go func() {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		started.Done()
		if err == nil {
			l.Accept()
		}
	}()
	started.Add(1)
	go func() {
		r, _, _ := os.Pipe()
		started.Done()
		var b [1]byte
		r.Read(b[:])
	}()
	more()
	for _, extra := range extras {
		extra()
	}
}

// Has Go collect garbage until something happens that follows from it.
func collect(done *int32) {
	for atomic.LoadInt32(done) == 0 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func findLeaks() {
	if leaks := pprof.Lookup("goroutineleak"); leaks != nil {
		leaks.WriteTo(io.Discard, 1)
	}
}

func main() {
	n := 10000
	if len(os.Args) > 1 {
		n, _ = strconv.Atoi(os.Args[1])
	}
	mutex.Lock()
	shared.Lock()
	group.Add(1)
	syscall.Pipe(pipes[:])
	for i := 0; i < n; i++ {
		start(i)
	}
	special()
	started.Wait()
	for i := 0; i < 3; i++ {
		runtime.GC()
		time.Sleep(30 * time.Millisecond)
	}
	if len(os.Args) > 2 && os.Args[2] == "leaks" {
		findLeaks()
	}
	fmt.Printf("ready %d %s\n", os.Getpid(), runtime.Version())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 2 {
			f, _ := os.Create(words[1])
			pprof.Lookup("goroutine").WriteTo(f, int(words[0][5]-'0'))
			f.Close()
		}
		fmt.Println("done", atomic.LoadUint64(&sink))
	}
}
