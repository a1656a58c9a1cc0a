"""A missing library is an error that says what to install, before anything was lost."""

import re
import sys
from pathlib import Path

import pytest

from popbandits import MissingExtraError
from popbandits.run import tune
from tests.engines.agents import Walker, space


def test_the_ray_engine_without_ray_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=re.escape("engine='ray' needs ray; pip install 'popbandits[ray]'")):
        tune(Walker, space(), directory=tmp_path / "run", engine="ray", population=3, rounds=2, progress=False)


def test_the_schedulers_without_ray_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.startswith("popbandits.ray")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("ray", "ray.tune"):  # An earlier test may have imported either.
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=re.escape("popbandits.ray needs ray; pip install 'popbandits[ray]'")):
        import popbandits.ray  # noqa: F401
