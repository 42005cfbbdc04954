// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build go1.25

package main

import (
	"testing"
	"testing/synctest"
)

func inNewBubble(f func()) {
	testing.Main(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{
		{Name: "bubble", F: func(t *testing.T) { synctest.Test(t, func(*testing.T) { f() }) }},
	}, nil, nil)
}
