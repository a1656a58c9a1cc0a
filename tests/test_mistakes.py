"""What is typically done wrong gets the message that `docs/mistakes.md` promises."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.mistakes import BEFORE, MISTAKES, PAGE, Mistake, page


def said_to(code: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run code as a module; the error that ends it, or else all that was printed. Paths begin at `folder`."""
    module = ModuleType("mistaken")
    module.__file__ = str(folder / "mistaken.py")
    sys.modules["mistaken"] = module  # An agent is imported by its name when a run is resumed.
    try:
        exec(BEFORE + code, module.__dict__)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    else:
        text = "".join(capsys.readouterr())
    finally:
        del sys.modules["mistaken"]
    return text.replace(f"{folder}/", "")


def fits(message: str, text: str) -> bool:
    """Tell whether a text is the message, or, where it is no error, has it as one of its lines."""
    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    return any(re.fullmatch(pattern, each, re.DOTALL) for each in (text, *text.splitlines()))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.title)
def test_a_mistake_gets_its_message(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in re.findall(r"^(?:from|import) (optuna|ray)\b", mistake.code, re.MULTILINE):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    text = said_to(mistake.code, tmp_path, capsys)
    assert fits(mistake.message, text), text


def test_no_two_mistakes_have_the_same_name() -> None:
    assert len({each.title for each in MISTAKES}) == len(MISTAKES) >= 20


def test_code_without_a_mistake_gets_none_of_these_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said_to("tune(Climber, space, rounds=2)", tmp_path, capsys)
    assert "Finished in" in text
    assert [each.title for each in MISTAKES if fits(each.message, text)] == []


def test_the_page_of_mistakes_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == "\n".join(page()) + "\n", "write it anew: python -m tests.mistakes"
