#!/bin/sh
# Runs each fuzz target of the project for the given time (go fuzzes one target
# of one package at a time). Inputs that reach something new are made smaller
# with at most 100 runs: the default, a minute for each, is all that a short run
# would do.
set -eu
time=${1:-60s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 100x "$1" >"$log" 2>&1
}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r package; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$package"/*_test.go | sed 's/^func //' | sort -u | while read -r target; do
		echo "== $package $target"
		if ! fuzz "$package" "$target"; then
			# The fuzzer sometimes takes its own end for a failure ("context deadline
			# exceeded", without an input that fails): that run is made again.
			if grep -q 'Failing input\|panic' "$log" || ! fuzz "$package" "$target"; then
				cat "$log"
				exit 1
			fi
		fi
		tail -n 4 "$log"
	done
done
