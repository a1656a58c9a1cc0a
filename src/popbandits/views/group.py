"""Several views of one run: its own, and the callbacks that a user gave."""

import traceback
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from popbandits.errors import PopbanditsError
from popbandits.history import Decision, Event, Observation
from popbandits.population import Population
from popbandits.views.view import View


class ViewGroup(View):
    """Pass on to a run's own view and to callbacks what happens. A callback that fails is left out from then on.

    A run must not be lost because a tracker's server is away. Errors of popbandits itself do end it: they say that a
    callback was given something wrong.

    Args:
        view: The run's own view, told first.
        callbacks: Views that a user gave, told in this order.
    """

    def __init__(self, view: View, callbacks: Iterable[View]):
        self.view, self.callbacks = view, list(callbacks)

    def opened(self, population: Population, directory: Path) -> None:
        """Pass it on."""
        self._tell("opened", population, directory)

    def asked(self, decisions: Sequence[Decision]) -> None:
        """Pass it on."""
        self._tell("asked", decisions)

    def told(self, observation: Observation) -> None:
        """Pass it on."""
        self._tell("told", observation)

    def happened(self, event: Event) -> None:
        """Pass it on."""
        self._tell("happened", event)

    def stop(self) -> str | None:
        """Return the first reason that one of them gives."""
        return next((reason for reason in self._tell("stop") if reason), None)

    def closed(self) -> None:
        """Pass it on; callbacks first, while the terminal still shows what they print."""
        try:
            for callback in list(self.callbacks):
                self._try(callback, "closed")
        finally:
            self.view.closed()

    def _tell(self, method: str, *news: Any) -> list[Any]:
        own = getattr(self.view, method)(*news)
        return [own, *(self._try(callback, method, *news) for callback in list(self.callbacks))]

    def _try(self, callback: View, method: str, *news: Any) -> Any:
        try:
            return getattr(callback, method)(*news)
        except PopbanditsError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            self.callbacks = [each for each in self.callbacks if each is not callback]
            if isinstance(error, KeyboardInterrupt):  # The second one: it may hang, and would again at the end.
                raise
            warnings.warn(
                f"the callback {type(callback).__name__} failed in {method} and is left out from now on; the run goes "
                f"on\n{''.join(traceback.format_exception(error)).rstrip()}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
