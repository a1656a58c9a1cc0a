"""Checks of the contracts of explorers, selections and agents, for your own classes too.

>>> from popbandits.explorers import RandomSearch
>>> check_explorer(RandomSearch(), {"lr": (0.0, 1.0), "aug": ["crop", "flip"]})

With pytest, one test for each rule and each kind of space:

    @pytest.mark.parametrize("space", spaces().values(), ids=spaces())
    @pytest.mark.parametrize("check", EXPLORER_CHECKS.values(), ids=EXPLORER_CHECKS)
    def test_my_explorer_keeps_the_contract(check, space):
        check(MyExplorer(), space)

For a selection: `check_selection(MySelection())`, or a test for each of SELECTION_CHECKS.

An agent is trained for a few intervals; the report says what is wrong, how to fix it, and what the agent costs:

    print(check_agent(make_agent, space))  # or check_batched(make_agents, space)
"""

from typing import TYPE_CHECKING, Any

from popbandits.basics.deprecation import present_name
from popbandits.testing.agent_report import AgentRule, BatchRule, Costs, Finding, Report
from popbandits.testing.agents import check_agent
from popbandits.testing.batches import check_batched
from popbandits.testing.explorers import EXPLORER_CHECKS, check_explorer
from popbandits.testing.selections import SELECTION_CHECKS, check_selection
from popbandits.testing.situations import SITUATIONS, Question, question, toy_history, toy_score
from popbandits.testing.spaces import spaces

__all__ = [
    "EXPLORER_CHECKS",
    "SELECTION_CHECKS",
    "SITUATIONS",
    "AgentRule",
    "BatchRule",
    "Costs",
    "Finding",
    "Question",
    "Report",
    "check_agent",
    "check_batched",
    "check_explorer",
    "check_selection",
    "question",
    "spaces",
    "toy_history",
    "toy_score",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return globals()[present_name(__name__, {"Rule": "AgentRule"}, name)]
