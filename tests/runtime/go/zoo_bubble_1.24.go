// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build !go1.25 && goexperiment.synctest

package main

import "testing/synctest"

func inNewBubble(f func()) { synctest.Run(f) }
