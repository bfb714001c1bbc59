#!/usr/bin/env bash
# Finds the program: one that is given, or the release that this copy of the action
# is of, held to the SHA-256 that lies beside this file. Puts out path and from, or
# nothing, and then it is built. What is found and is not what it has to be is an
# error: nothing else is taken in its place.
set -euo pipefail

put() {
	echo "truegreen: $2"
	printf 'path=%s\nfrom=%s\n' "$1" "$2" >>"$GITHUB_OUTPUT"
}

if [ -n "${TRUEGREEN_BINARY:-}" ]; then
	if [ ! -f "$TRUEGREEN_BINARY" ]; then
		echo "truegreen: binary: $TRUEGREEN_BINARY: no such file" >&2
		exit 2
	fi
	put "$TRUEGREEN_BINARY" "the given file $TRUEGREEN_BINARY"
	exit 0
fi

# Each line: SHA-256, operating system, architecture, version. None before the first
# release.
table="$TRUEGREEN_ACTION/.github/action/releases"
line=$(awk -v os="${RUNNER_OS:-}" -v arch="${RUNNER_ARCH:-}" '!/^#/ && $2 == os && $3 == arch' "$table")
if [ -z "$line" ]; then
	exit 0
fi
read -r sum os arch version <<<"$line"
name="truegreen-$version-$os-$arch"
if [ "$os" = Windows ]; then
	name="$name.exe"
fi
file="${RUNNER_TEMP:?}/$name"
curl --fail --silent --show-error --location --proto '=https' --retry 3 --max-time 120 \
	--output "$file" "https://github.com/truegreen-dev/truegreen/releases/download/$version/$name"
if command -v sha256sum >/dev/null; then
	got=$(sha256sum <"$file")
else
	got=$(shasum -a 256 <"$file")
fi
if [ "${got%% *}" != "$sum" ]; then
	rm -f "$file"
	echo "truegreen: $name has SHA-256 ${got%% *}, and $sum is what the action knows it by" >&2
	exit 2
fi
chmod +x "$file"
put "$file" "release $version, SHA-256 $sum"
