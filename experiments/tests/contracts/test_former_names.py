"""The contract suites were in `popbandits.testing`: their names there work for a version, and warn."""

import sys

import pytest

from popbandits import MissingExtraError, testing
from popbandits_experiments import contracts


@pytest.mark.parametrize("name", contracts.__all__)
def test_former_names_warn_and_work(name: str) -> None:
    expected = f"^popbandits.testing.{name} is deprecated; use popbandits_experiments.contracts.{name}$"
    with pytest.warns(DeprecationWarning, match=expected):
        assert getattr(testing, name) is getattr(contracts, name)


def test_without_the_experiments_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, contracts.__name__, None)
    expected = "^popbandits.testing.spaces is part of the experiments, which are not installed; .* -e ./experiments$"
    with pytest.raises(MissingExtraError, match=expected):
        testing.spaces  # type: ignore[attr-defined]  # noqa: B018


def test_names_that_never_were_are_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match=r"module 'popbandits.testing' has no attribute 'check_explorers'"):
        testing.check_explorers  # type: ignore[attr-defined]  # noqa: B018
