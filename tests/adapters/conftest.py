"""Modules that need a library which only `make test-integrations` installs are not collected without it."""

from importlib.util import find_spec

NEEDS = {"lightning_agents.py": "lightning", "language_models.py": "trl"}
collect_ignore = [module for module, library in NEEDS.items() if not find_spec(library)]
