# What people type: serve, test, lint, bench. Everything works from nothing but Python 3.11 or newer and make, and
# only once: stamp files in the virtual environment say what has been installed for which project files.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Arguments of `registry serve`: make serve ARGS="--port 8443"
ARGS ?=
TEST_PROCESSES ?= 2
TOOLS := $(VENV)/tools
BUILD ?= build

# Only what requirements/*.txt names by version and hash is installed, and no code of an sdist is run to install it.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCKED := install --require-hashes --only-binary :all:
OURSELVES := install --no-deps --no-build-isolation --editable .

.PHONY: serve install develop test lint bench docs dist lock sbom audit pin-images clean

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

# The wheel and the sdist, into dist/.
dist: $(VENV)/.developing
	$(BIN)/python -m build --no-isolation --outdir dist

# requirements/*.txt again; tools/lock says how to choose what is upgraded.
lock: $(TOOLS)/.installed
	tools/lock $(TOOLS)/bin $(ARGS)

# The components of the image, as CycloneDX: installed as the image has them, they tell licenses and who needs whom.
sbom: $(VENV)/.developing $(TOOLS)/.installed
	rm -rf $(BUILD)
	$(BIN)/python -m venv --without-pip $(BUILD)/image
	$(PIP) --python $(BUILD)/image/bin/python $(LOCKED) -r requirements/image.txt
	$(BIN)/python -m build --no-isolation --outdir $(BUILD)/wheel
	$(PIP) --python $(BUILD)/image/bin/python install --no-deps --no-index $(BUILD)/wheel/*.whl
	version=$$($(BUILD)/image/bin/registry version) && \
		sed "s/^dynamic = .*/version = \"$${version#registry }\"/" pyproject.toml > $(BUILD)/pyproject.toml
	$(TOOLS)/bin/cyclonedx-py environment $(BUILD)/image/bin/python --pyproject $(BUILD)/pyproject.toml \
		--output-reproducible --output-format JSON --output-file $(BUILD)/sbom.json

# What the package index knows against what is locked: vulnerabilities, releases that were withdrawn.
audit: $(BIN)/python
	$(BIN)/python tools/audit.py $(ARGS)

# Adds digests to the images that Dockerfile and docker-compose.yml name, or renews them.
pin-images:
	$(PYTHON) tools/pin_images.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed (make PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements/install.txt requirements/build.txt | $(BIN)/python
	@echo "installing into $(VENV), once"
	$(PIP) $(LOCKED) -r requirements/install.txt -r requirements/build.txt
	$(PIP) $(OURSELVES)
	touch $@

$(VENV)/.developing: pyproject.toml requirements/develop.txt requirements/build.txt | $(BIN)/python
	@echo "installing into $(VENV), once"
	$(PIP) $(LOCKED) -r requirements/develop.txt -r requirements/build.txt
	$(PIP) $(OURSELVES)
	touch $(VENV)/.installed $@

# An environment of its own: what makes locks and SBOMs is not among what they list.
$(TOOLS)/.installed: requirements/tools.txt | $(BIN)/python
	$(BIN)/python -m venv $(TOOLS)
	$(PIP) --python $(TOOLS)/bin/python $(LOCKED) -r requirements/tools.txt
	touch $@
