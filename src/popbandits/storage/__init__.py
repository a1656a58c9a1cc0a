"""A run's files: the record, its lock, and the checkpoints."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popbandits.storage.store import Store as Store
else:  # Out of a type checker's sight, or it would believe that every name exists.

    def __getattr__(name: str) -> object:
        """Import the store when it is first used: workers need checkpoints alone, and start a second sooner."""
        if name != "Store":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from popbandits.storage.store import Store

        return Store
