"""`help` of every public name describes every argument, with its default; texts that are shared are the same."""

import inspect
import pydoc
from types import ModuleType
from typing import Any

import pytest

import popbandits
from popbandits.docstrings import complete_args, read_args

NAMES = [name for name in popbandits.__all__ if not isinstance(getattr(popbandits, name), str | ModuleType)]
NO_ARGUMENTS = {"Agent", "BatchedAgents", "Explorer", "Selection", "View"}
"""Contracts and bases: whoever implements one decides on its arguments."""
UNNAMED = {("Store", "version")}
"""Defaults that change with every version of the library."""


def parameters(public: Any) -> dict[str, inspect.Parameter]:
    if isinstance(public, type) and issubclass(public, Exception):
        return {}
    return dict(inspect.signature(public).parameters)


def is_written(default: Any, text: str) -> bool:
    """Tell whether a text names a default; one that is made for each object needs no name."""
    if default is inspect.Parameter.empty or repr(default) == "<factory>":
        return True
    return repr(default) in text or f'"{default}"' in text


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_every_argument_and_its_default(name: str) -> None:
    public = getattr(popbandits, name)
    texts = {} if name in NO_ARGUMENTS else read_args(public)
    wanted = {} if name in NO_ARGUMENTS else parameters(public)
    assert list(texts) == list(wanted), "one text for each argument, in order"
    shown = pydoc.plain(pydoc.render_doc(public))
    for argument, text in texts.items():
        default = wanted[argument].default
        assert text.strip().endswith((".", ".)")), f"{argument}: {text}"
        assert text.partition("\n")[0] in shown, argument
        assert (name, argument) in UNNAMED or is_written(default, text), (
            f"{argument}: the text does not name {default!r}"
        )


@pytest.mark.parametrize("name", [*sorted(NO_ARGUMENTS), "Population"])
def test_help_describes_the_arguments_of_what_a_user_implements_or_calls(name: str) -> None:
    methods = {n: m for n, m in vars(getattr(popbandits, name)).items() if inspect.isfunction(m) and n[0] != "_"}
    assert methods
    for called, method in methods.items():
        wanted = [argument for argument in inspect.signature(method).parameters if argument != "self"]
        assert list(read_args(method)) == wanted, called


def test_a_setting_that_tune_the_experiment_and_the_population_share_has_one_text() -> None:
    tune, experiment, population = map(read_args, (popbandits.tune, popbandits.Experiment, popbandits.Population))
    assert {name: tune[name] for name in experiment} == experiment
    shared = tune.keys() & population.keys()
    assert shared == population.keys() - {"size", "history"}
    assert {name: tune[name] for name in shared} == {name: population[name] for name in shared}
    assert tune["population"] == population["size"]
    assert tune["progress"] == read_args(popbandits.resume)["progress"]


def test_the_same_settings_have_the_same_defaults_everywhere() -> None:
    tune, population = parameters(popbandits.tune), parameters(popbandits.Population)
    experiment = parameters(popbandits.Experiment)
    assert {name: tune[name].default for name in experiment} == {n: p.default for n, p in experiment.items()}
    assert {n: tune[n].default for n in tune.keys() & population.keys()} == {
        n: population[n].default for n in tune.keys() & population.keys()
    }
    assert tune["population"].default == population["size"].default


def test_own_texts_stand_above_those_taken_over_and_unknown_ones_are_left_out() -> None:
    def base(a: int, b: int, gone: int) -> None:
        """Do it.

        Args:
            a: First,
                on two lines.
            b: Second.
            gone: Not an argument of the other.
        """

    def other(b: int, a: int, c: int) -> None:
        """Do more.

        Args:
            b: Own.

        And this.
        """

    doc = inspect.getdoc(complete_args(base)(other))
    assert doc == "Do more.\n\nAnd this.\n\nArgs:\n    b: Own.\n    a: First,\n        on two lines."
    assert read_args(other) == {"b": "Own.", "a": "First,\n        on two lines."}


def test_an_argument_without_a_text_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(agent: Any, pace: int = 3) -> None:
        """Tune.

        Args:
            agent: Give one.
        """

    monkeypatch.setattr(popbandits, "tune", tune)
    with pytest.raises(AssertionError, match="one text for each argument"):
        test_help_describes_every_argument_and_its_default("tune")


def test_the_testing_package_is_there_after_importing_popbandits() -> None:
    assert popbandits.testing.check_agent.__module__ == "popbandits.testing.agents"
    assert popbandits.__getattr__("testing") is popbandits.testing  # Imported when it is first used, as all names are.


def test_docstrings_can_be_stripped_as_python_does_with_oo() -> None:
    def bare(agent: Any) -> None: ...

    assert complete_args(popbandits.tune)(bare).__doc__ is None
