# Everything runs in a local environment (.venv) that `make setup` makes from the lock file.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

help: ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## install everything into .venv; says what is missing
	@scripts/setup.sh

demo: setup ## two tables joined on Spark, plans drawn; then a table's life: created, streamed into, corrected, kept in order
	@$(PYTHON) -m examples.demo && $(PYTHON) -m examples.pipeline

test: setup ## run all tests
	@$(PYTHON) -m pytest $(PYTEST_ARGS)

fuzz: setup ## damage tables and read them, for long: FUZZ_ARGS="--seed 7 --cases 5000", or --corpus
	@$(PYTHON) -m tests.fuzz $(or $(FUZZ_ARGS),--seed 1 --cases 3000)

smoke-4.1: setup ## read one table of each format on PySpark 4.1, the oldest supported
	@scripts/smoke_spark41.sh

test-interop: setup ## read what the JVM implementations write (JARs from Maven)
	@scripts/interop.sh $(PYTEST_ARGS)

test-wheel: setup ## build the wheel; run the README with all extras, and each extra alone, in fresh environments
	@scripts/wheel.sh

lint: setup ## ruff, import-linter, mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports
	@.venv/bin/mypy

format: setup ## format the code
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench: setup ## measure against peers, side by side, and print ratios
	@$(PYTHON) -m benchmarks $(BENCH_ARGS)

clean: ## remove what the targets made
	rm -rf .venv .venv-spark41 demo-output build .pytest_cache .mypy_cache .ruff_cache

.PHONY: help setup demo test fuzz smoke-4.1 test-interop test-wheel lint format bench clean
