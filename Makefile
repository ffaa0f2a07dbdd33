# Antecast. `make demo` and `make test` set up everything they need; see tools/setup.sh.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-plain test-spark test-large fuzz release lint format bench blocks results lock clean
bin := .venv/bin

help:  ## show this help
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup:  ## make a virtual environment in .venv with everything that is needed; then: . .venv/bin/activate
	@./tools/setup.sh

demo: setup  ## reproduce the papers' experiments on Spark at a small size, from nothing to tables and a report
	@$(bin)/antecast reproduce all --quick

test: setup lint  ## check style and types, run all tests
	@./tools/test.sh

test-plain: setup  ## run the tests that need no Spark
	@$(bin)/python -m pytest -q -n 2 --dist worksteal -m "not spark"

test-spark: setup  ## run the tests on Spark
	@$(bin)/python -m pytest -q -m spark

test-large: setup fuzz  ## run the fuzzer and the property tests at length (many hours)
	@$(bin)/python -m pytest -q -n 2 -m "not spark" --property-examples 10000

fuzz: setup  ## a million hostile frames for each protocol (hours)
	@for each in $$($(bin)/antecast protocols --json | sed -n 's/^    "name": "\(.*\)",/\1/p'); do \
	    $(bin)/python -m antecast.testing.fuzz $$each --frames 1000000 || exit 1; done
	@$(bin)/python -m antecast.testing.sockets all --inputs 10000000

release: setup  ## build the wheel and the source archive into dist/, install both in clean environments, try them
	@./tools/release.sh

lint: setup  ## check format, lint and types
	@$(bin)/ruff format --check -q . && $(bin)/ruff check -q . && $(bin)/mypy

format: setup  ## format the code and fix what the linter can fix
	@$(bin)/ruff format . && $(bin)/ruff check --fix .

bench: setup  ## measure, side by side with the alternatives; writes bench/results
	@failed=; for each in engines peers scheduler hop opportunistic memory vcube overlay large_opportunistic large_overlay large_vcube cells sweep_throughput contacts audit_scale audit_shapes observe preventive checking signing kv live foreign_logs; do $(bin)/python -m bench.$$each || failed="$$failed $$each"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

blocks: setup  ## renew the tables and pictures of the documentation that are made from the code
	@$(bin)/python tools/blocks.py

results: setup  ## run all studies at the papers' sizes and put their tables into docs/results (about ten minutes)
	@$(bin)/antecast reproduce all
	@$(bin)/python tools/results.py reproductions

lock:  ## renew requirements.lock from pyproject.toml (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --no-header --extra dev --extra spark --extra lan --extra metrics --extra traces \
	    -o requirements.lock pyproject.toml

clean:  ## remove everything that can be made again, except results
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db
