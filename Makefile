# The commands of the tree. `make` alone lists them.

# Each recipe is one bash script: a stage that fails ends it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

# A fresh Rust is often not on PATH yet, and an ordinary user's PATH often lacks sbin (ip, tc, nft).
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH):/usr/sbin:/sbin

# What cargo builds runs through as-lab.sh, so that only the lab is ever root, not the compiler.
IN_LAB := --config "target.'cfg(unix)'.runner = 'deploy/as-lab.sh'"

# smoke belongs to make test; every other test target of the lab belongs to make test-lab.
LAB_TESTS := $(filter-out smoke,$(basename $(notdir $(wildcard tests/lab/tests/*.rs))))

.PHONY: help demo test shapes test-lab test-upgrade test-fleet packages test-packages test-rdma bench bench-peers soak fuzz clean

help: ## Lists the commands.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

# The dev profile: it builds several times faster than release, and the lab's rates are far below
# what either can send.
demo: ## Shows Reweave mend a collision of flows in a virtual cluster, take a mistake back, join fibres as jobs need them, and leave a dying optic.
	@deploy/setup.sh build lab
	cargo build --locked --workspace --bins
	source deploy/stage.sh 0
	with_tmpfs cargo run --locked $(IN_LAB) --bin reweave-demo

# All test stages build with --workspace, so that cargo builds each dependency once for all of them; and the
# programs beside a test, or else tokio, which tests want more of, and all upon it are built a second time.
PROGRAMS := cargo build --locked --workspace --bins --test tidy

# One pass compiles and lints: clippy's driver stands in for the compiler of our packages, here and in make test-lab, so
# that neither builds them again after the other.
LINTED := export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings

# Kernel tests that need another project's daemon or judge a measured rate, as substrings of their names.
# make test skips them; make test-lab runs each as a stage.
SLOW_KERNEL_TESTS := rates:: discovery:: drivers:: frr sonic::

# Plans for 16 hosts, which take 10 to 35 s each, likewise.
SLOW_PLANS := plans::dlrm16 plans::candle16 plans::transformer16

# The stage `timed` measures what users are promised, one test at a time: others would load the machine meanwhile.

# Replays the recorded hour a second time, which takes 20 s, likewise.
SLOW_REPLAYS := hardware_stamped_probes

# Many unit tests wait for sessions and processes more than they compute. Kernel tests each have a network of their own: on
# two cores the 96 of make test take 167 s one at a time, and 44 s four at a time.
UNIT_THREADS := $(shell echo $$((2 * $$(nproc))))
KERNEL_THREADS := 4

test: ## Runs all checks that every change must pass: logic, virtual time, and facts of the kernel.
	@deploy/setup.sh build checks lab
	$(LINTED)
	source deploy/stage.sh 10
	stage format cargo fmt --all --check
	stage locks  cargo fetch --locked --manifest-path tests/fuzz/Cargo.toml
	stage build  cargo test --no-run --locked --workspace --all-targets
	stage programs $(PROGRAMS)
	RUST_TEST_THREADS=$(UNIT_THREADS) stage unit with_summary cargo test --locked --workspace --no-fail-fast --lib --bins --test reference --test history --test strangers --test parting --test hostile --test words --test nccl -- --skip timed_ $(SLOW_PLANS:%=--skip %)
	stage tidy   cargo test --locked --workspace --test tidy
	stage trio   with_summary with_tmpfs cargo test --locked --workspace --test trio --test unheard -- --skip timed_
	stage timed  with_summary with_tmpfs cargo test --locked --workspace --test strangers --test parting --test trio timed_ -- --test-threads 1
	stage worlds cargo test --locked --workspace --test simulation --test replication --test rewiring -- $(SLOW_REPLAYS:%=--skip %)
	stage kernel with_summary with_tmpfs cargo test --locked --workspace $(IN_LAB) --test smoke --test kernel --test linux_hash -- --test-threads $(KERNEL_THREADS) $(SLOW_KERNEL_TESTS:%=--skip %)
	finish

# The helper that is linked with the verbs library lies apart from the plain one beside the agent.
RDMA := $(or $(CARGO_TARGET_DIR),target)/rdma
LINT_VERBS := cargo clippy --locked --package reweave-rdma --features rdma --target-dir $(RDMA) --all-targets -- -D warnings

test-lab: ## Runs the long tests in the lab: fabrics, faults, rates, and what Reweave does about them.
	@deploy/setup.sh build checks lab peers fuzz page verbs
	$(LINTED)
	source deploy/stage.sh 15
	REWEAVE_OPERATIONS=100000 stage history require_tests cargo test --locked --workspace --test replication long_history_is_linearizable
	for replay in $(SLOW_REPLAYS); do stage $$replay require_tests cargo test --locked --workspace --test simulation $$replay; done
	stage verbs $(LINT_VERBS)
	stage build $(PROGRAMS)
	for plan in $(SLOW_PLANS); do stage $${plan##*:} require_tests cargo test --locked --workspace --test reference $$plan; done
	stage lab   require_tests with_tmpfs cargo test --locked --workspace $(IN_LAB) --no-fail-fast $(LAB_TESTS:%=--test %) --test system --test stories --test switched --test page --test quorum --test accuracy --test deploy --test circuits
	for part in $(SLOW_KERNEL_TESTS); do stage $${part%%:*} require_tests with_tmpfs cargo test --locked --workspace $(IN_LAB) --test kernel $$part; done
	stage fuzzers tests/fuzz/run.sh 0
	stage fuzz  tests/fuzz/run.sh 2
	finish .ci/skips-lab.txt

# The programs of the release before lie here.
BEFORE := $(abspath $(or $(CARGO_TARGET_DIR),target)/before)

test-upgrade: ## Exchanges three coordinators and 16 agents of the release before for those of this one and back, under a job.
	@deploy/setup.sh build lab
	source deploy/stage.sh 3
	stage before tests/upgrade/build.sh $(BEFORE)
	stage build $(PROGRAMS)
	REWEAVE_RELEASE_BEFORE=$(BEFORE) stage upgrade require_tests with_tmpfs cargo test --locked --workspace $(IN_LAB) --test stories rolling_upgrade
	finish

# The tool that packs them comes from crates.io, into a folder of its own.
PACKAGES := $(abspath $(or $(CARGO_TARGET_DIR),target)/packages)
PACKER := $(PACKAGES)/tools
PACK = cargo install --locked --quiet --root $(PACKER) --target-dir $(PACKER)/target cargo-deb@3.8.0; \
	CARGO_DEB=$(PACKER)/bin/cargo-deb deploy/packages/build.sh $(PACKAGES)

packages: ## Builds the Debian packages, which start nothing when they are installed.
	@deploy/setup.sh build packages
	$(PACK)

test-packages: ## Builds the packages, and has a machine with a systemd of its own install, upgrade, remove and purge them.
	@deploy/setup.sh build packages fleet
	source deploy/stage.sh 2
	pack() { $(PACK); }
	stage pack pack
	REWEAVE_PACKAGES=$(PACKAGES)/debian stage packages require_tests cargo test --locked --workspace $(IN_LAB) --test packages
	finish

test-fleet: ## Deploys to machines of the lab by Ansible, exchanges what they run, takes it back, and takes it away.
	@deploy/setup.sh build lab fleet
	source deploy/stage.sh 2
	stage build cargo build --locked --workspace --lib --bins
	stage fleet require_tests cargo test --locked --workspace $(IN_LAB) --test fleet
	finish

test-rdma: ## Boots two virtual machines with Soft-RoCE, and holds RDMA's figures against perftest's.
	@deploy/setup.sh build lab verbs rdma
	source deploy/stage.sh 5
	stage helper cargo build --locked --package reweave-rdma --features rdma --target-dir $(RDMA)
	stage verbs  $(LINT_VERBS)
	stage unit   cargo test --locked --package reweave-rdma --features rdma --target-dir $(RDMA)
	stage build  $(PROGRAMS)
	stage rdma   require_tests cargo test --locked --workspace $(IN_LAB) --test rdma
	finish

# SimGrid is in another language and behind its own library: one program, built here alone.
SIMGRID := $(or $(CARGO_TARGET_DIR),target)/bench-peers/simgrid
COMPILE_SIMGRID := g++ -O2 -std=c++17 -o $(SIMGRID) benches/peers/simgrid.cpp -lsimgrid

# Readers of Parquet and of APIs come from PyPI, the S3 server from crates.io, all into a folder of their own.
PEERS := $(abspath $(or $(CARGO_TARGET_DIR),target)/peers)

test-peers: ## Holds our crates against deny.toml, and what is kept, exchanged and predicted against pyarrow, DuckDB, schemathesis, curl, OpenTelemetry's messages, an S3 server, Slurm and torchrun, which are of other makers.
	@deploy/setup.sh build python lab launchers
	source deploy/stage.sh 10
	crates() {
		cargo install --locked --quiet --root $(PEERS) --target-dir $(PEERS)/target cargo-deny@0.20.2
		PATH=$(PEERS)/bin:$$PATH deploy/deny.sh
	}
	readers() {
		python3 -m venv $(PEERS)/python
		$(PEERS)/python/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 duckdb==2.0.0 \
			schemathesis==4.32.5 openapi-spec-validator==0.9.0 opentelemetry-proto==1.45.2
	}
	stage crates  crates
	stage readers readers
	stage server  cargo install --locked --quiet --root $(PEERS) --target-dir $(PEERS)/target s3s-fs@0.14.1 --features binary
	REWEAVE_S3_SERVER=$(PEERS)/bin/s3s-fs stage s3 cargo test --locked --package reweave-cli --features s3 --test s3
	REWEAVE_PYTHON=$(PEERS)/python/bin/python stage parquet require_tests cargo test --locked --package reweave-history --lib -- --ignored
	REWEAVE_PYTHON=$(PEERS)/python/bin/python stage traces require_tests cargo test --locked --package reweave-coordinator --bins otlp_library_reads_export -- --ignored
	REWEAVE_API_TOOLS=$(PEERS)/python/bin stage api require_tests cargo test --locked --package reweave-coordinator --test strangers -- --ignored
	stage build     $(PROGRAMS)
	stage launchers require_tests cargo test --locked --workspace $(IN_LAB) --test launchers
	stage predictions require_tests cargo test --locked --workspace $(IN_LAB) --test prediction_accuracy -- --nocapture
	finish

bench: ## Measures on this machine what the planner's parts and the agent take, beside what is asked of them.
	@deploy/setup.sh build lab simgrid
	mkdir -p $(dir $(SIMGRID))
	$(COMPILE_SIMGRID)
	cargo run --locked --release --package reweave-benches -- --race $(SIMGRID) $(BENCHES)
	$(if $(filter-out agent,$(BENCHES)),,cargo bench --locked $(IN_LAB) --package reweave-agent --bench cost)
	$(if $(filter-out crowd,$(BENCHES)),,$(CROWD) load; $(CROWD) face; $(CROWD) reconnect; $(CROWD) flood; $(CROWD) rollout; $(CROWD) page)

# All programs, and one of the benches that starts them.
BUILT := cargo build --locked --release --workspace --bins
CROWD = $(BUILT); cargo run --locked --release --package reweave-benches --bin reweave-bench-crowd --
TRIOS := cargo run --locked --release $(IN_LAB) --package reweave-benches --bin reweave-bench-coordinators --

bench-peers: ## Compares the simulator with SimGrid, and the coordinators with etcd.
	@deploy/setup.sh build lab simgrid etcd
	source deploy/stage.sh 5
	mkdir -p $(dir $(SIMGRID))
	stage compile  $(COMPILE_SIMGRID)
	stage compare  cargo run --locked --release --package reweave-benches -- --peers $(SIMGRID)
	stage build    $(BUILT)
	stage commits  $(TRIOS) commits
	stage failover $(TRIOS) failover
	finish

soak: ## Lives tens of thousands of troubled clusters, and plants mistakes to see them noticed. Hours.
	@deploy/setup.sh build lab peers soak verbs rdma
	source deploy/stage.sh 22
	export PROPTEST_RNG_SEED=$$(od --address-radix=n --read-bytes=4 --format=u4 /dev/urandom | tr -d ' ')
	echo "PROPTEST_RNG_SEED=$$PROPTEST_RNG_SEED tries these cases again"
	PROPTEST_CASES=2560 stage properties cargo test --locked --release --workspace --lib
	REWEAVE_SEEDS=10000 stage worlds cargo test --locked --release --workspace --test replication --test simulation --test rewiring
	REWEAVE_OPERATIONS=1000000 stage history require_tests cargo test --locked --release --workspace --test replication long_history_is_linearizable
	stage courses require_tests cargo test --locked --release --package reweave-core --lib -- --ignored plan::migration::tests
	REWEAVE_DEATHS=20 stage deaths require_tests cargo test --locked --release --workspace --test rewiring deaths
	REWEAVE_WALKS=50000 REWEAVE_CRASHES=1 REWEAVE_MISHAPS=1 stage four cargo test --locked --release --workspace --test rewiring -- model::four_hosts model::walks
	REWEAVE_CRASHES=2 REWEAVE_MISHAPS=2 stage two require_tests cargo test --locked --release --workspace --test rewiring model::two_hosts
	stage planted tests/planted/run.sh
	stage clean require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- --ignored clean_hour_has_no_alarm
	stage pairs require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- --ignored narrow_host_link_is_named
	stage slower require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- --ignored slower_link_direction_is_named_alone
	stage ranks require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- --ignored timed_open_mpi_on_several
	stage rests require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- --ignored timed_bursty_jobs
	REWEAVE_RECONFIGURATIONS=1000 stage circuits require_tests cargo test --locked --workspace $(IN_LAB) --test circuits -- sessions_outlive_plans
	REWEAVE_RECONFIGURATIONS=100 stage switches require_tests cargo test --locked --workspace $(IN_LAB) --test switched -- sessions_outlive
	stage killed require_tests cargo test --locked --workspace $(IN_LAB) --test circuits -- --ignored crash_at_each_record_finishes_plan
	stage helper cargo build --locked --package reweave-rdma --features rdma --target-dir $(RDMA)
	stage programs $(PROGRAMS)
	REWEAVE_REROUTES=50 stage rdma require_tests cargo test --locked --workspace $(IN_LAB) --test rdma -- outlives
	REWEAVE_ALONE_S=600 stage alone require_tests cargo test --locked --workspace $(IN_LAB) --test circuits -- missing_coordinator_changes_nothing
	REWEAVE_ALONE_S=600 stage unconfirmed require_tests cargo test --locked --workspace $(IN_LAB) --test circuits -- unconfirmed_round_is_rolled_back
	stage demo require_tests cargo test --locked --workspace $(IN_LAB) --test demo
	finish

# How long each decoder is tried.
SECONDS ?= 10

shapes: ## Rewrites the files of formats on wire and disk, after a change of them before a release.
	@deploy/setup.sh build
	cargo test --locked --workspace --lib --bins -- --ignored golden_shapes_are_written

fuzz: ## Hands every decoder what a fuzzer thinks of, for SECONDS seconds each.
	@deploy/setup.sh build fuzz
	tests/fuzz/run.sh $(SECONDS)

clean: ## Removes what the commands above made here.
	@cargo clean
	rm -rf artifacts
