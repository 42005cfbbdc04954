// SPDX-License-Identifier: LGPL-2.1-or-later

//go:build !cgo

package main

func more() {}
