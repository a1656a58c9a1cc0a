"""Tunes the hyperparameters of training runs while they train.

>>> import popbandits
>>> "PB2Mix" in dir(popbandits)
True
"""

import lazy_loader

__version__ = "0.1.0"

# A module is imported when one of its names is first used: ConfigSpace alone takes most of a second, and
# `import popbandits` should not wait for it. `__init__.pyi` lists the names.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
