"""Selection of the weights and hyperparameters that a member continues with: one class per strategy."""

from popbandits.selection.selection import Picks, Selection
from popbandits.selection.truncation import Truncation

__all__ = ["Picks", "Selection", "Truncation"]
