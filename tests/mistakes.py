"""Typical mistakes and the message that each gets: what `tests/test_mistakes.py` runs and `docs/mistakes.md` shows.

To write the page anew after a change: `python -m tests.mistakes`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from popbandits import methods

PAGE = Path(__file__).parent.parent / "docs" / "mistakes.md"

BEFORE = """\
from pathlib import Path

from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float

from popbandits import PB2Mix, StopAtScore, log, resume, tune


class Climber:
    height = 0.0

    def train(self, config):
        self.height += config.get("lr", 0.1)
        return self.height

    def save(self, directory):
        (directory / "height").write_text(str(self.height))

    def load(self, directory):
        self.height = float((directory / "height").read_text())


space = {"lr": (0.01, 1.0), "optimizer": ["adam", "sgd"]}
"""
"""What every mistake has at hand."""


@dataclass(frozen=True)
class Mistake:
    """Code that is wrong, and what its author is told; "…" in the message stands for anything."""

    group: str
    title: str
    code: str
    message: str
    """The error's type and text; what a terminal shows, where it begins with "Warning: " or is no error."""


def _agents(title: str, body: str, message: str) -> Mistake:
    """Describe a mistake in a method of an agent that is otherwise right."""
    return Mistake(AGENT, title, f"class Mine(Climber):\n{body}\n\n\ntune(Mine, space, rounds=2)", message)


ARGUMENT = "Arguments of `tune`"
AGENT = "The agent"
SPACE = "The space"
START = "First configurations"
FOLDER = "Folders and resuming"

METHODS = ", ".join(methods.METHODS)
CHANGEABLE = (
    "agent, method, rounds, engine, workers, resources, round_timeout, max_failures, keep, selection, slurm, "
    "evaluations, max_cost, callbacks"
)
NO_SCORE = "RunError: a run ends when no interval has completed yet; the last failure: "
GOES_ON = ". Everything so far is in runs/…: fix the agent, then start the run again…"
RUN = 'tune(Climber, space, rounds=2, directory="runs/first", progress=False)\n'

MISTAKES = (
    Mistake(
        ARGUMENT,
        "a method's name misspelt",
        'tune(Climber, space, "PB2Mix")',
        f"ArgumentError: method must be an explorer or one of {METHODS}, got 'PB2Mix'; did you mean 'pb2-mix'?",
    ),
    Mistake(
        ARGUMENT,
        "a method's class instead of an object",
        "tune(Climber, space, PB2Mix)",
        "ArgumentError: method must be an explorer, an object with a method explore, got <class '…PB2Mix'>; "
        "make one, such as PBT()",
    ),
    Mistake(
        ARGUMENT,
        "an engine's name misspelt",
        'tune(Climber, space, engine="process")',
        "ArgumentError: engine must be one of in-process, threads, processes, ray, slurm, batched, got 'process'; "
        "did you mean 'processes'?",
    ),
    Mistake(
        ARGUMENT,
        "an argument's name misspelt",
        "tune(Climber, space, round=5)",
        "TypeError: tune() got an unexpected keyword argument 'round'; did you mean 'rounds'?",
    ),
    Mistake(
        ARGUMENT,
        "agent and space the wrong way round",
        "tune(space, Climber)",
        "ArgumentError: agent must be callable: make_agent(seed) builds an agent, got {'lr': (0.01, 1.0), 'optimizer': "
        "['adam', 'sgd']}; give the class itself, or a function",
    ),
    Mistake(
        ARGUMENT,
        "nobody in the population",
        "tune(Climber, space, population=0)",
        "ArgumentError: population must be a whole number from 1 to 1,000,000, got 0",
    ),
    Mistake(
        ARGUMENT,
        "a float for the population",
        "tune(Climber, space, population=4.0)",
        "ArgumentError: population must be a whole number from 1 to 1,000,000, got 4.0",
    ),
    Mistake(
        ARGUMENT,
        "a population of one",
        "tune(Climber, space, population=1, rounds=2)",
        "Warning: a population of 1 has no better member to copy, so nothing is tuned; give more members, or "
        "explore='all'",
    ),
    Mistake(
        ARGUMENT,
        "no rounds",
        "tune(Climber, space, rounds=0)",
        "ArgumentError: rounds must be a whole number from 1 to 1,000,000,000, or None for no set end, got 0",
    ),
    Mistake(
        ARGUMENT,
        "too large a quantile",
        "tune(Climber, space, quantile=0.9)",
        "ArgumentError: quantile must be above 0 and at most 0.5, got 0.9; 0.25 is usual",
    ),
    Mistake(
        ARGUMENT,
        "another library's word for the direction",
        'tune(Climber, space, mode="maximize")',
        "ArgumentError: mode must be 'max' or 'min', got 'maximize'",
    ),
    Mistake(
        ARGUMENT,
        "text for a seed",
        'tune(Climber, space, seed="zero")',
        "ArgumentError: seed must be a whole number of at least 0, got 'zero'",
    ),
    Mistake(
        ARGUMENT,
        "a time limit, but the engine that cannot keep it",
        "tune(Climber, space, round_timeout=60)",
        "ArgumentError: the in-process engine cannot end an agent that hangs, got round_timeout=60; use "
        "engine='processes', or 'threads' to leave it behind",
    ),
    Mistake(
        ARGUMENT,
        "Ray's word for a resource (Ray would wait for one of that name)",
        'tune(Climber, space, engine="ray", resources={"GPU": 1})',
        "ArgumentError: resources must be a dict of amounts of at least 0, with cpus and gpus in the plural, "
        "got {'GPU': 1}",
    ),
    Mistake(
        ARGUMENT,
        "options of SLURM jobs without SLURM",
        'tune(Climber, space, slurm={"partition": "gpu"})',
        "ArgumentError: only SLURM takes options of its jobs, got slurm= for in-process; use engine='slurm'",
    ),
    Mistake(
        ARGUMENT,
        "a callback's class that needs arguments",
        "tune(Climber, space, callbacks=[StopAtScore])",
        "ArgumentError: callbacks must be a list of View objects, got the class StopAtScore (missing a required "
        "argument: 'score'); make one, such as StopAtScore(...)",
    ),
    Mistake(
        AGENT,
        "an agent instead of what builds one",
        "tune(Climber(), space)",
        "ArgumentError: agent must be callable: make_agent(seed) builds an agent, got <…Climber object at …>; give the "
        "class itself, or a function",
    ),
    Mistake(
        AGENT,
        "a lambda for processes",
        'tune(lambda seed: Climber(), space, engine="processes")',
        "ArgumentError: engine='processes' sends the agent's maker to other processes, so it must be a function or "
        "class at the top level of a module, got <function <lambda> at …> (…); move it there, or use engine='threads'",
    ),
    Mistake(
        AGENT,
        "a function that forgets to return the agent",
        "def make_agent(seed):\n    Climber()\n\n\ntune(make_agent, space)",
        "AgentError: make_agent(seed) must return an agent, an object with train, save and load, got None; return the "
        "agent",
    ),
    Mistake(
        AGENT,
        "a function that returns the class",
        "tune(lambda seed: Climber, space)",
        "AgentError: make_agent(seed) must return an agent, an object with train, save and load, got the class "
        "Climber; call it",
    ),
    Mistake(
        AGENT,
        "an agent that needs more than a seed",
        "def make_agent(environment, seed):\n    return Climber()\n\n\ntune(make_agent, space)",
        "AgentError: make_agent is called with a seed, and nothing else, got make_agent(environment, seed); give the "
        "other arguments with functools.partial, or in a function that takes the seed",
    ),
    Mistake(
        AGENT,
        "an agent that wants its hyperparameters when it is built",
        'class Mine(Climber):\n    def __init__(self, config):\n        self.lr = config["lr"]\n\n\ntune(Mine, space)',
        "AgentError: make_agent is called with a seed, and nothing else, got Mine(config); hyperparameters change as "
        "it trains: take them in train(config), and the seed or nothing here",
    ),
    Mistake(
        AGENT,
        "an objective function instead of an agent",
        'def objective(trial):\n    return trial.suggest_float("lr", 0.01, 1.0)\n\n\ntune(objective, space)',
        "AgentError: make_agent is called with a seed, and nothing else, got objective(trial), which looks like an "
        "objective function; write a class whose train(config) trains for one interval and returns the score, with "
        "save and load for its state",
    ),
    Mistake(
        AGENT,
        "a function that returns a score",
        "tune(lambda x: x**2, space)",
        "AgentError: make_agent(seed) must return an agent, an object with train, save and load, got …, as an "
        "objective function returns; write a class whose train(config) trains for one interval and returns the score, "
        "with save and load for its state",
    ),
    Mistake(
        AGENT,
        "an agent without save and load",
        "class Mine:\n    def train(self, config):\n        return 1.0\n\n\ntune(Mine, space)",
        "AgentError: an agent has train, save and load, got <…Mine object at …> without save, load; add them",
    ),
    Mistake(
        AGENT,
        "hyperparameters as arguments of train",
        "class Mine(Climber):\n    def train(self, lr, optimizer):\n        return lr\n\n\ntune(Mine, space)",
        "AgentError: train is called with one argument, the config, got Mine.train(lr, optimizer); "
        "write train(self, config)",
    ),
    Mistake(
        AGENT,
        "a save that writes nothing",
        "class Mine(Climber):\n    def save(self, directory):\n        pass\n\n\ntune(Mine, space)",
        "PopbanditsWarning: save wrote no file, so a checkpoint restores nothing, neither for a member that copies "
        "another nor for you; write all that training continues from, unless nothing lasts between intervals",
    ),
    Mistake(
        AGENT,
        "an agent for one member, and the engine that wants all members in one",
        'tune(Climber, space, engine="batched")',
        "AgentError: engine='batched' calls make_agents with the list of all seeds, got <class '…Climber'>, which does "
        "not take one; choose another engine for agents that are built one by one",
    ),
    _agents(
        "train returns nothing",
        '    def train(self, config):\n        self.height += config["lr"]',
        f"{NO_SCORE}AgentError: train must return a number or an Outcome, got None; return the score at the end of the "
        f"interval{GOES_ON}",
    ),
    _agents(
        "train returns text",
        '    def train(self, config):\n        return "0.5"',
        f"{NO_SCORE}AgentError: train must return a number or an Outcome, got '0.5'; return the score at the end of "
        f"the interval{GOES_ON}",
    ),
    _agents(
        "train returns several scores",
        "    def train(self, config):\n        return [0.5, 0.6]",
        f"{NO_SCORE}AgentError: train must return a number or an Outcome, got [0.5, 0.6]; return the score at the end "
        f"of the interval{GOES_ON}",
    ),
    _agents(
        "every score is NaN",
        '    def train(self, config):\n        return float("nan")',
        f"{NO_SCORE}the score must be finite, got nan{GOES_ON}",
    ),
    _agents(
        "train asks for a hyperparameter of another name",
        '    def train(self, config):\n        return config["learning_rate"]',
        f"{NO_SCORE}KeyError: 'learning_rate'{GOES_ON}",
    ),
    _agents(
        "training with another value than was asked for, as applied() tells",
        '    def applied(self):\n        return {"lr": 0.5}',
        "AgentError: an agent must train with the hyperparameters it is given, but applied() says otherwise: lr is "
        "0.5, expected …; let train set them after a load, also those that the optimizer restored",
    ),
    Mistake(
        AGENT,
        "a global random generator in threads",
        "import random\n\n\nclass Mine(Climber):\n    def train(self, config):\n        return super().train(config) + "
        'random.random()\n\n\ntune(Mine, space, engine="threads", rounds=2)',
        "PopbanditsWarning: engine='threads' lets members share the global generator of random, which was used while "
        "they trained: the same seed may not give the same history; use engine='processes', or draw from generators of "
        "the agent's own",
    ),
    Mistake(
        AGENT,
        "a hyperparameter that the agent does not use",
        'from popbandits.testing import check_agent\n\nprint(check_agent(Climber, {"lr": (0.01, 1.0), "gamma": (0.9, '
        "0.999)}))",
        "…warning   train uses its hyperparameters…gamma: another value must show, got the score … with either and no "
        "other…difference; let train use it…",
    ),
    Mistake(
        SPACE,
        "an empty space",
        "tune(Climber, {})",
        "SpaceError: a space needs at least one parameter, got none; write for example {'lr': (0.1, 1.0)}",
    ),
    Mistake(
        SPACE,
        "a space of constants",
        'tune(Climber, {"lr": 0.5}, rounds=2)',
        "Warning: the space has nothing to tune, so 4 members train with the same values; write a range as (0.1, 1.0) "
        "and choices as ['adam', 'sgd']",
    ),
    Mistake(
        SPACE,
        "a range the wrong way round",
        'tune(Climber, {"lr": (1.0, 0.01)})',
        "SpaceError: 'lr': the lower bound comes first, got (1.0, 0.01); swap the two",
    ),
    Mistake(
        SPACE,
        "a log range from zero",
        'tune(Climber, {"lr": log(0.0, 1.0)})',
        "SpaceError: 'lr': a log range must be above zero, got log(0.0, 1.0); raise the lower bound, or use a linear "
        "range",
    ),
    Mistake(
        SPACE,
        "a log range from zero, with ConfigSpace's own class (and its own message)",
        'tune(Climber, {"lr": Float("lr", (0.0, 1.0), log=True)})',
        "ValueError: Hyperparameter 'lr' has illegal settings",
    ),
    Mistake(
        SPACE,
        "a log range whose bounds are a whole number and a float",
        'tune(Climber, {"batch": log(8, 512.0)})',
        "SpaceError: 'batch': a log range has two floats or two whole numbers, got log(8, 512.0); write log(8, 512) "
        "for whole numbers, or log(8.0, 512.0) for all numbers between",
    ),
    Mistake(
        SPACE,
        "a default outside of its range",
        'tune(Climber, {"lr": log(1e-4, 1e-2, default=0.1)})',
        "SpaceError: 'lr': the default must be within the bounds, got log(0.0001, 0.01, default=0.1); widen the range, "
        "or move it",
    ),
    Mistake(
        SPACE,
        "a default with a fraction in a range of whole numbers",
        'tune(Climber, {"batch": log(8, 512, default=0.5)})',
        "SpaceError: 'batch': the default must be a whole number, as its bounds are, got log(8, 512, default=0.5); "
        "convert it",
    ),
    Mistake(
        SPACE,
        "a log range in a ConfigurationSpace",
        'tune(Climber, ConfigurationSpace({"lr": log(1e-4, 1e-2)}))',
        "SpaceError: 'lr': log() belongs in a dict, got log(0.0001, 0.01) in a ConfigurationSpace; write Float('lr', "
        "(lower, upper), log=True), or Integer",
    ),
    Mistake(
        SPACE,
        "a limit on choices",
        'from popbandits import only_falls\n\ntune(Climber, {"lr": only_falls([0.1, 0.01, 0.001])})',
        "SpaceError: 'lr': only a number or an ordinal can be one that only falls, got lr: one of 0.1, 0.01, 0.001; "
        "drop the limit, or use ConfigSpace's OrdinalHyperparameter for labels that have an order",
    ),
    Mistake(
        SPACE,
        "a linear range over three decades or more",
        'tune(Climber, {"lr": (1e-5, 1e-1)}, rounds=2)',
        "Warning: lr: (1e-05, 0.1) is linear, so that most values tried are above 0.01; write log(1e-05, 0.1)",
    ),
    Mistake(
        SPACE,
        "a distribution of Optuna",
        "from optuna.distributions import FloatDistribution\n\n"
        'tune(Climber, {"lr": FloatDistribution(1e-5, 1e-1, log=True)})',
        "SpaceError: 'lr': Optuna's distributions are read by popbandits.adapters.optuna.space_from_optuna, got "
        "FloatDistribution(…); give space_from_optuna({...}) as the space, or write log(lower, upper), (lower, upper) "
        "or a list of choices",
    ),
    Mistake(
        SPACE,
        "a distribution of Ray Tune",
        'import ray.tune\n\ntune(Climber, {"lr": ray.tune.loguniform(1e-5, 1e-1)})',
        "SpaceError: 'lr': Ray Tune's distributions belong in the param_space of a ray.tune.Tuner, which the "
        "schedulers of popbandits.ray (such as NearPBT) read, got <ray.tune…>; here write log(lower, upper), "
        "(lower, upper) or a list of choices",
    ),
    Mistake(
        SPACE,
        "a grid of Ray Tune",
        'import ray.tune\n\ntune(Climber, {"batch": ray.tune.grid_search([32, 64])})',
        "SpaceError: 'batch': choices are a list, got {'grid_search': [32, 64]}, Ray's grid_search; write [32, 64]",
    ),
    Mistake(
        SPACE,
        "a distribution of SciPy",
        'import scipy.stats\n\ntune(Climber, {"lr": scipy.stats.loguniform(1e-5, 1e-1)})',
        "SpaceError: 'lr': SciPy's distributions are not read, got <scipy.stats…>; write log(lower, upper), (lower, "
        "upper) or a list of choices",
    ),
    Mistake(
        SPACE,
        "a range described in a dict",
        'tune(Climber, {"lr": {"type": "loguniform", "low": 1e-5, "high": 1e-1}})',
        "SpaceError: 'lr': a dict is a group of parameters, not the description of one, got {'type': 'loguniform', "
        "'low': 1e-05, 'high': 0.1}; write log(1e-05, 0.1), or Constant('type', 'loguniform') if lr.type is a constant",
    ),
    Mistake(
        SPACE,
        "bounds in a dict",
        'tune(Climber, {"clip": {"min": 0.1, "max": 0.5}}, rounds=2)',
        "Warning: clip: {'min': 0.1, 'max': 0.5} is a group and makes clip.min and clip.max; write (0.1, 0.5) to tune "
        "clip itself",
    ),
    Mistake(
        SPACE,
        "a range with its scale in it",
        'tune(Climber, {"lr": (1e-5, 1e-2, "log")})',
        "SpaceError: 'lr': a tuple is a range (lower, upper) of two numbers, got (1e-05, 0.01, 'log'); write a list "
        "for choices, or log(lower, upper) for a log range",
    ),
    Mistake(
        SPACE,
        "a range written as a list",
        'tune(Climber, {"lr": [0.01, 1.0]}, rounds=2)',
        "Warning: lr: [0.01, 1.0] is a choice of two values, a range is a tuple; write (0.01, 1.0) for all numbers "
        "between",
    ),
    Mistake(
        SPACE,
        "a range of floats written in whole numbers",
        'tune(Climber, {"lr": (0, 1)}, rounds=2)',
        "Warning: lr: (0, 1) means the whole numbers 0, 1; write (0.0, 1.0) for all numbers between",
    ),
    Mistake(
        SPACE,
        "a label twice",
        'tune(Climber, {"optimizer": ["adam", "sgd", "adam"]})',
        "SpaceError: 'optimizer': labels must differ, got 'adam' and 'adam', which are equal; drop one",
    ),
    Mistake(
        SPACE,
        "a condition in a dict",
        'momentum, optimizer = Float("momentum", (0.0, 1.0)), Categorical("optimizer", ["adam", "sgd"])\n'
        'condition = EqualsCondition(momentum, optimizer, "sgd")\n'
        'tune(Climber, {"momentum": momentum, "optimizer": optimizer, "if": condition})',
        "SpaceError: 'if': a dict holds parameters only, got the rule momentum | optimizer == 'sgd'; make a "
        "ConfigurationSpace and add the rule to it",
    ),
    Mistake(
        SPACE,
        "a condition on a parent that is missing (the message is ConfigSpace's own)",
        'made = ConfigurationSpace({"momentum": (0.0, 1.0)})\n'
        'made.add(EqualsCondition(made["momentum"], Categorical("optimizer", ["adam", "sgd"]), "sgd"))',
        "ParentNotFoundError: Could not find parent 'optimizer' for condition momentum | optimizer == 'sgd'",
    ),
    Mistake(
        START,
        "a name that is not in the space",
        'tune(Climber, space, start=[{"learning_rate": 0.1}])',
        "SpaceError: start[0]: 'learning_rate': a value needs a parameter, got 0.1; there are lr, optimizer",
    ),
    Mistake(
        START,
        "a value that is out of range",
        'tune(Climber, space, start=[{"lr": 5.0}])',
        "SpaceError: start[0]: 'lr': the value must be in [0.01, 1.0], got 5.0; clip it",
    ),
    Mistake(
        START,
        "a value instead of a configuration",
        "tune(Climber, space, start=0.1)",
        "ArgumentError: start must be a configuration or a list of them, 'defaults', 'random', a History, or the "
        "folder of a run, got 0.1",
    ),
    Mistake(
        FOLDER,
        "a folder that has a run in it",
        RUN + 'tune(Climber, space, rounds=2, directory="runs/first")',
        "HistoryError: runs/first holds a run already; give another directory, or resume with: popbandits resume "
        "runs/first",
    ),
    Mistake(
        FOLDER,
        "a file for a folder",
        'Path("first").write_text("notes")\ntune(Climber, space, directory="first")',
        "ArgumentError: directory must be a folder, or a new name, got the file first",
    ),
    Mistake(
        FOLDER,
        "resuming an empty folder",
        'resume("runs")',
        "HistoryError: runs holds no run: it has no run.sqlite; give the folder of a run",
    ),
    Mistake(
        FOLDER,
        "resuming a run that is done",
        RUN + 'resume("runs/first", agent=Climber)',
        "Nothing to do: every member has finished its 2 rounds. To train more: popbandits resume runs/first --rounds N",
    ),
    Mistake(
        FOLDER,
        "resuming with another seed",
        RUN + 'resume("runs/first", seed=1)',
        f"ArgumentError: a resumed run keeps its seed, got 1; {CHANGEABLE} may change",
    ),
    Mistake(
        FOLDER,
        "an argument of resume misspelt",
        RUN + 'resume("runs/first", round=5)',
        f"ArgumentError: resume takes {CHANGEABLE}, got 'round'; did you mean 'rounds'?",
    ),
    Mistake(
        FOLDER,
        "a file of one's own in a checkpoint",
        RUN + 'for folder in Path("runs/first/checkpoints").iterdir():\n    (folder / "notes").write_text("the best")\n'
        'resume("runs/first", rounds=3, agent=Climber)',
        "RunError: runs/first/checkpoints/member-… was not written by this account for this run, or was changed: an "
        "agent that unpickles its checkpoint would run the code in it, so it is not loaded unasked. If you trust the "
        "folder, or began the run with an earlier version: popbandits resume runs/first --trust (in Python: "
        "trust=True)",
    ),
    Mistake(
        FOLDER,
        "a journal of SQLite beside a run",
        RUN + 'Path("runs/first/run.sqlite-journal").write_text("")\nresume("runs/first", rounds=3, agent=Climber)',
        "HistoryError: runs/first/run.sqlite-journal is not part of a run, and SQLite would remove the files that it "
        "names; if you know that nobody else put it there, remove it",
    ),
)


def page() -> Iterator[str]:
    """Write the page, line by line."""
    yield "# Typical mistakes, and what popbandits says to them"
    yield ""
    yield "Every message names the rule, the argument and the value it got, and a fix where there is one. This page is"
    yield "made from `tests/mistakes.py`, whose code the tests run: what you read here is what you get. `…` stands for"
    yield "what differs from run to run. `popbandits check` tries an agent before an expensive run."
    yield ""
    yield "In all of them:"
    yield ""
    yield f"```python\n{BEFORE}```"
    for group, mistakes in groupby(MISTAKES, lambda each: each.group):
        yield f"\n## {group}"
        for each in mistakes:
            yield f"\n**{each.title[0].upper()}{each.title[1:]}**"
            yield ""
            yield f"```python\n{each.code}\n```"
            yield ""
            yield f"> `{each.message}`"


if __name__ == "__main__":
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
