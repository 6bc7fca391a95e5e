# What can be done here. Each target installs what it needs by apt-get (root or sudo) and nothing by hand; on a machine
# that has it all, installing takes no time. Debian 12, the Rust toolchain and make are all that must be there.
#
#   make demo     a real server with a leak, opened while it serves, until lancet has named the line
#   make test     format, lints, all tests with this machine's Ruby, documentation
#   make quick    format, lints, the tests without real processes and one live test a command: while you write
#   make matrix   the tests on real VMs again with Ruby 2.7, 3.3, 3.4 and 4.0, Python 3.9, 3.13 and 3.14, Perl 5.32 and 5.40,
#                 PHP 7.4 and 8.4; the readers of VMs also with Debian 12's own in a root
#   make soak     the long forms: 1,000 attaches, 1,000 kills, 10,000 patches, ltrace's and strace's own test suites; every reader fuzzed for FUZZ seconds (60)
#   make build    target/lancet, one static program
#   make install  it, its man pages and completions below PREFIX (/usr/local), DESTDIR in front; after make build
#   make uninstall  takes out what make install has put there
#   make deb      the same as a Debian package in target/
#   make gem      the gem, and
#   make wheel    the wheel, each with the program in it, in target/
#   make image    a container image of the program and licences alone, in target/: podman load -i FILE, skopeo copy oci-archive:FILE …
#   make dist     the files of a release, with checksums, licences and what the program is made of, in target/dist
#   make bench    cost, beside the rivals, in the same run
#   make help     this
#   make roots    the Rubies and Pythons that matrix uses, as roots in $LANCET_ROOTS

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

RUBIES := 2.7 3.1 3.3 3.4 4.0
# What `make test` has run whole on the machine's own, Debian 12's, is not run again on the same version in a root.
OTHER_RUBIES := $(filter-out 3.1,$(RUBIES))
PYTHONS := 3.9 3.11 3.13 3.14 3.15
FREE_THREADED := 3.13t 3.14t 3.15t
FUZZ := 60
PERLS := 5.32 5.36 5.40 5.42 5.44
PHPS := 7.4 8.2 8.4 8.5 8.6
SCRIPTS := $(filter-out python-3.11 perl-5.36 php-8.2,$(PYTHONS:%=python-%) $(PERLS:%=perl-%) $(PHPS:%=php-%))
# The tests of `calls` that other versions may fail: opcode caches, libraries loaded late, drivers, coroutines, raises, lines through libraries,
# values in conditions.
OF_VERSIONS := opcache:: late:: drivers:: coroutines:: nasty:: through:: compared::
# The tests of `heap` and `stack` that ask other versions (the house test `matrix` holds that none is forgotten): what is left would
# run on the machine's own once more.
HEAP_OF_VERSIONS := clean:: collector:: compact:: core:: fragmented:: holders:: killed:: ledger:: named:: native:: perl:: php:: python_truth:: screen:: surroundings:: \
	truth:: unseen::
STACK_OF_VERSIONS := bigframe:: fibers:: free_threaded:: jit:: languages:: moments:: profile:: profile_waits:: waits:: without_table::
# The gem and the wheel speak to a VM in its documented interface for extensions: the oldest and the newest.
GEM_RUBIES := 2.7 3.4 4.0
WHEEL_PYTHONS := python-3.9 python-3.15
# Tests that try random instants share their rounds among the versions.
PARTS := 3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
LANCET := $(TARGET)/lancet
# The program that tests run: built in half the time of the one above, and not smaller or faster by what only the linker sees.
TESTED := $(TARGET)/tests/lancet
PREFIX := /usr/local

export LANCET_ROOTS ?= $(HOME)/.cache/lancet/roots
# Rivals that Debian does not have.
export LANCET_RIVALS ?= $(HOME)/.cache/lancet/rivals

# Roots are made and entered as root; the tests that enter them are built as the user and run by sudo.
ROOT := $(shell (( EUID == 0 )) || echo sudo)
ifneq ($(ROOT),)
AS_ROOT := CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="sudo -E"
endif

.PHONY: all demo test quick matrix soak bench roots build install uninstall deb gem wheel image dist help \
	deps deps-test deps-demo deps-matrix deps-soak deps-bench deps-dist

all: build

help:
	@sed -n 's/^#   make/  make/p; /^SHELL/q' Makefile

# To link a Rust program.
deps:
	@.ci/apt gcc libc6-dev binutils

deps-test: deps
	@.ci/apt ruby perl php-cli php-mysql binutils xz-utils strace valgrind g++ gdb pkg-config iproute2 ethtool puma ruby-eventmachine curl \
		libpython3.11 libperl5.36 libmariadb3 libssl3 php8.2-cli libjemalloc2 libtcmalloc-minimal4
# Programs with another C library, or linked statically and stripped; an emulator.
	@.ci/apt musl-tools busybox-static bash-static qemu-user
# A database and each language's driver for it; coroutines.
	@.ci/apt mariadb-server-core mariadb-client-core ruby-mysql2 ruby-sequel ruby-sinatra ruby-railties ruby-actionpack python3-mysqldb libdbd-mysql-perl \
		python3-greenlet python3-gevent python3-pymysql python3-django ruby-sqlite3 gunicorn php8.2-fpm \
		uwsgi-core uwsgi-plugin-python3
# What a Perl says of its own heap.
	@.ci/apt libdevel-mat-perl libdevel-mat-dumper-perl libdevel-size-perl
# Headers that the bundled prototypes are held against.
	@.ci/apt libunwind-14-dev
	@.ci/apt zlib1g-dev libsqlite3-dev libcurl4-openssl-dev libssl-dev libpq-dev libmariadb-dev \
		ruby-dev python3-dev libperl-dev php-dev
	@.ci/apt python3 python3-venv python3-greenlet python3-numpy
# The gem and the wheel: built, installed, and what their pages show for tests.
	@.ci/apt rake ruby-minitest ruby-rspec-core ruby-rspec-expectations ruby-sidekiq python3-pytest python3-uvicorn python3-websockets
	@.ci/rival py-spy opentelemetry-proto mcp duckdb

deps-demo: deps
	@.ci/apt ruby puma ruby-sinatra wrk curl

deps-matrix: deps-test
	@.ci/apt debian-archive-keyring

deps-bench: deps
	@.ci/apt python3 ruby ruby-memory-profiler ruby-stackprof puma ruby-sinatra wrk curl linux-perf procps \
		ruby-dev binutils ltrace strace uftrace bpftrace python3-venv gdb elfutils time valgrind php-cli php-dev libjudy-dev
	@.ci/rival py-spy frida memray memprof rbspy

# Nothing in CI builds this program, which takes minutes of a core; whoever builds it sees whether it works.
build: deps
	.ci/package build $(LANCET)
	.ci/smoke $(LANCET)

# Needs no toolchain, so that `sudo make install` does not either.
install:
	.ci/package install $(LANCET) $(DESTDIR)$(PREFIX)

uninstall:
	.ci/package uninstall $(DESTDIR)$(PREFIX)

deps-dist: deps
	@.ci/apt git python3 rake ruby

deb: build
	.ci/package deb $(LANCET) $(TARGET)

gem: build deps-dist
	.ci/package gem $(LANCET) $(TARGET)

wheel: build deps-dist
	.ci/package wheel $(LANCET) $(TARGET)

image: build
	@.ci/apt buildah
	.ci/package image $(LANCET) $(TARGET)

dist: build deps-dist
	.ci/package dist $(LANCET) $(TARGET)/dist

demo: deps-demo
	@echo "building lancet …"
	@.ci/package quick $(TESTED)
	@fixtures/ruby/server/demo $(TESTED)

test: deps-test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	CARGO_TARGET_DIR=$(TARGET) cargo check --quiet --no-default-features --manifest-path fuzz/Cargo.toml
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
	.ci/package quick $(TESTED)
	.ci/package deb $(TESTED) $(TARGET)/tests
	.ci/smoke $(TESTED)
	.ci/tests_test.py
	LANCET_BIN=$(TESTED) .ci/tests --workspace

quick: deps-test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	.ci/package quick $(TESTED)
	LANCET_BIN=$(TESTED) .ci/tests --quick --workspace

roots: deps-matrix
	$(ROOT) env LANCET_ROOTS=$(LANCET_ROOTS) fixtures/roots/make $(RUBIES:%=ruby-%) $(PYTHONS:%=python-%) \
	  $(FREE_THREADED:%=python-%) \
	  $(PERLS:%=perl-%) $(PHPS:%=php-%)

# One run, so that nobody waits for the longest test of each set.
matrix: roots
	.ci/package quick $(TESTED)
	$(AS_ROOT) LANCET_BIN=$(TESTED) LANCET_PART=$(PARTS) .ci/tests \
	  LANCET_RUBIES="$(OTHER_RUBIES)" -p lancet --test mem + \
	  LANCET_RUBIES="$(OTHER_RUBIES)" LANCET_SCRIPTS="$(SCRIPTS)" -p lancet --test heap -- $(HEAP_OF_VERSIONS) + \
	  LANCET_RUBIES="$(OTHER_RUBIES)" LANCET_SCRIPTS="$(SCRIPTS)" -p lancet --test calls -- $(OF_VERSIONS) + \
	  LANCET_RUBIES="$(GEM_RUBIES)" LANCET_SCRIPTS="$(WHEEL_PYTHONS)" -p lancet --test inside -- gem:: wheel:: + \
	  -p lancet-vm --test live + \
	  -p lancet --test stack -- $(STACK_OF_VERSIONS) + \
	  LANCET_RUBIES="$(OTHER_RUBIES)" LANCET_SCRIPTS="$(SCRIPTS)" -p lancet --test patch -- scripts::

# Miri, ThreadSanitizer and cargo-fuzz want a nightly toolchain and the source of the standard library.
deps-soak: deps-test
	@.ci/apt valgrind dejagnu g++ make gawk curl xz-utils ca-certificates buildah
# Programs of which everything is hooked.
	@.ci/apt golang-go nodejs default-jdk-headless redis-server redis-tools nginx-light php8.2-fpm
# Frameworks of which nobody is to be suspected.
	@.ci/apt python3-fastapi python3-uvicorn python3-pandas supervisor libmojolicious-perl starman ruby-sidekiq redis-server rubocop
# What Redmine depends on.
	@.ci/apt mariadb-server-core mariadb-client-core puma rake ruby-rails ruby-actionpack-action-caching ruby-actionpack-xml-parser \
		ruby-commonmarker ruby-csv ruby-html-pipeline ruby-jquery-rails ruby-mail ruby-mini-mime ruby-mysql2 ruby-net-ldap ruby-nokogiri \
		ruby-rails-observers ruby-rbpdf ruby-redcarpet ruby-request-store ruby-roadie-rails ruby-rotp ruby-rouge ruby-rqrcode \
		ruby-sanitize ruby-task-list ruby-zip
	@.ci/rival redmine
# Built from its source, in minutes: one test holds our frames against it, and the bench.
	@.ci/rival rbspy
# What reads forms that lancet writes; npm installs one of them, with the node that it wants. The nodejs of others has npm in it.
	@command -v npm >/dev/null || .ci/apt npm
	@.ci/rival --must opentelemetry-proto profiler-cli mcp
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
	@rustup -q component add --toolchain nightly miri rust-src || \
		rustup -q toolchain install nightly --profile minimal --component miri --component rust-src

soak: deps-soak roots
	.ci/package build $(LANCET)
	.ci/smoke $(LANCET)
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 LANCET_RUBIES="system $(RUBIES)" cargo test -p lancet --test mem
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 LANCET_RUBIES="system $(RUBIES)" \
		LANCET_SCRIPTS="$(patsubst %,%-system,python perl php) $(SCRIPTS)" cargo test -p lancet --test heap
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 LANCET_RUBIES="system $(RUBIES)" \
		LANCET_SCRIPTS="$(patsubst %,%-system,python perl php) $(SCRIPTS)" cargo test -p lancet --test calls
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 LANCET_RUBIES="system $(RUBIES)" LANCET_SCRIPTS="python-system $(PYTHONS:%=python-%)" \
		cargo test -p lancet --test patch
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 cargo test -p lancet --test inside -- redmine release::
	$(AS_ROOT) LANCET_BIN=$(LANCET) cargo test -p lancet --test stack rivals::
	$(AS_ROOT) LANCET_BIN=$(LANCET) LANCET_SOAK=1 cargo test -p lancet --test scenarios readers::
	LANCET_SOAK=1 cargo test --release -p lancet-recording --test all growth::
	crates/switch/soak
	CARGO_TARGET_DIR=$(TARGET)/miri MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks" PROPTEST_CASES=4 \
		cargo +nightly miri test -p lancet-agent --lib
	LANCET_BIN=$(LANCET) crates/lancet/tests/ltrace-suite/run
	LANCET_BIN=$(LANCET) crates/lancet/tests/strace-suite/run
	fuzz/run $(FUZZ)

bench: deps-bench roots
	.ci/package build $(LANCET)
	.ci/smoke $(LANCET)
	.ci/package counted $(TARGET)/counted
	$(ROOT) env LANCET_ROOTS=$(LANCET_ROOTS) LANCET_RIVALS=$(LANCET_RIVALS) LANCET_BIN=$(LANCET) \
		LANCET_COUNTED_BIN=$(TARGET)/counted benches/run
	benches/switch/run
