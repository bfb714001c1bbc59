#!/usr/bin/env bash
# Builds the program from the action's own source. Nothing of the caller's Go
# settings gets into it.
set -euo pipefail

name=truegreen
if [ "${RUNNER_OS:-}" = Windows ]; then
	name=truegreen.exe
fi
file="${RUNNER_TEMP:?}/$name-$$"
env -u GOFLAGS -u GOOS -u GOARCH -u GOEXPERIMENT GOWORK=off GOENV=off GOTOOLCHAIN=local CGO_ENABLED=0 \
	go build -C "$TRUEGREEN_ACTION" -trimpath -buildvcs=false -o "$file" ./cmd/truegreen
from="built from the action's source with $(go env GOVERSION)"
echo "truegreen: $from"
printf 'path=%s\nfrom=%s\n' "$file" "$from" >>"$GITHUB_OUTPUT"
