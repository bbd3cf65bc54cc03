# Everything a contributor runs. Each target sets up what it needs; nothing is installed outside .venv.

VENV  := .venv
PY    := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# Hundreds of processes start here, and four workers read every test: what is compiled once is kept.
unexport PYTHONDONTWRITEBYTECODE

# The Python that .venv is made from: `make PYTHON=/path/to/python3.12 setup`. Left empty, the first of these that runs
# and is new enough: a version manager's shim may be on the PATH and still fail, so each one is tried, not just found.
PYTHON ?=
CANDIDATES := python3.14 python3.13 python3.12 python3.11 python3
IS_USABLE  := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

# The stamp holds the folder it was made in: a moved or copied tree, or a Python that is gone, gets a new environment.
ifneq ($(shell $(PY) -c "" 2>/dev/null && cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
FRESH := yes
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo engines quick test check bench docs clean

help: ## Print this list
	@echo "Bullpen keeps CI runners warm. Targets:"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile
	@echo "PYTHON=... chooses the Python (3.11 or newer) that $(VENV) is made from."

setup: $(STAMP) ## Make .venv and install Bullpen with its development tools

demo: $(STAMP) ## Demonstrate the pool with real processes, in under a minute
	@$(VENV)/bin/bullpen demo

# Many tests wait for real processes: more workers than processors fill the time. `make WORKERS=0 test` runs one by one.
WORKERS ?= 4

engines: $(STAMP) ## Fetch what the tests stand on: DynamoDB Local, ElasticMQ (as root on Debian: Java, Maven), GitHub's API, peers of scale sets, act and Gitea (with Go and Rust), an IAM simulator, what builds the docs, lints their workflows and runs their commands, a browser (as root on Debian) and what judges its pages
	$(PY) tests/fakes/java_engines.py
	$(PY) tests/fakes/github/description.py
	$(PY) tests/fakes/peers.py
	$(PY) tests/fakes/prometheus.py
	$(PY) tests/fakes/iam_simulator.py
	$(PY) tests/fakes/api_tools.py
	PYTHONPATH=tests $(PY) tests/fakes/browser_tools.py
	$(PY) tools/docs_tools.py

quick: $(STAMP) ## Lint, then the tests that start no engine and hardly a process, with fewer seeds and examples: about a minute, for while you work
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest -q -n auto --dist worksteal -m 'not slow and not engines' --ignore tests/scenario \
	  --hypothesis-profile quick

test: check ## Lint, then run every test; what CI runs
	$(PY) -m pytest -n $(WORKERS) --dist worksteal

check: $(STAMP) ## Lint, formatting, types and layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy src tests tools $(wildcard bench)
	$(VENV)/bin/lint-imports

bench: $(STAMP) ## Measure against the budgets; writes bench/results.json
	$(PY) -m bench

docs: $(STAMP) ## Build the docs as a site: build/docs/site; every warning fails it
	$(PY) tools/docs_site.py

clean: ## Remove .venv and every cache (never .bullpen: instances may live there)
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
ifeq ($(FRESH),yes)
	@for python in $(or $(PYTHON),$(CANDIDATES)); do \
	  if "$$python" -c '$(IS_USABLE)' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$python ($$("$$python" --version))"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "Bullpen needs Python 3.11 or newer with its venv module; tried: $(or $(PYTHON),$(CANDIDATES))." >&2; \
	echo "Install one (on Debian also python3-venv), or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	exit 1
endif
	@# A newer pip than Python brings along: it is through in half the time.
	@$(PY) tools/elapsed.py "1 of 2: updating pip, a few seconds" \
	  $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt pip hatchling editables
	@# Until version 0.1.0 the distribution was named `bullpen`. pip lets both own the same files, and removes them with either.
	@if ls $(VENV)/lib/python3*/site-packages/bullpen-*.dist-info >/dev/null 2>&1; then \
	  $(PY) -m pip uninstall --quiet --disable-pip-version-check --yes bullpen; fi
	@$(PY) tools/elapsed.py "2 of 2: installing Bullpen and its development tools, about a minute" \
	  $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[aws,github,serve,dev]'
	@echo '$(CURDIR)' > $@
