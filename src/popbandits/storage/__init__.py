"""A run's files: the record, its lock, and the checkpoints."""

from popbandits.storage.store import Store as Store
