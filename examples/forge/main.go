// SPDX-License-Identifier: LGPL-2.1-or-later

// Forge is a service as those that host repositories, on a bad day: a hook of a push hangs while it
// holds its repository, the database does not answer, and all others wait behind these. Its goroutines
// carry labels that tell which logical process they belong to. Made for being looked at from
// outside: it says when all are in place, and ends when its input does, or by SIGINT or SIGTERM.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	connections = 2 // to the database
	readers     = 8 // requests for issues
	pushers     = 5
	workers     = 6 // of queues
)

// gauge counts those who came by a place.
type gauge int64

var queries, hooks, pushes, idleWorkers gauge

func (gauge *gauge) enter() {
	atomic.AddInt64((*int64)(gauge), 1)
}

func (gauge *gauge) await(count int64) {
	for atomic.LoadInt64((*int64)(gauge)) < count {
		time.Sleep(time.Millisecond)
	}
}

// visit sends a request; the answer is not used.
func visit(address, method, path string) (net.Conn, error) {
	visitor, err := net.Dial("tcp", address)
	if err == nil {
		_, err = fmt.Fprintf(visitor, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, path, address)
	}
	return visitor, err
}

// sendVisitors returns when all of them wait: they do as long as their connections are open.
func sendVisitors(address string, site *site) (visitors []net.Conn, err error) {
	for i := 0; i < readers+pushers; i++ {
		method, path := "GET", "/demo/app/issues"
		if i >= readers {
			method, path = "POST", "/demo/app/git-receive-pack"
		}
		visitor, err := visit(address, method, path)
		if err != nil {
			return nil, err
		}
		visitors = append(visitors, visitor)
	}
	queries.await(connections)
	hooks.await(1)
	pushes.await(pushers)
	idleWorkers.await(workers)
	for site.database.Stats().WaitCount < readers-connections {
		time.Sleep(time.Millisecond)
	}
	return visitors, nil
}

// untilInputEnds cancels when there is no more to read.
func untilInputEnds(cancel func()) {
	input := bufio.NewReader(os.Stdin)
	for {
		if _, err := input.ReadByte(); err != nil {
			cancel()
			return
		}
	}
}

func serve(ctx context.Context) error {
	var done sync.WaitGroup
	database, err := openDatabase()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	jobs := serveQueue(ctx, &done, "issue_indexer", workers-2)
	serveQueue(ctx, &done, "mail", 2)
	site := &site{database: database, repo: repository{name: "demo/app.git"}}
	done.Add(2)
	go runCron(ctx, &done, jobs)
	go func() {
		defer done.Done()
		serveWeb(ctx, listener, site)
	}()
	visitors, err := sendVisitors(listener.Addr().String(), site)
	if err != nil {
		return err
	}
	fmt.Printf("ready %d address=%s\n", os.Getpid(), listener.Addr())
	<-ctx.Done()
	for _, visitor := range visitors {
		visitor.Close()
	}
	done.Wait()
	return database.Close()
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	go untilInputEnds(cancel)
	if err := serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "forge:", err)
		os.Exit(1)
	}
}
