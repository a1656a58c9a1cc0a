"""The page for those who come from Ray Tune: its code runs, and its table has every argument."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.schedulers.pb2 import PB2

import popbandits.ray as ours
from popbandits import History

PAGE = (Path(__file__).parents[2] / "docs" / "migration_ray.md").read_text("utf-8")
SETUP, BEFORE_PB2, AFTER_PB2, RUN_PB2, BEFORE_PBT, AFTER_PBT, RUN_PBT, TODAY = re.findall(
    r"```python\n(.*?)```", PAGE, re.DOTALL
)


def arguments(kind: type) -> set[str]:
    return set(inspect.signature(kind).parameters)


def test_the_table_has_every_argument_of_rays_two_schedulers() -> None:
    table = PAGE.split("## Every argument")[1].split("\n\n")[1]
    rows = re.findall(r"^\| `(\w+)` \| (both|PBT|PB2) \| .+ \|$", table, re.MULTILINE)
    said = {kind: {name for name, of in rows if of in ("both", kind)} for kind in ("PBT", "PB2")}
    assert said == {"PBT": arguments(PopulationBasedTraining), "PB2": arguments(PB2)}
    assert len(rows) == len(table.splitlines()) - 2


@pytest.mark.parametrize("name", ours.__all__)
def test_every_argument_of_rays_two_schedulers_is_taken(name: str) -> None:
    assert arguments(PopulationBasedTraining) | arguments(PB2) <= arguments(getattr(ours, name))


@pytest.mark.parametrize(("before", "after"), [(BEFORE_PB2, AFTER_PB2), (BEFORE_PBT, AFTER_PBT)])
def test_only_the_import_differs(before: str, after: str) -> None:
    assert before.splitlines()[1:] == after.splitlines()[1:]
    assert before.splitlines()[0].startswith("from ray.tune.schedulers")
    assert after.splitlines()[0].startswith("from popbandits.ray import")


@pytest.mark.usefixtures("cluster")
def test_the_pages_code_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where Tune keeps results
    names: dict[str, Any] = {"__name__": "a_page"}
    for code in (SETUP, BEFORE_PB2, AFTER_PB2):
        exec(code, names)
    capsys.readouterr()
    with pytest.warns(UserWarning, match="'augmentation': not in hyperparam_bounds, and tuned too"):
        exec(RUN_PB2, names)
    assert re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0] in capsys.readouterr().out
    first = [o.config["warmup"] for o in names["history"] if o.round == 0]
    assert len(first) == 4
    assert set(first) <= {1, 2, 4}
    synchronous = AFTER_PBT.replace("explore,\n)", "explore,\n    synch=True,\n)")
    assert synchronous != AFTER_PBT  # So that there are copies, whichever trial is first.
    for code in (BEFORE_PBT, AFTER_PBT, synchronous, RUN_PBT, TODAY):
        exec(code, names)
    history: History = names["history"]
    assert len(names["schedule"]) == len(history.lineage()) > 1
    copied = [o.config for o in history if o.parent is not None and o.parent[0] != o.member]
    assert copied
    assert all(config["lr"] <= 0.1 / config["warmup"] for config in copied)
    assert isinstance(names["scheduler"], ours.PB2Fuse)
