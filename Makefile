# EcoCompute cube. `make` lists the targets. Needs python3 (3.11 to 3.14, with venv), git and make.
#
#   PYTHON=python3.12   the interpreter to use, where the first one found is not the one you want
#   VENV=.venv          where the virtual environment goes
#   TORCH=cpu|cuda|none the small PyTorch, the default one, or the one that the interpreter already has
#   ARGS="…"            handed to the command of the target

.DEFAULT_GOAL := help
SHELL := /bin/sh
export PYTHON VENV TORCH

venv := $(or $(VENV),.venv)
python := "$(venv)/bin/python"
set_up := sh scripts/setup.sh

.PHONY: help setup run test test-cube test-archive test-browser test-fuzz check format bench schema lock image mlcube

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | while IFS='	' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: ## make .venv with the ecocompute command in it; says first what it downloads
	@$(set_up) run
	@echo "ecocompute: ready: $(venv)/bin/ecocompute --help"

run: ## measure the default model on this machine's GPU, or rehearse without one
	@$(set_up) run
	@"$(venv)/bin/ecocompute" run $(ARGS)

test: ## run the tests: no GPU, no Docker, no network beyond installing
	@$(set_up) test
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(python) -m pytest $(ARGS)

test-cube: ## run the container's tests, with real mlcube: needs Docker Engine
	@$(set_up) test
	@sh scripts/mlcube.sh
	@ECO_REQUIRE_CUBE=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(python) -m pytest -m cube --dist=loadscope tests/cube $(ARGS)

test-browser: ## test the report's page and the site in Debian's Chromium, offline
	@$(set_up) test
	@ECO_REQUIRE_BROWSER=1 $(python) -m pytest -m browser -n 0 tests/browser $(ARGS)

test-archive: ## ask others' validators about bundles: mlcroissant, roc-validator, cffconvert
	@$(set_up) test
	@sh scripts/archive_tools.sh
	@ECO_REQUIRE_ARCHIVE=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(python) -m pytest -m archive tests/archive $(ARGS)

test-fuzz: ## throw at every door of the service what its schema allows, and what it does not
	@$(set_up) fuzz
	@ECO_REQUIRE_FUZZ=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(python) -m pytest -m fuzz tests/fuzz $(ARGS)

check: ## format, lint, types, layers, schemas, descriptors
	@$(set_up) check
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(python) -m mypy
	$(python) -c 'import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_logo=True))'
	$(python) -m ecocompute_cube.model.schema --check
	$(python) docs/generate.py --check
	$(python) scripts/descriptors.py --check

format: ## let ruff format and repair the sources
	@$(set_up) check
	$(python) -m ruff format .
	$(python) -m ruff check --fix .

bench: ## time and check our own code: speed, overhead, accuracy
	@$(set_up) test
	@$(python) -m benchmarks $(ARGS)

schema: ## write schemas/, the generated docs and the descriptors anew
	@$(set_up) run
	@$(python) -m ecocompute_cube.model.schema
	@$(python) docs/generate.py
	@$(python) scripts/descriptors.py

lock: ## write requirements/ anew from pyproject.toml
	@sh scripts/lock.sh

image: ## build the container's image from this checkout: 2.9 GB to download, 6.2 GB on disk
	docker build --tag ecocompute-cube:0.1.0 --build-arg "REVISION=$$(git describe --always --dirty --exclude='*' 2>/dev/null || echo unknown)" $(ARGS) .

mlcube: ## make the mlcube command, in an environment of its own
	@sh scripts/mlcube.sh
