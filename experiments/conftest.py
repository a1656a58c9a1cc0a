"""Modules that need a library which `make test` does without are not collected without it."""

from importlib.util import find_spec

NEED = {"botorch": "src/popbandits_experiments/peers/botorch_mix.py"}

collect_ignore = [path for library, path in NEED.items() if find_spec(library) is None]
