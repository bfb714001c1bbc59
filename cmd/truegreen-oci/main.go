// Command truegreen-oci speaks to OCI registries for truegreen gate and truegreen store,
// which start it. It is a program of its own because its client works before anybody asks:
// as a part of truegreen it would make every start of that slower, and a run starts it
// many times. See package oci for what it reads and writes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/truegreen-dev/truegreen/store/oci"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(oci.Serve(ctx, os.Stdin, os.Stdout, dockerLogin))
}

// dockerLogin is what docker login has left.
func dockerLogin(ctx context.Context, host string) (auth.Credential, error) {
	logins, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return auth.EmptyCredential, fmt.Errorf("the configuration of docker: %w", err)
	}
	return credentials.Credential(logins)(ctx, host)
}
