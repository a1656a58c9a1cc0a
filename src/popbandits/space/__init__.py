"""The user's search space and its encoding as numbers for the models."""

from popbandits.space.encoding import Space
from popbandits.space.parameters import Categorical, Numerical
from popbandits.space.points import Points
from popbandits.space.prior import Prior
from popbandits.space.ranges import log
from popbandits.space.schedules import constant, cosine, linear, warm_up

__all__ = ["Categorical", "Numerical", "Points", "Prior", "Space", "constant", "cosine", "linear", "log", "warm_up"]
