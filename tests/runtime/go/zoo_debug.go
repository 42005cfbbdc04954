// SPDX-License-Identifier: LGPL-2.1-or-later

// Bubbles are refused where timers are those of older versions, as they are outside of modules.
//go:build go1.24 && !go1.27

//go:debug asynctimerchan=0
package main
