# Everything runs in a local environment (.venv), which `make setup` creates from the lock file.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
help: ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## install everything into .venv, or say what is missing
	@scripts/setup.sh

demo: setup ## join two tables on Spark and draw the plans; then create a table, stream into it, correct and maintain it
	@$(PYTHON) -m examples.demo && $(PYTHON) -m examples.pipeline

test: setup ## run the tests to run before a push, Spark's main paths included (about a quarter of an hour on two cores), or PYTEST_ARGS="-k snapshots"
	@$(if $(PYTEST_ARGS),$(PYTHON) -m pytest $(PYTEST_ARGS),python3 scripts/ci.py push)

test-all: setup ## run every test: Spark, faults and kills, the JVM's readers and writers (more than an hour on two cores)
	@CI_LAST_MINUTE=600 python3 scripts/ci.py tests

fuzz: setup ## change inputs of all parsers, guided by coverage: MINUTES=10
	@scripts/fuzz.sh $(or $(MINUTES),10)

sbom: setup ## write the bill of materials, build/sbom.json (CycloneDX)
	@scripts/sbom.sh build/sbom.json

fuzz-tables: setup ## damage tables and read them (slow): FUZZ_ARGS="--seed 7 --cases 5000", or --corpus
	@$(PYTHON) -m tests.fuzz $(or $(FUZZ_ARGS),--seed 1 --cases 3000)

differential: setup ## compare two ways to one answer with new seeds, for MINUTES=30: DIFFERENTIAL_ARGS="--spark", or "--seed 7 --rounds 1"
	@$(PYTHON) -m tests.differential --minutes $(or $(MINUTES),30) $(DIFFERENTIAL_ARGS)

lowest: ## run tests without Spark with the lowest versions of all dependencies that are allowed
	@scripts/lowest.sh

soak: setup ## write, stream and maintain one table of each format for MINUTES=60: memory and open files stay flat
	@$(PYTHON) -m tests.soak --minutes $(or $(MINUTES),60) $(SOAK_ARGS)

simulate: setup ## interleave writers, readers and faults over tables in memory, by seeds (hours): SIMULATE_ARGS="--seeds 1000 --from 7"
	@$(PYTHON) -m tests.simulation $(or $(SIMULATE_ARGS),--seeds 100000 --processes 2)

smoke-4.1: setup ## read one table of each format on PySpark 4.1, the oldest supported, or PYSPARK=4.2
	@PYSPARK=$(or $(PYSPARK),4.1) scripts/smoke_spark41.sh

smoke-sail: setup ## read, write and change tables on Sail, which speaks Spark Connect without a JVM
	@scripts/smoke_sail.sh

test-interop: setup ## exchange tables with the JVM implementations, on Spark and on Flink (downloads JARs from Maven)
	@scripts/interop.sh $(PYTEST_ARGS)

oracle: setup ## take steps here and by the JVM implementations in turn, by seeds; both must read the same: ORACLE_ARGS="--format delta --seeds 75 --from 0"
	@scripts/spark41_env.sh && PYTHONPATH=. .venv-spark41/bin/python -m interop.histories $(or $(ORACLE_ARGS),--seeds 20)

test-wheel: setup ## build the wheel; test it in fresh environments: the README with all extras, then each extra alone
	@scripts/wheel.sh

check: lint ## run lint, and all tests except slow ones and those on Spark
	@$(PYTHON) -m pytest -q -n 2 -m "not spark and not slow"

lint: setup ## ruff, import-linter, mypy, docstrings of public names
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports
	@.venv/bin/mypy
	@$(PYTHON) scripts/check_docstrings.py

format: setup ## format the code
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench: setup ## measure speed against peers, side by side, and print the ratios
	@$(PYTHON) -m benchmarks $(BENCH_ARGS)

bench-quick: setup ## a minute of in-process work against its rivals; fails where a ratio is 20% worse than benchmarks/quick.json
	@$(PYTHON) -m benchmarks.quick $(BENCH_ARGS)

site: ## build the documents as a site into build/site, in an environment of its own (build/site-venv)
	@scripts/site.sh

notebook: setup ## open a notebook in JupyterLab, in an environment of its own: NOTEBOOK=tour, streaming_upserts, table_doctor
	@scripts/notebook.sh $(or $(NOTEBOOK),tour)

clean: ## remove what the targets created
	rm -rf .venv .venv-spark41 .venv-sail .venv-lowest demo-output build .pytest_cache .mypy_cache .ruff_cache

.PHONY: oracle help setup demo test test-all check fuzz fuzz-tables sbom smoke-4.1 smoke-sail test-interop test-wheel lint format bench bench-quick clean differential soak site simulate lowest notebook
