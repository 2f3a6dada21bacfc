# What people type. Everything works from nothing but Python 3.11 or newer and make, and only once: stamp files in the
# virtual environment say what has been installed for which project files. `make` alone lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Arguments of `registry serve`: make serve ARGS="--port 8443"
ARGS ?=
# Tests wait for servers and timers: with four on two cores, a quarter of the processor time was left over.
TEST_PROCESSES ?= 6
# Where this is set, each process that a test starts would compile the whole package again: half of a server's start.
export PYTHONDONTWRITEBYTECODE :=
TOOLS := $(VENV)/tools
BUILD ?= build
# The pure packages: their tests need no database and no process.
UNIT := tests/codec tests/schema tests/cel tests/apply tests/definitions tests/builtin tests/authorization/rbac

# Only what requirements/*.txt names by version and hash is installed, and no code of an sdist is run to install it. The
# first of them, build.txt, brings the pip that installs the others: one of 2023 takes twice its processor time.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCKED := install --require-hashes --only-binary :all:
OURSELVES := install --no-deps --no-build-isolation --editable .

.PHONY: help serve install develop check test lint before-tests types style rewritten format words coverage bench bench-compare docs docs-site dist lock sbom audit pin-images clean
.DEFAULT_GOAL := help

help: ## list these targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name does; do \
		printf '  %-12s %s\n' "$$name" "$$does"; done

serve: $(VENV)/.installed ## an embedded PostgreSQL and the server (ARGS="--port 8443")
	$(BIN)/registry serve $(ARGS)

install: $(VENV)/.installed ## what serving needs, into .venv

develop: $(VENV)/.developing ## what tests and tools need, too

check: before-tests ## lint and the tests of the pure packages: before each commit, two minutes
	$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) -m "not slow" $(UNIT) tests/test_*.py $(PYTEST)

test: before-tests ## lint and all tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile $(PYTEST)

# Types take one processor longer than all the rest, which is done meanwhile.
lint: $(VENV)/.developing ## words, ruff, format, types, import contracts
	@$(MAKE) --no-print-directory -j 2 types words style

before-tests: $(VENV)/.developing
	@$(MAKE) --no-print-directory -j 2 types words style rewritten

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# Each process of a test run imports all tests, for which pytest first rewrites their assertions, unless that is kept from
# before: two thirds of the time until they begin. In a new checkout it is done once, for all of them.
rewritten:
	@find tests -maxdepth 2 -name 'conftest.*-pytest-*.pyc' | grep -q . || $(BIN)/python -m pytest -n 0 --collect-only -qq >/dev/null

format: $(VENV)/.developing ## rewrite the code as the formatter has it
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

words: ## which retired words are in code and pages, and what to write instead
	$(PYTHON) tools/words.py $(ARGS)

coverage: $(VENV)/.developing ## lines and branches of the pure packages that their tests run
	$(BIN)/python -m coverage run -m pytest -q -n 0 -m "not slow" $(UNIT) $(PYTEST)
	$(BIN)/python -m coverage report

bench: $(VENV)/.developing ## what the server does in a second (ARGS=--help)
	$(BIN)/python -m benchmarks $(ARGS)

bench-compare: $(VENV)/.developing ## CPU time of requests by that of another commit (BASE=main~10)
	$(BIN)/python -m benchmarks.compare $(BASE) $(ARGS)

docs: $(VENV)/.installed ## write docs/settings.md
	$(BIN)/python -m registry.settings > docs/settings.md

docs-site: $(VENV)/site/.installed ## the documentation with search, into build/site
	$(VENV)/site/bin/mkdocs build --quiet

# What an earlier build has left in build/lib would be packed, too.
dist: $(VENV)/.developing ## the wheel and the sdist, into dist/
	rm -rf build/lib
	$(BIN)/python -m build --no-isolation --outdir dist

lock: $(TOOLS)/.installed ## requirements/*.txt again; tools/lock says how to choose what is upgraded
	tools/lock $(BIN) $(TOOLS)/bin $(ARGS)

# The components of the image, as CycloneDX: installed as the image has them, they tell licenses and who needs whom.
sbom: $(VENV)/.developing $(TOOLS)/.installed ## the components of the image, into build/sbom.json
	rm -rf $(BUILD) build/lib
	$(BIN)/python -m venv --without-pip $(BUILD)/image
	$(PIP) --python $(BUILD)/image/bin/python $(LOCKED) --no-compile -r requirements/image.txt
	$(BIN)/python -m build --wheel --no-isolation --outdir $(BUILD)/wheel
	$(PIP) --python $(BUILD)/image/bin/python install --no-deps --no-index --no-compile $(BUILD)/wheel/*.whl
	version=$$($(BUILD)/image/bin/registry version) && \
		sed "s/^dynamic = .*/version = \"$${version#registry }\"/" pyproject.toml > $(BUILD)/pyproject.toml
	$(TOOLS)/bin/cyclonedx-py environment $(BUILD)/image/bin/python --pyproject $(BUILD)/pyproject.toml \
		--output-reproducible --output-format JSON --output-file $(BUILD)/sbom.json

audit: $(BIN)/python ## what the package index knows against what is locked
	$(BIN)/python tools/audit.py $(ARGS)

pin-images: ## renew the digests of the images that Dockerfile and docker-compose.yml name
	$(PYTHON) tools/pin_images.py

clean: ## remove what was built and cached
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (make PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements/install.txt requirements/build.txt | $(BIN)/python
	@echo "installing into $(VENV), once"
	$(PIP) $(LOCKED) -r requirements/build.txt
	$(PIP) $(LOCKED) -r requirements/install.txt
	$(PIP) $(OURSELVES)
	@# pip compiles what it copies, but not what it installs in place: half of the time of a start.
	$(BIN)/python -m compileall -q registry migrations
	touch $@

$(VENV)/.developing: pyproject.toml requirements/develop.txt requirements/build.txt | $(BIN)/python
	@echo "installing into $(VENV), once"
	$(PIP) $(LOCKED) -r requirements/build.txt
	$(PIP) $(LOCKED) -r requirements/develop.txt
	$(PIP) $(OURSELVES)
	touch $(VENV)/.installed $@

# An environment of its own: what makes locks and SBOMs is not among what they list.
$(TOOLS)/.installed: requirements/tools.txt | $(BIN)/python
	$(BIN)/python -m venv --without-pip $(TOOLS)
	$(PIP) --python $(TOOLS)/bin/python $(LOCKED) --no-compile -r requirements/tools.txt
	touch $@

$(VENV)/site/.installed: requirements/site.txt | $(BIN)/python
	$(BIN)/python -m venv --without-pip $(VENV)/site
	$(PIP) --python $(VENV)/site/bin/python $(LOCKED) -r requirements/site.txt
	touch $@
