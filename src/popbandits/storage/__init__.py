"""A run's files: the record, its lock, and the checkpoints."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popbandits.storage.store import Store as Store
else:  # Hidden from type checkers, which would otherwise accept any name.

    def __getattr__(name: str) -> object:
        """Import the store on first use: workers need only the checkpoints, and start a second sooner."""
        if name != "Store":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from popbandits.storage.store import Store

        return Store
