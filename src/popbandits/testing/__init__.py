"""Checks of the contract of agents, for your own.

An agent is trained for a few intervals; the report says what is wrong, how to fix it, and what the agent costs:

    print(check_agent(make_agent, space))  # or check_batched(make_agents, space)

The contract suites for explorers and selections are in the experiments: `popbandits_experiments.contracts`.
"""

from typing import TYPE_CHECKING, Any

from popbandits.basics.deprecation import moved, present_name
from popbandits.testing.agent_report import AgentRule, BatchRule, Costs, Finding, Report
from popbandits.testing.agents import check_agent
from popbandits.testing.batches import check_batched

__all__ = ["AgentRule", "BatchRule", "Costs", "Finding", "Report", "check_agent", "check_batched"]

MOVED = (
    *("EXPLORER_CHECKS", "SELECTION_CHECKS", "SITUATIONS", "Question", "check_explorer", "check_selection"),
    *("question", "spaces", "toy_history", "toy_score"),
)
"""Names that the experiments have now."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Rule":
            return globals()[present_name(__name__, {"Rule": "AgentRule"}, name)]
        return moved(__name__, name, "popbandits_experiments.contracts", MOVED)
