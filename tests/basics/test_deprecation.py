"""Former names of what is public work for a version, and warn."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from popbandits import History
from popbandits.history.history import FORMER_NAMES
from popbandits.storage.store import Store

SPACE = {"x": (0.0, 1.0)}


@pytest.mark.parametrize(("former", "present"), FORMER_NAMES.items())
def test_former_methods_of_a_history_warn_and_work(former: str, present: str) -> None:
    history = History(SPACE)
    with pytest.warns(DeprecationWarning, match=f"^History.{former} is deprecated; use {present}$"):
        assert getattr(history, former) == getattr(history, present)


def test_a_former_method_of_a_store_warns_and_works(tmp_path: Path) -> None:
    with Store.open_or_create(tmp_path, History(SPACE).space, {}) as store:
        with pytest.warns(DeprecationWarning, match=r"^Store.place is deprecated; use index_of$"):
            assert store.place == store.index_of  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match="Store has no attribute 'plaice'"):
            store.plaice  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("module", "former", "present"),
    [("popbandits.testing", "Rule", "AgentRule")],
)
def test_former_names_in_modules_warn_and_work(module: str, former: str, present: str) -> None:
    home = import_module(module)
    with pytest.warns(DeprecationWarning, match=re.escape(f"{module}.{former} is deprecated; use {present}")):
        assert getattr(home, former) is getattr(home, present)


@pytest.mark.parametrize("name", ["nothing_like_it", "__deepcopy__"])
def test_names_that_never_were_are_missing_as_usual(name: str) -> None:
    with pytest.raises(AttributeError, match=f"History has no attribute '{name}'"):
        getattr(History(SPACE), name)
