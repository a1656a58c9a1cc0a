"""How the default was chosen: variations of it, and pairs of methods, on results whose truth is known."""

from pathlib import Path

import numpy as np
import pytest

from experiments.tests.ground.test_tables import cells, runs
from popbandits.explorers import PBT, NearPBT
from popbandits.space import Space
from popbandits_experiments.batched import spaces
from popbandits_experiments.ground import __main__
from popbandits_experiments.ground.deciding import ALONE, DEFAULTS, MEMBERS, Spec, Tuned
from popbandits_experiments.ground.methods import LAST_LR, METHODS
from popbandits_experiments.ground.records import append
from popbandits_experiments.ground.scales import scale_of


def test_the_control_differs_from_pbt_in_its_prior_alone() -> None:
    control = METHODS["pbt/prior/start"]
    made = control.make()
    assert isinstance(made, PBT)
    prior, theirs = (method.make_prior(Space({"x": (0.0, 1.0)}), [{"x": 0.5}]) for method in (made, NearPBT()))
    assert prior is not None
    assert theirs is not None
    assert (prior.concentration, prior.around is None) == (theirs.concentration, theirs.around is None) == (2.0, False)
    assert {name: getattr(made, name) for name in vars(PBT())} == vars(PBT())
    assert control.make_selection() is None
    names = ("pbt/prior/start", "near-pbt/start", "pbt/start")
    control_orders, near, pbt = (Tuned(Spec(name, spaces.wide(), 4, 0)).advance(None) for name in names)
    assert control_orders == near != pbt


def test_standing_still_on_the_mountain_is_no_take_off() -> None:
    assert scale_of("MountainCarContinuous").take_off > 0


def test_a_population_can_start_from_a_cosine_or_follow_it_untuned() -> None:
    space, rounds = spaces.wide(), 9
    usual = dict(space.get_default_configuration())
    learning_rates = {}
    for name in ("defaults/cosine", "near-pbt/cosine"):
        run, scores, rates = Tuned(Spec(name, space, rounds, 0)), None, []
        while (orders := run.advance(scores)) is not None:
            rates.append([order.config["lr"] for order in orders])
            scores = [float(len(rates) % 3 + order.config["lr"]) for order in orders]
            if name == "defaults/cosine":
                assert [order.config | {"lr": usual["lr"]} for order in orders] == [usual] * MEMBERS
        learning_rates[name] = np.array(rates)
    untuned, tuned = learning_rates.values()
    shares = (1 + np.cos(np.pi * np.arange(rounds) / (rounds - 1))) / 2
    last = max(LAST_LR * usual["lr"], space["lr"].lower)
    expected = last + (usual["lr"] - last) * shares
    assert untuned == pytest.approx(np.tile(expected[:, None], MEMBERS), rel=1e-9)
    assert tuned[0, 0] == pytest.approx(usual["lr"])
    assert (tuned[0, 1:] != tuned[0, 0]).all()
    assert tuned[-1].max() < tuned[0].max()


def test_a_started_variation_gives_the_first_member_the_defaults() -> None:
    space = spaces.wide()
    defaults = dict(space.get_default_configuration())
    for name, started in (("pbt/start", True), ("near-pbt/start", True), ("pbt", False)):
        orders = Tuned(Spec(name, space, 4, 0)).advance(None)
        assert orders is not None
        assert [order.config == defaults for order in orders] == [started, False, False, False]


def test_a_control_keeps_the_defaults_to_the_end() -> None:
    space = spaces.wide()
    defaults = dict(space.get_default_configuration())
    run, scores, kept = Tuned(Spec("near-pbt/control", space, 6, 0)), None, []
    while (orders := run.advance(scores)) is not None:
        kept.append([order.config == defaults for order in orders])
        scores = [-1.0, 1.0, 2.0, 3.0]  # The control is always the worst.
    assert np.array(kept)[:, 0].all()
    assert not np.array(kept)[:, 1:].any()


def test_the_defaults_with_one_budget_hand_over_the_first_member_whatever_the_others_do() -> None:
    rising = np.arange(MEMBERS, dtype=float).tolist()
    for name, member in ((ALONE, 0), (DEFAULTS, MEMBERS - 1)):
        tuned = Tuned(Spec(name, spaces.wide(), 1, 0))
        tuned.advance(None)
        tuned.advance(rising)
        assert tuned.handed_over == member


def test_pairs_tell_better_from_as_good_but_for_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale = 1000 + 25  # Pendulum's, from random to solved.
    append(runs("pbt", lambda seed: 0.5), tmp_path)
    append(runs("pb2-mix", lambda seed: 0.5 + (0.1 if seed < 2 else -2 / scale if seed < 6 else -0.1)), tmp_path)
    assert __main__.main(["pairs", "pb2-mix", "pbt", "--results", str(tmp_path), "--all-tasks"]) == 0
    _, _, table = capsys.readouterr().out.partition("beside PBT\n\n")
    (row,) = [row for name, row in cells(table.strip()).items() if name == "Pendulum"]
    level = "at least as good, within 2 standard errors"
    assert row == {
        "pairs": "8",
        "better": "0.25",
        level: "0.75",
        "rank correlation": "",
        "late low lr, difference": "+0.00 [+0.00, +0.00]",
        "mean without this task": "–",
    }


def test_pairs_tell_which_method_chooses_lower_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(runs("pbt", lambda seed: 0.5, seeds=[0, 1], late_choices=10, late_low_lr=1), tmp_path)
    append(runs("pbt", lambda seed: 0.5, seeds=[2], late_choices=0, late_on_bound=0, late_low_lr=0), tmp_path)
    append(runs("pb2-mix", lambda seed: 0.5, seeds=[0, 1, 2], late_choices=10, late_low_lr=6), tmp_path)
    assert __main__.main(["pairs", "pb2-mix", "pbt", "--results", str(tmp_path), "--all-tasks"]) == 0
    _, _, table = capsys.readouterr().out.partition("beside PBT\n\n")
    (row,) = [row for name, row in cells(table.strip()).items() if name == "Pendulum"]
    assert row["late low lr, difference"] == "+0.50 [+0.50, +0.50]"
