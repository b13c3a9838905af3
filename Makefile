# The same verbs in CI and on a laptop. Each sets up .venv first, and only when the lock or pyproject.toml changed.
#
#   make demo     a training job fails and is put back on the rails: FAULT=crash|killed|hang|bug|straggler|throttled  YES=1  KEEP=1  DEMO_DIR=FOLDER
#   make test     every test that this machine can run
#   make check    style, types, import contracts
#   make bench    how fast it is
#   make corpus   how often the diagnosis is right on labelled cases, with and without each case's own rows
#   make setup    only .venv with rerail in it: PYTHON=python3.12 names the interpreter
#   make lock     the locks anew

.DEFAULT_GOAL := help
PY := .venv/bin/python
WORKERS ?= $(shell expr $$(nproc) + 2)
# Tests wait for servers and schedulers more than they compute, so there are more workers than cores.

.PHONY: help setup setup-dev demo test check bench corpus lock

help:
	@sed -n 's/^#   //p' Makefile

# What running rerail and the demo needs; says in one sentence what is missing.
setup:
	@sh requirements/install.sh demo

# The same and the tools of tests and checks.
setup-dev:
	@sh requirements/install.sh dev

# The story of one fault, in the terminal. It chooses free ports and leaves no process behind; Ctrl-C ends it.
demo: setup
	@$(PY) -m demo

# Every test that this machine can run. ARGS="-k story" or ARGS=tests/house narrows it; suites that need Debian packages install
# them (root on Debian or Ubuntu) or are skipped by name with the command. CI=true makes such a skip a failure.
test: setup-dev
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m pytest -n $(WORKERS) --dist loadgroup --durations=15 $(ARGS)

# Style, types, and who may import whom.
check: setup-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PYTHONPATH="$(CURDIR):$(CURDIR)/src" .venv/bin/lint-imports

# How fast it is; raw samples go to bench/out/. One alone: make bench BENCHES=bench/scan.py ARGS="--megabytes 50"
BENCHES ?= $(wildcard bench/[a-z]*.py)
bench: setup-dev
	@for one in $(BENCHES); do echo "== $$one"; PYTHONPATH="$(CURDIR)" $(PY) $$one $(ARGS) || exit 1; done

# How often the diagnosis is right on the labelled cases and real logs; the same without each case's own rows; hits by signature.
corpus: setup-dev
	PYTHONPATH="$(CURDIR):$(CURDIR)/src" $(PY) -m tests.corpus

# The locks anew, from pyproject.toml; pins that still fit stay. UPGRADE=-U takes newer versions. Needs uv (pip install uv).
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $(UPGRADE)
lock:
	@command -v uv >/dev/null || { echo 'make lock needs uv: python3 -m pip install uv'; exit 1; }
	$(LOCK) --quiet --all-extras --group dev -o requirements/dev.txt
	$(LOCK) --quiet --all-extras --group app --group build -c requirements/dev.txt -o requirements/app.txt
	$(LOCK) --quiet --group app --group demo --group build -c requirements/dev.txt -o requirements/demo.txt
