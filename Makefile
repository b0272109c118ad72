# The commands of this project. Each does all of its set-up on a fresh machine and is a quick no-op when that is done.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCK := requirements/dev.txt
# The first interpreter that is new enough and can make environments; `make PYTHON=/path/to/python` names another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.DEFAULT_GOAL := help
.PHONY: help run install test test-fast test-api test-agents check fix bench lock clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1	/' | expand -t 20

run: install  ## Install into .venv, then run the demo.
	$(BIN)/termal demo

install: $(STAMP)  ## Install the project and all that its checks need into .venv.

test: install  ## Run every test but those of test-api and those that need the real agents.
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not agents and not api"

test-fast: install  ## Run the tests without real daemons: under a minute.
	$(BIN)/python -m pytest -n auto -m "not agents and not chaos and not system and not slow"

test-api: install  ## Throw generated requests at a real daemon, by its own description; API_EXAMPLES=200 for more.
	$(BIN)/python -m pytest tests/api

test-agents: install  ## Install the real agents in pinned versions (several hundred megabytes) and test with them.
	$(BIN)/python -m tests.agents.install
	TERMAL_AGENTS_REQUIRED=1 $(BIN)/python -m pytest -n 2 -m agents

check: install  ## Check format, lint, types and import rules; edits nothing.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: install  ## Format, and mend what the linter can mend.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install  ## Measure; fails when a budget is missed.
	$(BIN)/python -m bench

lock:  ## Write the lock file anew from the newest versions that pyproject.toml allows.
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv "$$folder" && \
	"$$folder/bin/python" -m pip install --quiet '.[dev]' hatchling editables && \
	{ echo "# Exact versions of everything that .venv holds besides this project. Made by: make lock"; \
	"$$folder/bin/python" -m pip freeze --exclude termal; } > $(LOCK).new && mv $(LOCK).new $(LOCK)

clean:  ## Remove the environment, the agents and all caches.
	rm -rf $(VENV) .agents .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist

$(STAMP): pyproject.toml $(LOCK)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed (Debian: apt-get install python3-venv)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $(LOCK)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
