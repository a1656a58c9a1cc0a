"""Truncation by smoothed scores: where nothing is noise, it is truncation."""

from typing import Any

import pytest

from popbandits.errors import ArgumentError
from popbandits.selection import Truncation
from popbandits_experiments.methods import Smoothed
from tests.history.noisy_runs import trained


def test_without_noise_it_is_truncation() -> None:
    plain, _ = trained(Truncation(0.5), 3, noise=0.0)
    for selection, told in ((Smoothed(0.5, noise=0.0), None), (Smoothed(0.5), 0.0)):
        assert [o.parent for o in trained(selection, 3, noise=0.0, told=told)[0]] == [o.parent for o in plain]


def test_in_the_first_rounds_it_is_truncation() -> None:
    plain, _ = trained(Truncation(), 4, noise=1.0, rounds=3)
    assert trained(Smoothed(), 4, noise=1.0, rounds=3)[0] == plain


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"quantile": 0.6}, "quantile must be above 0 and at most 0.5, got 0.6"),
        ({"noise": -1.0}, "noise must be at least 0, or None to estimate it, got -1.0"),
        ({"window": 0}, "window must be a whole number of at least 1, got 0"),
    ],
)
def test_a_wrong_setting_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Smoothed(**setting)


def test_noise_changes_who_is_replaced() -> None:
    plain, _ = trained(Truncation(0.5), 3, noise=1.0)
    assert [o.parent for o in trained(Smoothed(0.5), 3, noise=1.0)[0]] != [o.parent for o in plain]
