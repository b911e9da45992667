# make demo        a virtual environment, then a real two-node training job on this machine
# make test        lint, types, imports, and the tests with one case of each kind
# make test-all    all cases of the tests, more trials of each fault, and random inputs
# make versions    the tests of our dependencies at their lowest and newest versions (part of make test)
# make lint        ruff, mypy, import-linter, shellcheck
# make docs        the documentation as a site, in .venv/site; broken links fail (part of make test)
# make bench       the benchmarks, and one table of them; WRITE=1 puts it into the documentation
# make strategies  every strategy run on the test cluster, as a table; ALL=1 under every launcher
# make faults      every kind of fault on real submits, to the full count, as a table; goes on where it stopped
# make clean       remove the virtual environment and caches

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
PINS := requirements/constraints.txt
# Another Python as PYTHON=…; else the first of these on PATH that is at least 3.11.
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; \
  done)
endif
# What is installed depends on these two files alone, so a second run finds its stamp and does nothing.
KEY := $(shell cat pyproject.toml $(PINS) | sha256sum | cut -c1-12)
# What the benchmarks measure beside jobgen, in an environment of its own.
override PEER_VENV := .venv-peers
PEERS_PINS := requirements/peers.txt
PEERS_KEY := $(shell sha256sum <$(PEERS_PINS) | cut -c1-12)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint $(PINS)

.PHONY: help demo test test-all versions docs lint ruff mypy imports shellcheck bench strategies faults clean cluster-packages
help:
	@sed -n 's/^# make /make /p' Makefile

demo: $(VENV)/.demo-$(KEY)
	PATH="$(abspath $(BIN)):$$PATH" jobgen submit examples/digits-ddp/job.yaml --cluster local --follow
	@echo 'To use jobgen in this shell: source $(BIN)/activate'

# Where the cluster cannot run, its tests are skipped and said so. Six workers keep two cores busy:
# the tests of the cluster wait two thirds of their time.
test: $(VENV)/.test-$(KEY) cluster-packages
	@$(MAKE) --no-print-directory --jobs=3 lint docs versions
	$(BIN)/python -m pytest -n 6 $(PYTEST_ARGS)

test-all: PYTEST_ARGS += --full --faults 3 --mutations 1000
test-all: test

versions: $(VENV)/.test-$(KEY)
	VENV=$(VENV) $(BIN)/python scripts/versions

# Strict: a broken link or a page without an entry in the navigation fails.
docs: $(VENV)/.test-$(KEY)
	$(BIN)/mkdocs build --quiet --site-dir $(VENV)/site

lint: ruff mypy imports shellcheck
ruff: $(VENV)/.test-$(KEY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
mypy: $(VENV)/.test-$(KEY)
	$(BIN)/mypy
imports: $(VENV)/.test-$(KEY)
	$(BIN)/lint-imports --no-cache
shellcheck: $(VENV)/.test-$(KEY)
	$(BIN)/shellcheck jobgen/payload/*.sh scripts/cluster-packages .ci/run

bench: $(VENV)/.test-$(KEY) $(PEER_VENV)/.installed-$(PEERS_KEY)
	$(BIN)/python scripts/benchmarks --peers $(PEER_VENV)/bin $(if $(WRITE),--write)

strategies: $(VENV)/.test-$(KEY) cluster-packages
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/strategies $(if $(ALL),--all)

faults: $(VENV)/.test-$(KEY) cluster-packages
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python scripts/faults $(if $(WORKERS),--workers $(WORKERS))

cluster-packages:
	@scripts/cluster-packages

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "jobgen needs Python 3.11 or newer: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment: on Debian, apt-get install python3-venv" >&2; exit 1; }

$(VENV)/.demo-$(KEY): | $(VENV)/bin/python
	@echo "Installing jobgen and the demo's packages into $(VENV) (once; PyTorch is large)"
	$(PIP) --editable '.[demo]'
	@touch $@

$(VENV)/.test-$(KEY): | $(VENV)/bin/python
	@echo "Installing jobgen and all that the tests use into $(VENV) (once; it takes minutes)"
	$(PIP) --editable '.[dev,demo]' editables hatchling ninja py-cpuinfo setuptools
	$(PIP) --no-build-isolation --editable '.[dev,docs,train,frameworks]'
	$(PIP) --no-deps torchtitan==0.3.0  # its data sets and kernels are not needed to read its options
	@echo "Compiling what DeepSpeed needs on CPUs (once)"
	@$(BIN)/python -W ignore -m tests.extensions || \
	  echo "not compiled, as said above: tests of DeepSpeed will fail" >&2
	@touch $@ $(VENV)/.demo-$(KEY)

# Without a network the benchmarks run, and leave these rows out.
$(PEER_VENV)/.installed-$(PEERS_KEY): | $(VENV)/bin/python
	@echo "Installing what the benchmarks compare with into $(PEER_VENV) (once)"
	@$(BIN)/python -m venv --clear --without-pip $(PEER_VENV) && $(BIN)/python -m pip \
	  --disable-pip-version-check --python $(PEER_VENV)/bin/python install --quiet \
	  --requirement $(PEERS_PINS) && touch $@ || rm -rf $(PEER_VENV)

clean:
	rm -rf $(VENV) $(PEER_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
