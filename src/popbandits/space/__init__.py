"""What may be tried: the user's search space, and the numbers the models see of it."""

from .encoding import Points, Space
from .parameters import Categorical, Numerical

__all__ = ["Categorical", "Numerical", "Points", "Space"]
