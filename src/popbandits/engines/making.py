"""Build an agent from what a user gave as one, say what is wrong with it, and find its optional evaluation."""

from collections.abc import Callable, Sequence
from inspect import Parameter, isclass, signature
from numbers import Real
from typing import Any, cast

from popbandits.agent import Agent, MakeAgent
from popbandits.errors import AgentError

AGENT_METHODS = {"train": "config", "save": "directory", "load": "directory"}
"""Methods that every agent has, and the only argument of each."""
_SEED_NAMES = {"seed", "random_seed", "rng_seed", "random_state", "s"}
"""Names of an optional parameter that takes the seed; any required one does."""
_CONFIG_NAMES = {"config", "configs", "configuration", "cfg", "conf", "hparams", "hyperparameters", "params", "trial"}
"""Names of a parameter that does not expect a seed."""
_HOW_TO_WRITE_AN_AGENT = (
    "write a class whose train(config) trains for one interval and returns the score, with save and load for its state"
)
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class IncompleteAgentError(AgentError):
    """An agent cannot be built, or lacks a method of the contract."""


def build(make_agent: MakeAgent, seed: int) -> Agent:
    """Build an agent, and check that it has all methods, before it trains."""
    agent: object = _make(make_agent, seed)
    must = "make_agent(seed) must return an agent, an object with train, save and load"
    if agent is None or isinstance(agent, type):
        got = "None; return the agent" if agent is None else f"the class {agent.__name__}; call it"
        raise IncompleteAgentError(f"{must}, got {got}")
    if isinstance(agent, Real):
        raise IncompleteAgentError(f"{must}, got {agent!r}, as an objective function returns; {_HOW_TO_WRITE_AN_AGENT}")
    if missing := [name for name in AGENT_METHODS if not callable(getattr(agent, name, None))]:
        add = "add it" if len(missing) == 1 else "add them"
        raise IncompleteAgentError(
            f"an agent has train, save and load, got {agent!r:.200} without {', '.join(missing)}; {add}"
        )
    for name, argument in AGENT_METHODS.items():
        _require_one_argument(agent, name, argument)
    return cast(Agent, agent)


def _require_one_argument(agent: object, name: str, argument: str) -> None:
    try:
        called = signature(getattr(agent, name), follow_wrapped=False)  # A wrapper may fill in the rest.
    except (TypeError, ValueError):  # Some builtins have no signature.
        return
    try:
        called.bind(argument)
    except TypeError:
        raise IncompleteAgentError(
            f"{name} is called with one argument, the {argument}, got {type(agent).__name__}.{name}{called}; "
            f"write {name}(self, {argument})"
        ) from None


def find_evaluate(agent: object) -> Callable[..., Any] | None:
    """Return the agent's `evaluate` if a seed, given by name, is all that it needs; an agent may have another one."""
    evaluate: Any = getattr(agent, "evaluate", None)
    try:
        called = signature(evaluate)
        called.bind(seed=0)
    except (TypeError, ValueError):
        return None
    return evaluate if "seed" in called.parameters else None


def _make(make_agent: MakeAgent, seed: int) -> Agent:
    """Call a class or function with the seed, or with nothing if it takes none."""
    try:
        called = signature(make_agent)
    except (TypeError, ValueError):  # Some builtins have no signature; follow the contract.
        return make_agent(seed)
    args, keywords = _arguments(list(called.parameters.values()), seed)
    fits, expects_config = True, bool(args) and next(iter(called.parameters)) in _CONFIG_NAMES
    try:
        signature(make_agent, follow_wrapped=False).bind(*args, **keywords)  # A wrapper may fill in the rest.
    except TypeError:
        fits, expects_config = False, bool(_CONFIG_NAMES & called.parameters.keys())
    if fits and not expects_config:
        return make_agent(*args, **keywords)
    if not expects_config:
        fix = "; give the other arguments with functools.partial, or in a function that takes the seed"
    elif isclass(make_agent):
        fix = "; hyperparameters change as it trains: take them in train(config), and the seed or nothing here"
    else:
        fix = f", which looks like an objective function; {_HOW_TO_WRITE_AN_AGENT}"
    name = getattr(make_agent, "__qualname__", repr(make_agent))
    raise IncompleteAgentError(f"make_agent is called with a seed, and nothing else, got {name}{called}{fix}")


def _arguments(parameters: Sequence[Parameter], seed: int) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the seed as the argument that these parameters want it as; nothing if they want none."""
    first = parameters[0] if parameters else None
    if first is not None and first.kind in _POSITIONAL and first.name in _SEED_NAMES:
        return (seed,), {}
    if any(one.name == "seed" and one.kind in (*_POSITIONAL, Parameter.KEYWORD_ONLY) for one in parameters):
        return (), {"seed": seed}
    if first is None or first.kind not in (*_POSITIONAL, Parameter.VAR_POSITIONAL):
        return (), {}
    return ((seed,) if first.default is first.empty else ()), {}
