# Every target makes .venv when it is missing. EXTRAS=all adds torch, the service and Spark.
PYTHON ?= python3
EXTRAS ?= data,dev,experiments
BIN := .venv/bin
WORKERS ?= 2
PYTEST_MARKS := $(if $(filter all,$(EXTRAS)),,-m "not slow")

.PHONY: demo serve-demo test coverage test-crash check bench bench-service bench-spark experiments reproduce docs docs-quick clean

demo: .venv/.installed-data
	$(BIN)/obil demo

serve-demo: .venv/.installed-data,service
	$(BIN)/obil serve-demo

test: .venv/.installed-$(EXTRAS)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(PYTEST_MARKS)

# Which lines no test runs; kernels are left out, as they run as machine code.
coverage: .venv/.installed-$(EXTRAS)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(PYTEST_MARKS) --cov --cov-report=term --cov-report=html:build/coverage

# Kills the service again and again under load and counts what was lost; minutes, so not part of `test`.
test-crash: .venv/.installed-all
	$(BIN)/python -m tests.crash

check: .venv/.installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m benchmarks

bench-service: .venv/.installed-all
	$(BIN)/python -m benchmarks service

bench-spark: .venv/.installed-all
	$(BIN)/python -m benchmarks spark
	$(BIN)/python -m benchmarks.spark_page

experiments: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m experiments trackers --check
	$(BIN)/python -m experiments cifar_stream --check

# Draws every table and figure of the docs from the committed results, computing nothing.
reproduce: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m experiments all --render

# The site: every example runs, every warning is an error, nothing is fetched. docs-quick runs no example.
docs: .venv/.installed-all
	$(BIN)/sphinx-build -W --keep-going -b html docs build/site

docs-quick: .venv/.installed-all
	$(BIN)/sphinx-build -W --keep-going -b html -D plot_gallery=0 docs build/site-quick

.venv/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$*]"
	touch $@

clean:
	rm -rf .venv demo build dist docs/auto_gallery docs/api/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
