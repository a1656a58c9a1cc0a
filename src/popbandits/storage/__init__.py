"""A run's files: the record, its lock, and the checkpoints."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from popbandits.storage.store import Store as Store
else:  # Imported on first use: workers need only the checkpoints, and start a second sooner.
    import lazy_loader

    __getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"store": ["Store"]})
