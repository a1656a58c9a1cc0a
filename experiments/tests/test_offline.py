"""What goes to a host without a network; `python -m tools.offline` itself needs one."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools.offline import ENVPOOL, keep_suites


@pytest.mark.parametrize("suites", [["procgen"], ["procgen", "atari"]])
def test_of_envpool_only_the_suites_asked_for_are_left_and_registered(suites: list[str], tmp_path: Path) -> None:
    for name in ("procgen", "atari", "mujoco", "python"):
        (tmp_path / "envpool" / name).mkdir(parents=True)
        (tmp_path / "envpool" / name / "__init__.py").touch()
    for name in ("atari", "mujoco"):
        (tmp_path / "envpool_assets" / name).mkdir(parents=True)
    (tmp_path / "envpool" / "__init__.py").touch()
    (tmp_path / "envpool" / "entry.py").write_text("import envpool.mujoco.registration")
    keep_suites(tmp_path, suites)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")}
    expected = {f"envpool/{name}" for name in ("__init__.py", "entry.py", "python", *suites)}
    assert left == expected | ({"envpool_assets/atari"} & {f"envpool_assets/{suite}" for suite in suites})
    lines = (tmp_path / "envpool" / "entry.py").read_text().splitlines()
    assert lines == [f"import envpool.{suite}.registration" for suite in suites]


def test_a_bundle_has_no_envpool_that_is_newer_than_the_one_of_the_stored_runs() -> None:
    """It may draw other frames, and runs with other frames do not compare."""
    wanted = {each.name: each.specifier for each in map(Requirement, ENVPOOL)}
    assert [*wanted["envpool"].filter(["1.2.4", "1.2.5", "1.2.7", "1.2.8", "1.3"])] == ["1.2.5", "1.2.7"]
    assert "0.5.0" not in wanted["envpool-assets"]  # What 1.2.7 excludes itself, but its dependencies are not asked.
