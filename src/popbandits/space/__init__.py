"""What may be tried: the user's search space, and the numbers the models see of it."""

from popbandits.space.encoding import Points, Space
from popbandits.space.parameters import Categorical, Numerical

__all__ = ["Categorical", "Numerical", "Points", "Space"]
