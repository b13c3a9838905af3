# The same verbs in CI and on a laptop. Each sets up .venv first, and only when the lock or pyproject.toml changed.

PY := .venv/bin/python
WORKERS ?= $(shell expr $$(nproc) + 2)
# Tests wait for servers and schedulers more than they compute, so there are more workers than cores.

.PHONY: test check bench lock

# Every test that this machine can run. ARGS="-k story" or ARGS=tests/house narrows it; suites that need Debian packages install
# them (root on Debian or Ubuntu) or are skipped by name with the command. CI=true makes such a skip a failure.
test: setup
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) -m pytest -n $(WORKERS) --dist loadgroup --durations=15 $(ARGS)

# Style, types, and who may import whom.
check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PYTHONPATH="$(CURDIR):$(CURDIR)/src" .venv/bin/lint-imports

# How fast it is; raw samples go to bench/out/.
bench: setup
	$(PY) -m bench $(ARGS)

# The locks anew, from pyproject.toml; pins that still fit stay. UPGRADE=-U takes newer versions. Needs uv (pip install uv).
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $(UPGRADE)
lock:
	@command -v uv >/dev/null || { echo 'make lock needs uv: python3 -m pip install uv'; exit 1; }
	$(LOCK) --quiet --all-extras --group dev -o requirements/dev.txt
	$(LOCK) --quiet --all-extras --group app --group build -c requirements/dev.txt -o requirements/app.txt
