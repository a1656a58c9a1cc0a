# Every target does its own set-up, and finds it done the second time.
#   PYTHON=python3.12   the Python that makes the environment, if there is none yet
#   VENV=/tmp/venv      where the environment is
PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n auto

BIN := $(VENV)/bin
DECLARED := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test bench clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-7s %s\n", $$1, $$2 }'

demo: $(VENV)/.has-report ## The paper's synthetic experiment with 5 seeds (minutes)
	$(BIN)/popbandits synthetic --seeds 5 -o runs/demo

# One BLAS thread: the matrices are small, and the tests already use every core.
test: export OPENBLAS_NUM_THREADS = 1
test: $(VENV)/.has-dev ## Check style and types, then run every test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(VENV)/.has-bench ## Time a decision beside Ray Tune's and BoTorch's, and measure regret (half an hour)
	$(BIN)/python -m benchmarks.decision_cost
	$(BIN)/python -m benchmarks.regret --out runs/regret.json

clean: ## Remove the environment and the caches; runs/ stays
	@if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of packages; all share one environment, since constraints.txt makes them agree.
$(VENV)/.has-report: EXTRAS = [report]
$(VENV)/.has-dev: EXTRAS = [report,dev]
$(VENV)/.has-bench: EXTRAS = [bench]
$(VENV)/.has-%: $(DECLARED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.$(EXTRAS)'
	@touch $@
