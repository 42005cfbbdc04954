// SPDX-License-Identifier: LGPL-2.1-or-later

package main

import (
	"context"
	"database/sql"
	"net"
	"net/http"
)

type site struct {
	database *sql.DB
	repo     repository
}

func (site *site) showIssues(_ http.ResponseWriter, r *http.Request) error {
	rows, err := site.database.QueryContext(r.Context(), "SELECT title FROM issue WHERE NOT closed")
	if err != nil {
		return err
	}
	return rows.Close()
}

func (site *site) receivePack(_ http.ResponseWriter, r *http.Request) error {
	return site.repo.push(r.Context())
}

// handle makes each request a logical process.
func handle(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, end := begin(r.Context(), request, r.Method+": "+r.URL.Path)
		defer end()
		if err := serve(w, r.WithContext(ctx)); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// serveWeb serves until the context ends.
func serveWeb(ctx context.Context, listener net.Listener, site *site) error {
	ctx, end := begin(ctx, system, "Web: "+listener.Addr().String())
	defer end()
	pages := http.NewServeMux()
	pages.HandleFunc("/demo/app/issues", handle(site.showIssues))
	pages.HandleFunc("/demo/app/git-receive-pack", handle(site.receivePack))
	server := &http.Server{Handler: pages, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	return server.Serve(listener)
}
