# `make` alone lists what there is. Only Python and git are needed; everything else goes into .venv.

# The first interpreter that is new enough and runs; PYTHON=... chooses another.
ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
endif

define need_python
@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "Callgate needs Python 3.11 or newer$(if $(PYTHON),: $(PYTHON) is older or does not run). Choose one with PYTHON=python3.11" >&2; exit 1; }
@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
endef

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test tools lint run bench lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## install Callgate and everything its tests need into .venv

demo: setup ## show a guarded agent at work; no key, no network
	$(BIN)/callgate demo

test: lint tools ## ruff, mypy, pytest
	$(BIN)/python -m pytest

tools: setup ## build the OPA that tests run against into .tools, once
	$(BIN)/python -m tests.tools

lint: setup ## ruff check, ruff format --check, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

run: setup ## start the proxy
	$(BIN)/callgate serve

bench: setup ## measure what the proxy costs
	$(BIN)/python -m proxy.demo.bench

lock: ## resolve requirements.lock anew
	$(need_python)
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	"$(PYTHON)" -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet uv; \
	"$$tmp/venv/bin/uv" pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-annotate --no-header --no-emit-index-url --no-emit-find-links --quiet --output-file "$$tmp/lock"; \
	cp "$$tmp/lock" requirements.lock

clean: ## remove .venv, .tools, caches and builds
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find proxy tests -type d -name __pycache__ -prune -exec rm -rf {} +

# The build backend is in the lock, so nothing is fetched that has no hash.
$(STAMP): pyproject.toml requirements.lock proxy/__init__.py
	$(need_python)
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
