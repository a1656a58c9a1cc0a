# Every target does its own set-up, and finds it done the second time.
#   PYTHON=python3.12   the Python that makes the environment, if there is none yet
#   VENV=/tmp/venv      where the environment is
PYTHON ?= python3
VENV ?= .venv
# Two more than there are cores: clusters and browsers keep many tests waiting. Who is done takes work from the others.
# nproc would take the number of threads that a test may use for the number of cores.
PYTEST_ARGS ?= -n $$(($$(env -u OMP_NUM_THREADS nproc) + 2)) --dist worksteal
# What the tests import: compiled once, beside the types, and not by every worker of pytest at the same time.
IMPORTED := altair, envpool, gymnasium, hypothesis, kornia, optuna, pandas, ray.tune, scipy.stats, sklearn.datasets, \
	stable_baselines3, torch._dynamo

# Packages of Python and of the system are fetched at the same time.
MAKEFLAGS += --jobs=2

BIN := $(VENV)/bin
DECLARED := pyproject.toml experiments/pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-integrations test-gpu test-oldest docs dist mutation bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-17s %s\n", $$1, $$2 }'

demo: $(VENV)/.has-rl ## Tune a PPO agent while it trains, beside random search (three to four minutes)
	$(BIN)/popbandits demo

# One thread a process: the matrices are small, the tests already use every core, and threads that wait for one another
# on a busy machine take several times the processor time of the work.
test test-slow test-integrations test-oldest mutation: export OPENBLAS_NUM_THREADS = 1
test test-slow test-integrations test-oldest mutation: export OMP_NUM_THREADS = 1
# Many tests start interpreters: they find the modules compiled, wherever that is switched off.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.has-dev $(VENV)/.has-system ## Check style and types, then run every test but the slow ones
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "Types are checked while the tests run."
	$(BIN)/mypy --strict src experiments/src & types=$$!; $(BIN)/python -c 'import $(IMPORTED)'; \
	$(BIN)/python -m pytest $(PYTEST_ARGS); tests=$$?; wait $$types && exit $$tests

test-slow: $(VENV)/.has-dev ## Run the cases that `make test` leaves out, each beside one that it has (minutes)
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

test-integrations: $(VENV)/.has-without-deps ## Install what adapters, trackers, SLURM and notebooks need, and run their tests
	$(BIN)/python -m pytest -m integration $(PYTEST_ARGS)

test-gpu: $(VENV)/.has-dev ## Run the tests that need an NVIDIA GPU, and check that mistakes in its kernels are noticed (minutes)
	$(BIN)/python -m tools.gpu_tests

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.has-docs ## Build the documentation into build/docs; open build/docs/index.html
	$(BIN)/mkdocs build # not --quiet, which would hide the warnings that `strict` counts

# The lowest versions that pyproject.toml declares, in an environment of their own, by the tests of the core alone:
# those that pass on every system, and some that need Linux.
ON_LINUX := tests/storage/test_store.py tests/storage/test_durability.py tests/golden tests/engines/test_engines.py \
	tests/storage/test_checkpoints.py tests/run/test_replay.py tests/test_mistakes.py
test-oldest: $(VENV)/.has-dist ## Test the core with the oldest versions of what it depends on
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(VENV)-oldest
	$(BIN)/uv pip install --quiet --python $(VENV)-oldest --resolution lowest-direct -e '.[test]'
	$(VENV)-oldest/bin/python -m pytest $(PYTEST_ARGS) @tools/core_tests.txt $(ON_LINUX)

dist: $(VENV)/.has-dist ## Build wheel and source distribution, check them, try the wheel in clean environments
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist

# What was tried is kept in mutants/: stop it and start it again. ONLY='popbandits.models.bandit.*' tries some alone.
mutation: $(VENV)/.has-dev ## Change the code that decides, in one place at a time, and count what the tests notice (hours)
	$(BIN)/mutmut run $(if $(ONLY),'$(ONLY)')
	$(BIN)/mutmut results | sed '/not checked/d'

bench: $(VENV)/.has-bench ## Time a decision beside Ray Tune's and BoTorch's, and everything else (hours)
	$(BIN)/python -m popbandits_experiments.speed.decision_cost
	$(BIN)/python -m popbandits_experiments.speed.scale --members 4 --rounds 200 --synchronous
	$(BIN)/python -m popbandits_experiments.speed.scale --folder /dev/shm
	$(BIN)/python -m popbandits_experiments.speed.demo_seeds
	$(BIN)/python -m popbandits_experiments.speed.report_cost
	$(BIN)/python -m popbandits_experiments.speed.watch_cost
	$(BIN)/python -m popbandits_experiments.reliability

clean: ## Remove the environment and the caches; runs/ stays
	@for each in $(VENV) $(VENV)-oldest; do if [ -e $$each/pyvenv.cfg ]; then rm -rf $$each; fi; done
	rm -rf build dist mutants .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests experiments -name __pycache__ -type d -prune -exec rm -rf {} +

# The pip that comes with Python 3.11 takes almost twice as long as today's.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip

# Modules are compiled when they are first imported: most never are. A stamp for each set of packages; all share one environment, since constraints.txt makes them agree.
$(VENV)/.has-rl: PACKAGES = -e '.[rl]'
$(VENV)/.has-dev: PACKAGES = -e '.[report,rl,ray,dev]' -e './experiments[dev]'
$(VENV)/.has-docs: PACKAGES = -e '.[report,ray,docs]'
$(VENV)/.has-dist: PACKAGES = -e '.[dist]'
$(VENV)/.has-integrations: PACKAGES = -e '.[report,rl,ray,slurm,dev,adapters,jax,robots,trl,trackers,docs]' \
	-e './experiments[dev]'
# rl_games wants a psutil below 6, which IPython refuses; what agents use of it imports none. gymnax wants a gymnasium
# before 1.4, and works with 1.4; of flax it uses only what needs no checkpoints.
$(VENV)/.has-without-deps: PACKAGES = --no-deps rl-games gymnax flax
$(VENV)/.has-without-deps: $(VENV)/.has-integrations
$(VENV)/.has-bench: PACKAGES = -e '.[report,rl]' -e './experiments[bench]'
$(VENV)/.has-%: $(DECLARED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt $(PACKAGES)
	@touch $@

# What pip cannot install: Qt, with which EnvPool's Procgen draws (1.2.7 carries it along for Python 3.12 and later, the
# pinned 1.2.5 does not), and the browser in which the report is tested.
# Without a browser's windows, Chromium draws a page in two thirds of the time.
BROWSERS := command -v chromium-headless-shell || command -v chromium || command -v google-chrome
SYSTEM = $$(ldconfig -p | grep -q libQt5Gui.so.5 || echo libqt5gui5) \
	$$({ $(BROWSERS); } > /dev/null || echo chromium-headless-shell fonts-dejavu-core)
$(VENV)/.has-system: | $(BIN)/python
	@missing="$(SYSTEM)"; missing=$$(echo $$missing); \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		echo "Installing $$missing" && apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing > /dev/null; \
	else echo "The tests need system packages that are missing; on Debian or Ubuntu: apt-get install $$missing"; exit 1; fi
	@touch $@
