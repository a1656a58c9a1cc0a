"""What is in training beside a member that is decided for."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from popbandits.history import Config, Key


class Training(Sequence[Config]):
    """The configurations of intervals in training, each looked up when it is wanted: methods look at few, or at none.

    >>> training = Training([(0, 3), (2, 3)], config=lambda key: {"x": key[0]})
    >>> len(training), training[-1], training[:1]
    (2, {'x': 2}, [{'x': 0}])
    """

    def __init__(self, keys: Sequence[Key], config: Callable[[Key], Config]):
        self.keys, self._config = keys, config

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Config: ...
    @overload
    def __getitem__(self, index: slice) -> list[Config]: ...
    def __getitem__(self, index: int | slice) -> Config | list[Config]:
        if isinstance(index, slice):
            return [self._config(key) for key in self.keys[index]]
        return self._config(self.keys[index])

    def __iter__(self) -> Iterator[Config]:
        return map(self._config, self.keys)
