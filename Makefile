# What is done with this repository. `make help` lists it.

CARGO ?= cargo
# Rest of the cargo test command line: a filter, or -- --show-output.
TEST_ARGUMENTS ?=
# Rest of the command line of iolane demo.
DEMO_ARGUMENTS ?=
# What make sanitize runs: orders, memory, threads; all three if empty.
PARTS ?=
# The comparisons that make peers runs, each with its options.
PEERS ?= commit get load scan range update oltp memory

# What make power-campaign cuts the power under, how often, and by which seed.
POWER ?= store-ext4 store-xfs sqlite-ext4 sqlite-journal-ext4 mariadb-ext4 postgresql-ext4
CUTS ?= 100
SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help build install-lib demo test c-test kernel-test kernel-measure campaign power-campaign sanitize bench peers peers-test peers-lint lint package doc

help: ## This list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## The program: target/release/iolane
	$(CARGO) build --locked --release --package iolane-cli

# As GNU's; packages set DESTDIR.
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib

install-lib: ## libiolane and libiolane-aio for C, below PREFIX, DESTDIR before it
	$(CARGO) build --locked --release --package iolane-capi --package iolane-aio
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' LIBDIR='$(LIBDIR)' scripts/install-lib target/release

demo: build ## What priorities gain: MariaDB or PostgreSQL if installed, a table on your disk and on a cloud volume: 90 s, writes iolane-demo.html
	target/release/iolane demo $(DEMO_ARGUMENTS)

test: ## All tests, system tests included; those that the machine does not allow say so
	@status=0; set -x; \
	$(CARGO) test --locked --workspace --no-fail-fast $(TEST_ARGUMENTS) || status=1; \
	$(if $(filter-out -- --show-output,$(TEST_ARGUMENTS)),,scripts/c-test || status=1; scripts/kernel-test || status=1; \
		PROFILE=dev scripts/mariadb-test --if-ready iolane || status=1; \
		PROFILE=dev scripts/mariadb-concurrent --if-ready --rounds 6 || status=1;) \
	exit $$status

c-test: ## Examples and tests in C: plain, static, under AddressSanitizer and valgrind; part of make test
	scripts/c-test

kernel-test: ## Tests of the kernel module in a virtual machine (qemu): some minutes
	scripts/kernel-test

kernel-measure: ## The kernel module beside the kernel's own schedulers, in a virtual machine
	scripts/kernel-measure

# How much of each: a million power cuts, every operation of a longer workload
# with every fault, more bits, kills, and histories. Each test prints the seed
# that it took.
campaign: export IOLANE_CRASH_IMAGES ?= 1000000
campaign: export IOLANE_FAULT_STEPS ?= 300
campaign: export IOLANE_FLIP_BITS ?= 200
campaign: export IOLANE_KILL_ROUNDS ?= 2000
campaign: export IOLANE_HISTORIES ?= 200
# A store is opened for each power cut: without these, glibc asks the kernel for
# its buffers each time, which is half of the CPU time.
campaign: export MALLOC_MMAP_THRESHOLD_ ?= 33554432
campaign: export MALLOC_TRIM_THRESHOLD_ ?= 536870912
campaign: export MALLOC_TOP_PAD_ ?= 67108864
campaign: ## The store against power cuts, faults, flipped bits and kills: some hours
	$(CARGO) test --locked --package iolane-store --no-fail-fast --test 'store_*' -- --nocapture

power-campaign: build ## A served disk's power, cut under the store and other databases: about an hour, as root
	$(CARGO) build --locked --release --package iolane-store --example commits
	scripts/power-campaign --cuts $(CUTS) --seed $(SEED) $(POWER)

sanitize: ## shuttle, Miri and ThreadSanitizer; needs Rust's nightly toolchain with rust-src and miri
	scripts/sanitize $(PARTS)

.PHONY: mariadb mariadb-test mariadb-bench
mariadb: ## The storage engine for MariaDB: target/mariadb/ha_iolane.so; the first time, five minutes and 2 GB in ~/.cache
	scripts/mariadb-build

mariadb-test: ## Its tests: our suite (in make test, too, if make mariadb was run), and those that the server has for any engine; half an hour
	scripts/mariadb-test

mariadb-bench: ## sysbench and whole tables on InnoDB and on it, in turn: an hour and a half; VOLUME=3000 on a volume with that limit (root)
	scripts/mariadb-bench
	scripts/mariadb-bench-scans

bench: ## Cost of the scheduler core per request (criterion)
	$(CARGO) bench --locked --package iolane-sched

.PHONY: deb deb-test
deb: ## Debian packages, to target/debian: iolane, iolane-dkms, libiolane0 and libiolane-dev, and iolane-mariadb after make mariadb
	scripts/deb

deb-test: ## Those packages in a fresh Debian 12 (debootstrap, root): install, demo, upgrade, purge
	scripts/deb-test

peers: ## The store beside InnoDB, SQLite, RocksDB, LMDB and redb: twenty minutes (docs/peers.md)
	scripts/peers build --release
	@set -e; for experiment in $(PEERS); do target/peers/release/iolane-peers $$experiment; done

peers-test: ## Tests of that comparison, with tiny sizes
	scripts/peers test --release -- --test-threads 1

peers-lint: ## Format and clippy of that comparison
	scripts/peers fmt --check
	scripts/peers clippy --release --all-targets -- -D warnings

lint: ## Format, clippy, documentation and house rules, each without a warning
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) check --locked --package iolane-store --features shuttle --lib --profile test
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps
	scripts/tidy

package: ## Crates as a registry would get them, each library built from its own: target/package
	$(CARGO) package --locked $(addprefix --package ,iolane-sched iolane-disk iolane iolane-store iolane-capi iolane-store-capi iolane-aio)

doc: ## API documentation: target/doc/iolane/index.html
	$(CARGO) doc --locked --workspace --no-deps
