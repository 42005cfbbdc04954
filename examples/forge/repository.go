// SPDX-License-Identifier: LGPL-2.1-or-later

package main

import (
	"context"
	"os/exec"
	"sync"
)

type repository struct {
	name string
	lock sync.Mutex
}

// runGit waits for a command in a repository. Here it is cat(1), which answers when its input ends:
// a hook that hangs.
func (repo *repository) runGit(ctx context.Context, arguments string) error {
	ctx, end := begin(ctx, normal, "git "+arguments+" ["+repo.name+"]")
	defer end()
	command := exec.CommandContext(ctx, "cat")
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	defer input.Close()
	if err := command.Start(); err != nil {
		return err
	}
	hooks.enter()
	return command.Wait()
}

// push takes the repository for itself while the hook of the push runs.
func (repo *repository) push(ctx context.Context) error {
	pushes.enter()
	repo.lock.Lock()
	defer repo.lock.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result := make(chan error)
	go func() {
		result <- repo.runGit(ctx, "receive-pack")
	}()
	return <-result
}
