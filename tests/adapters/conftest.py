"""Modules that need a library which only `make test-integrations` installs are not collected without it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("lightning") else ["lightning_agents.py"]
