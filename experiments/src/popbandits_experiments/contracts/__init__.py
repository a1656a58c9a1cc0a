"""Checks of the contracts of explorers and selections, for your own classes too.

>>> from popbandits.explorers import RandomSearch
>>> check_explorer(RandomSearch(), {"lr": (0.0, 1.0), "aug": ["crop", "flip"]})

With pytest, one test for each rule and each kind of space:

    @pytest.mark.parametrize("space", spaces().values(), ids=spaces())
    @pytest.mark.parametrize("check", EXPLORER_CHECKS.values(), ids=EXPLORER_CHECKS)
    def test_my_explorer_keeps_the_contract(check, space):
        check(MyExplorer(), space)

For a selection: `check_selection(MySelection())`, or a test for each of SELECTION_CHECKS.

They import nothing but the product, whose tests use them.
"""

from popbandits_experiments.contracts.explorers import EXPLORER_CHECKS, check_explorer
from popbandits_experiments.contracts.selections import SELECTION_CHECKS, check_selection
from popbandits_experiments.contracts.situations import SITUATIONS, Question, question, toy_history, toy_score
from popbandits_experiments.contracts.spaces import spaces

__all__ = [
    "EXPLORER_CHECKS",
    "SELECTION_CHECKS",
    "SITUATIONS",
    "Question",
    "check_explorer",
    "check_selection",
    "question",
    "spaces",
    "toy_history",
    "toy_score",
]
