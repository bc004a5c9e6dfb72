# Every way to build, run and test Herbarium. `make help` lists them.

# One set of build flags for development, tests and CI: each other set has a
# cold build cache of its own. Release builds add -trimpath.
export CGO_ENABLED := 0
export HERBARIUM_TEST_TOOLS ?= $(HOME)/.cache/herbarium/tools
# Where deploy/deps.sh puts a Node when Debian's is too old.
export PATH := $(HERBARIUM_TEST_TOOLS)/node/bin:$(PATH)

CLIENTS := cmd/herbarium/testdata/clients
REFERENCE := cmd/herbarium/testdata/reference
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: help build run demo release deps tools clients reference test lint test-go test-long test-reference race fuzz properties soak bench bench-blobs blob-faults clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

build: ## build bin/herbarium
	go build -ldflags '-X main.version=$(VERSION)' -o bin/herbarium ./cmd/herbarium

run: build ## build, then serve on 127.0.0.1:2583 with everything in ./data
	./bin/herbarium serve

demo: build ## run the demo against the instance that `make run` started
	./bin/herbarium demo

release: ## a stripped static binary without paths
	go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/herbarium ./cmd/herbarium

deps: tools clients ## install what the tests need: Debian packages, Go tools, npm packages
tools:
	./deploy/deps.sh
clients: $(CLIENTS)/node_modules/.installed
$(CLIENTS)/node_modules/.installed: $(CLIENTS)/package-lock.json | tools
	cd $(CLIENTS) && npm ci --no-audit --no-fund
	@touch $@

# Not of deps: it compiles SQLite, which takes minutes, once, with the headers of
# the Node that runs it.
reference: $(REFERENCE)/node_modules/.installed
$(REFERENCE)/node_modules/.installed: $(REFERENCE)/package-lock.json | tools
	cd $(REFERENCE) && npm_config_nodedir="$$(node -p 'path.resolve(process.execPath, "../..")')" npm ci --no-audit --no-fund
	@touch $@

test: deps lint test-go ## all that must hold before a change lands (CI runs this)

lint: tools
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@! grep -l '"resolved"' $(CLIENTS)/package-lock.json $(REFERENCE)/package-lock.json || { echo "names download addresses"; exit 1; }
	$(HERBARIUM_TEST_TOOLS)/golangci-lint run ./...

# Two packages at a time: each may start a Postgres, and the machine may be small.
test-go: deps
	$(HERBARIUM_TEST_TOOLS)/gotestsum --format pkgname-and-test-fails -- -p 2 -timeout 9m ./...

test-long: race fuzz properties soak test-reference bench ## the race detector, fuzzing, properties, soak, the reference PDS and scale: before an issue closes

race: deps
	CGO_ENABLED=1 go test -race -p 2 -timeout 40m ./...

FUZZTIME ?= 60s
fuzz: deps
	./deploy/fuzz.sh $(FUZZTIME)

# `make test` tries each property on fewer cases.
CHECKS ?= 1000
properties: deps
	go test -count 1 -p 1 -timeout 60m $$(git grep -l pgregory.net/rapid -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,') -rapid.checks=$(CHECKS)

SOAK ?= 2m
soak: deps
	HERBARIUM_TEST_SOAK=$(SOAK) go test -tags soak -run '^TestSoak' -count 1 -timeout 60m -v ./cmd/herbarium

test-reference: deps reference ## migration from and to the reference PDS (its first installation takes minutes)
	go test -tags reference -run '^TestMigrationWithTheReference' -count 1 -timeout 20m -v ./cmd/herbarium

bench: ## creates per second at repo sizes 100, 1,000, 10,000 and 50,000; bytes per second of blobs
	go test -run "^$$" -bench "^BenchmarkCreateBySize" -benchtime 1x -timeout 60m ./cmd/herbarium
	go test -run "^$$" -bench "^BenchmarkBlobs" -benchtime 3x -timeout 30m ./blobstore

bench-blobs: ## fsck and collection over 100,000 blobs, and small uploads (takes minutes)
	go test -tags scale -run '^TestBlobJobsAtScale$$' -count 1 -timeout 60m -v ./pds | grep -v level=

blob-faults: ## write docs/blob-faults.md anew: what each fault of the bucket comes to (make test compares it)
	go test -run '^TestBlobFaults$$' -count 1 -v ./pds -update | grep -v level=

clean: ## remove what was built (never data)
	rm -rf bin
