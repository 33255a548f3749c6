# Needs make and Python 3.11 or newer, nothing else: every target makes the environment it needs.
#   make demo TRACE=file    replay a recorded trace in place of the generated workload
#   make bench-events VLLM=wheel  measure beside vLLM's publisher; ARGS=latency narrows it
#   make test ARGS='-k x'   further arguments for pytest
#   make test JOBS=4        number of test processes
#   PYTHON=python3.12       the Python to make the environment with
#   make test-gpu CUDA=12   with CuPy for CUDA 12 in place of 13
#   VENV=folder             where the environment is

PYTHON ?=
VENV ?= .venv
JOBS ?= auto
TRACE ?=
VLLM ?=
ARGS ?=
CUDA ?= 13

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet
HOST_PATH := $(PATH)
export PATH := $(abspath $(BIN)):$(HOST_PATH)

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-gpu check lint format types protos protos-check docs docs-check breaking chart promtool bench bench-recovery bench-index bench-events bench-lasting bench-bulk clean all

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/.dev ## Make the environment with everything for development

demo: $(VENV)/.run ## Start two nodes and a proxy, replay a workload, check the result
	kvtier demo $(if $(TRACE),--trace '$(TRACE)')

test: $(VENV)/.test ## Run every test
	pytest -n $(JOBS) --maxprocesses=8 --dist=worksteal $(ARGS)

test-gpu: $(VENV)/.gpu ## Run the tests that need a GPU, and fail without one
	KVTIER_TEST_GPU=1 pytest -m gpu $(ARGS)

check: lint types protos-check docs-check breaking ## Run every static check

lint: $(VENV)/.dev ## Check style, import rules and the proto files
	ruff check
	ruff format --check
	lint-imports
	buf lint
	buf format --diff --exit-code

format: $(VENV)/.dev ## Format the code and the proto files
	ruff check --fix-only
	ruff format
	buf format --write

types: $(VENV)/.dev ## Check types
	mypy

protos: $(VENV)/.test ## Generate the Python code of the proto files
	python tools/gen_protos.py

protos-check: $(VENV)/.test ## Check that the committed generated code is what the proto files give
	python tools/gen_protos.py --check

docs: $(VENV)/.test ## Write the pages that are made from the code
	python -m tools.gen_docs

docs-check: $(VENV)/.test ## Check that the committed pages are what the code gives
	python -m tools.gen_docs --check

breaking: $(VENV)/.test ## Check that the API still serves the clients of the released one
	buf breaking --against protos/baseline.binpb

chart: $(VENV)/.test ## Lint and render the Helm chart, check the image
	pytest tests/chart $(ARGS)

promtool: $(VENV)/.made ## Fetch what the tests of alerts and dashboard run, where it is missing
	@tools/get_promtool.sh '$(BIN)'

bench: $(VENV)/.run ## Measure what a tier's bookkeeping costs
	python benchmarks/bookkeeping.py $(ARGS)

bench-recovery: $(VENV)/.run ## Measure how long a tier of files takes to find what it holds
	python benchmarks/recovery.py $(ARGS)

bench-index: $(VENV)/.run ## Measure what an index of many nodes costs
	python benchmarks/index.py $(ARGS)

bench-events: $(VENV)/.bench ## Measure what events cost, beside vLLM's with VLLM=wheel or folder
	python -m benchmarks.events $(if $(VLLM),--vllm '$(VLLM)') $(ARGS)

bench-lasting: $(VENV)/.test ## Measure files and objects that last, beside vLLM's file tier with VLLM=wheel
	python -m benchmarks.lasting $(if $(VLLM),--vllm '$(VLLM)') $(ARGS)

bench-bulk: $(VENV)/.bench ## Measure what moving blocks costs, beside TCP, Redis and Arrow Flight
	python -m benchmarks.bulk $(ARGS)

clean: ## Remove the environment and everything that was made
	rm -rf '$(VENV)' dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

all: check promtool test ## Everything that continuous integration runs

# Stamps: an environment is installed into again only when pyproject.toml changed.
$(VENV)/.made: tools/make_venv.sh
	@echo 'Making the environment $(VENV) ...'
	@PATH='$(HOST_PATH)' tools/make_venv.sh '$(VENV)' '$(PYTHON)'
	@touch $@

$(VENV)/.run: $(VENV)/.made pyproject.toml
	@echo 'Installing kvtier with its server ...'
	@$(PIP) --editable '.[server]'
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@echo 'Installing what the benchmarks need ...'
	@$(PIP) --editable '.[server]' --group bench
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo 'Installing what the tests need ...'
	@$(PIP) --editable '.[server,s3,otel]' --group test
	@$(PIP) --group torch-cpu || echo 'No build of torch for the CPU was found; its tests are skipped.'
	@touch $@

# The tests elsewhere bring a torch for the CPU alone, which pip would leave in place.
$(VENV)/.gpu: $(VENV)/.run
	@echo 'Installing what the tests on a GPU need ...'
	@$(BIN)/python -m pip --quiet uninstall --yes torch
	@$(PIP) --editable '.[server,s3,otel,cuda$(CUDA),torch]' --group test
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@echo 'Installing what the checks need ...'
	@$(PIP) --editable '.[server,s3,otel]' --group test --group dev
	@touch $@
