package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that the first Ctrl-C or SIGTERM ends, for
// commands with something to seal; the second one ends the process at once.
// Other commands end with the first, as every process does.
func (a *app) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		fmt.Fprintf(a.err, "truegreen: %s: sealing what there is; once more gives up\n", s)
		cancel(fmt.Errorf("received %s", s))
		<-signals
		os.Exit(130)
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
