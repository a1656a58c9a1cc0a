"""What every explorer must do, as checks that yours can be given too.

>>> from popbandits.explorers import RandomSearch
>>> check_explorer(RandomSearch(), {"lr": (0.0, 1.0), "aug": ["crop", "flip"]})

With pytest, a test for every rule and every kind of space:

    @pytest.mark.parametrize("space", spaces().values(), ids=spaces())
    @pytest.mark.parametrize("check", EXPLORER_CHECKS.values(), ids=EXPLORER_CHECKS)
    def test_my_explorer_keeps_the_contract(check, space):
        check(MyExplorer(), space)
"""

from popbandits.testing.contract import EXPLORER_CHECKS, check_explorer
from popbandits.testing.situations import SITUATIONS, Question, question, toy_history, toy_score
from popbandits.testing.spaces import spaces

__all__ = [
    "EXPLORER_CHECKS",
    "SITUATIONS",
    "Question",
    "check_explorer",
    "question",
    "spaces",
    "toy_history",
    "toy_score",
]
