# Every target makes .venv when it is missing. EXTRAS=all adds torch, the service and Spark.
PYTHON ?= python3
EXTRAS ?= data,dev,experiments
BIN := .venv/bin
PYTEST_MARKS := $(if $(filter all,$(EXTRAS)),,-m "not slow")

.PHONY: demo test check bench experiments reproduce clean

demo: .venv/.installed-data
	$(BIN)/obil demo

test: .venv/.installed-$(EXTRAS)
	$(BIN)/pytest $(PYTEST_MARKS)

check: .venv/.installed-$(EXTRAS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m benchmarks

experiments: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m experiments trackers --check
	$(BIN)/python -m experiments cifar_stream --check

# Draws every table and figure of the docs from the committed results, computing nothing.
reproduce: .venv/.installed-$(EXTRAS)
	$(BIN)/python -m experiments all --render

.venv/.installed-%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$*]"
	touch $@

clean:
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
