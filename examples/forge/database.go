// SPDX-License-Identifier: LGPL-2.1-or-later

package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// A database that was asked for something slow: no query comes back before its context ends.
type slowServer struct{}

type connection struct{}

func init() {
	sql.Register("slow", slowServer{})
}

func (slowServer) Open(string) (driver.Conn, error) {
	return connection{}, nil
}

func (connection) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	queries.enter()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (connection) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("not prepared for this")
}

func (connection) Begin() (driver.Tx, error) {
	return nil, errors.New("no transactions")
}

func (connection) Close() error {
	return nil
}

func openDatabase() (*sql.DB, error) {
	database, err := sql.Open("slow", "")
	if err == nil {
		database.SetMaxOpenConns(connections)
	}
	return database, err
}
