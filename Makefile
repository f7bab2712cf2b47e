# What one does with this repository. `make help` lists the targets.

CARGO ?= cargo

.PHONY: help run test built-tests quick lint api doc package kill-test full-disk-test seeded-bugs fuzz tsan strace-check model-check coverage bench bench-peers bench-features bench-operations bench-waits instructions soak install capi-check python-check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build, then load, update, scan, reopen and check a database of 1 GB under target/
	@scripts/run.sh

# Each of these waits for the device, a timer or one thread now and then: two at a time keep two cores busy.
SIDE_BY_SIDE = kill-test built-tests seeded-bugs fuzz tsan model-check full-disk-test strace-check capi-check python-check

# Each step has a limit after which it fails and says what it waited for (scripts/limited.sh). The workspace
# tests come last, so that the log ends with their summary.
test: ## everything that must pass before a change goes in
	@for step in lint doc package; do scripts/limited.sh $$step $(MAKE) --no-print-directory $$step || exit 1; done
	@MAKE=$(MAKE) scripts/side_by_side.sh $(SIDE_BY_SIDE)
	@echo "== tests, with the fixed seeds"
	env -u UNIKV_TIMES -u UNIKV_SEEDS -u UNIKV_STEPS scripts/limited.sh tests $(CARGO) test --workspace --locked

built-tests:
	@echo "== building the tests"
	$(CARGO) test --workspace --locked --no-run --quiet

quick: ## the tests of the engine alone
	$(CARGO) test -p unikv-db --locked

lint: ## formatting, clippy with warnings denied, layers and widths, the public interface, words and links in the documents
	@scripts/check_links.sh
	@scripts/check_words.sh
	@echo "== formatting"
	$(CARGO) fmt --all --check
	$(CARGO) fmt --check --manifest-path crates/unikv-bench-peers/Cargo.toml
	$(CARGO) fmt --check --manifest-path crates/unikv-api/Cargo.toml
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	@echo "== clippy"
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@echo "== clippy, with the features that are off by default alone"
	$(CARGO) clippy -p unikv-db --all-targets --no-default-features --features tracing --locked -- -D warnings
	@echo "== layers, lengths and widths"
	$(CARGO) test -p unikv-db --locked --test layers --quiet
	@echo "== public interface"
	@CARGO="$(CARGO)" scripts/api.sh check

api: ## write the public interface to docs/api.txt, and the help of the command to docs/help.txt
	@CARGO="$(CARGO)" scripts/api.sh

doc: ## build the documentation, warnings denied
	@echo "== documentation"
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

package: ## the package as it would be published builds by itself
	@echo "== package"
	$(CARGO) package -p unikv-db --allow-dirty --locked

kill-test: ## kill a writing process 12 times, and one that does all kinds of job 6 times; verify what they acknowledged
	@echo "== kill -9"
	$(CARGO) build --locked --quiet -p unikv-cli
	UNIKV=$(or $(CARGO_TARGET_DIR),target)/debug/unikv scripts/kill_test.sh $(or $(KILLS),12)
	UNIKV=$(or $(CARGO_TARGET_DIR),target)/debug/unikv LOAD=jobs scripts/kill_test.sh $(or $(JOB_KILLS),6)

full-disk-test: ## fill a small file system (a tmpfs, where mounting is allowed) and see writing resume
	@echo "== full disk"
	scripts/full_disk_test.sh

fuzz: ## run each fuzz target for some seconds: FUZZ_SECONDS=60 make fuzz
	@echo "== fuzz targets"
	scripts/fuzz.sh $(or $(FUZZ_SECONDS),6)

tsan: ## the engine's threads under ThreadSanitizer
	@echo "== ThreadSanitizer"
	scripts/tsan.sh

strace-check: ## every file access of the command, and their order, as seen by strace
	@echo "== strace"
	scripts/strace_check.sh

model-check: ## the lock-free structures under loom, the whole engine's threads under shuttle
	@echo "== model checkers"
	scripts/model_check.sh

seeded-bugs: ## tests of the tests: each mistake that the engine is told to make is caught
	@echo "== seeded bugs"
	scripts/seeded_bugs.sh

coverage: ## line coverage of the engine, by folder (not part of `test`)
	@scripts/coverage.sh

bench: ## the benchmark suite: results and a page (variables in scripts/suite.sh: SCALE=… EXPERIMENTS=…)
	@scripts/suite.sh

bench-peers: ## the same beside RocksDB, LevelDB, fjall, redb, LMDB, Pebble and BadgerDB (scripts/suite.sh names what that takes)
	@PEERS=1 scripts/suite.sh

bench-features: ## features (deletes, keyspaces, transactions) beside RocksDB and fjall: FEATURES="--only queue"
	$(CARGO) run --release --locked --quiet --manifest-path crates/unikv-bench-peers/Cargo.toml \
		--no-default-features --features fjall,rocksdb --bin features -- $(or $(DIR),target/features) $(FEATURES)

bench-operations: ## checkpoints, backups, secondaries, the change feed, instruments: OPERATIONS="--only feed"
	$(CARGO) run --release --locked --quiet -p unikv-bench --bin operations -- \
		$(or $(DIR),target/operations) $(OPERATIONS)

bench-waits: ## how long one call makes others wait, by scenario: WAITS="--only batches"
	$(CARGO) run --release --locked --quiet -p unikv-bench --bin waits -- \
		$(or $(DIR),target/waits) $(WAITS)

instructions: ## instructions of put, get and scan as callgrind counts them, against limits and the map (not part of `test`)
	@scripts/instructions.sh
	@scripts/map_check.sh

soak: ## hours of randomised tests, fuzzing, models, kills and load: TIMES=20 make soak
	@scripts/soak.sh

PREFIX ?= /usr/local

install: ## the C library, its header and pkg-config files: PREFIX=/usr/local
	scripts/install_capi.sh "$(PREFIX)"

capi-check: ## the C library under valgrind and AddressSanitizer, and under programs written for LevelDB
	@echo "== C library"
	scripts/capi_check.sh
	scripts/capi_outside.sh

python-check: ## the Python package: its tests, those of plyvel, examples and types
	@echo "== Python package"
	scripts/python_check.sh

clean: ## remove everything built
	$(CARGO) clean
