"""What goes to a host without a network; `python -m tools.offline` itself needs one."""

from pathlib import Path

import pytest

from tools.offline import keep_suites


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
