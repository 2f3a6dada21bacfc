# What people type: serve, test, lint, bench. Everything works from nothing but Python 3.11 or newer and make, and
# only once: stamp files in the virtual environment say what has been installed for which project files.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Arguments of `registry serve`: make serve ARGS="--port 8443"
ARGS ?=
TEST_PROCESSES ?= 2

.PHONY: serve install develop test lint bench docs clean

serve: $(VENV)/.installed
	$(BIN)/registry serve $(ARGS)

install: $(VENV)/.installed

develop: $(VENV)/.developing

test: lint
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) $(PYTEST)

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.developing
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.installed
	$(BIN)/python -m registry.settings > docs/settings.md

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (make PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded]'
	touch $@

$(VENV)/.developing: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]'
	touch $(VENV)/.installed $@
