"""The layout is the flow: a package imports only from its left, and nothing heavy before it is used."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import popbandits

ROOT = Path(popbandits.__file__).parent

FLOW = (
    "errors",
    "basics",
    "agent",
    "space",
    "history",
    "models",
    "selection",
    "advice",
    "explorers",
    "methods",
    "population",
    "storage",
    "views",
    "trackers",
    "engines",
    "run",
    "ray",
    "reports",
    "commands",
    "cli",
    "__main__",
)
ALLOWED = {package: set(FLOW[:place]) for place, package in enumerate(FLOW)}
ALLOWED["selection"] -= {"models"}  # It judges what happened; explorers choose what to try.
ALLOWED["advice"] -= {"models"}  # So does this.
ALLOWED["engines"] -= {"trackers"}
ALLOWED["run"] -= {"trackers"}  # It knows views; a user brings trackers.
ALLOWED["reports"] -= {"trackers", "views", "engines", "run", "ray"}  # They read a run's file, whoever made it,
ALLOWED["reports"] -= {"models", "explorers"}  # and show what was decided, not what would be.
ALLOWED["commands"] |= {"rl", "testing"}  # They are how a user comes to everything.
ALLOWED["testing"] = set(FLOW) - {"reports", "commands", "cli", "__main__"}
ALLOWED["rl"] = {"errors", "basics", "agent"}  # An agent is anything with train, save and load.
# So are these; two read spaces and histories.
ALLOWED["adapters"] = {"errors", "basics", "agent", "space", "history"}

DEFERRED = {("popbandits.history.history", "popbandits.storage.store")}
"""Imports from the right, allowed when they are used: `History.load` and `History.save` are public, and users who
annotate `history: History` need the class that explorers are given, so that no subclass can have them instead."""

ARROWS = 116
"""Maximum number of pairs of rooms of which one imports the other."""

CORE = ("space", "history", "models", "selection", "explorers", "population")
"""Packages that only decide: no file, no clock, no database, no process."""
PURE = {
    *("array", "bisect", "collections", "contextlib", "copy", "dataclasses", "functools", "gc", "html", "itertools"),
    *("json", "math", "numbers", "operator", "typing", "warnings"),
    *("ConfigSpace", "numpy", "pandas", "scipy", "threadpoolctl"),
}
"""All that they import from elsewhere."""
REACHING = {
    *("open", "print", "input", "exec", "eval", "__import__", "dump", "load", "save", "savez", "memmap", "fromfile"),
    *("tofile", "loadtxt", "savetxt", "genfromtxt", "read_text", "read_bytes", "write_text", "write_bytes"),
}
"""Functions of Python, of these libraries and of paths that reach further than a computation."""

OPTIONAL = {
    "altair",
    "envpool",
    "lightning",
    "matplotlib",
    "mlflow",
    "optuna",
    "pandas",
    "peft",
    "pyarrow",
    "ray",
    "sklearn",
    "stable_baselines3",
    "starlette",
    "submitit",
    "tensorboard",
    "torch",
    "transformers",
    "trl",
    "uvicorn",
    "vl_convert",
    "wandb",
}
EXTRA = tuple(f"popbandits.{name}." for name in ("rl", "ray", "reports.figures", "reports.live", "adapters"))
"""Packages that are of no use without theirs."""
SQL = re.compile(
    r"\s*((SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|BEGIN|COMMIT|ROLLBACK|PRAGMA|ATTACH|VACUUM)\b|"
    r"(?i:select\s.*\sfrom\s+\w+\s*(where|order|limit|$)|insert\s+(or\s+\w+\s+)?into|delete\s+from\s+\w+\s*(where|$)|"
    r"update\s+\w+\s+set|begin\s+(immediate|exclusive|deferred|transaction)|pragma\s|(create|drop)\s+table))"
)
"""How a statement begins: in capitals, as they are usually written, or with words that no sentence begins with."""
SLOW = {"ConfigSpace", "numpy", "rich", "scipy"} | OPTIONAL


@dataclass(frozen=True)
class Import:
    """`module`, or `name` of it, imported at `line`; eager if it runs when the importing module is loaded."""

    module: str
    name: str | None
    line: int
    eager: bool


def imports(source: str, module: str, is_package: bool) -> Iterator[Import]:
    """Every import statement of a module, relative ones made absolute."""
    here = module.split(".") if is_package else module.split(".")[:-1]

    def visit(node: ast.AST, eager: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, None, node.lineno, eager)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(origin, alias.name, node.lineno, eager)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in node.body:
                yield from visit(statement, eager=False)
            for statement in node.orelse:
                yield from visit(statement, eager)
        else:
            later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, eager and not later)

    yield from visit(ast.parse(source), eager=True)


def modules(root: Path) -> dict[str, Path]:
    """Dotted name and file of every module below a package's folder."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(root: Path) -> dict[str, list[Import]]:
    """The imports of every module of a package."""
    return {
        module: list(imports(path.read_text("utf-8"), module, path.name == "__init__.py"))
        for module, path in modules(root).items()
    }


def inside(statement: Import, known: set[str]) -> str | None:
    """The module of ours that an import needs, or None if it is somebody else's."""
    if statement.name and f"{statement.module}.{statement.name}" in known:
        return f"{statement.module}.{statement.name}"
    return statement.module if statement.module.split(".")[0] == ROOT.name else None


def against_the_flow(root: Path) -> list[str]:
    """Imports that run from left to right, one sentence each."""
    wrong = []
    everything = graph(root)
    for module, statements in everything.items():
        if module == root.name:
            continue  # The front door names everything, and imports it when it is asked for.
        package = module.split(".")[1]
        if package not in ALLOWED:
            wrong.append(f"{module}: '{package}' has no place in the flow; give it one in {Path(__file__).name}")
            continue
        for statement in statements:
            target = inside(statement, set(everything))
            if target is None:
                continue
            if target == root.name:
                wrong.append(f"{module}:{statement.line} imports from the front door; name the package")
            elif target.split(".")[1] in ALLOWED[package] | {package}:
                continue
            elif statement.eager or (module, target) not in DEFERRED:
                wrong.append(f"{module}:{statement.line} imports {target}, which is not to its left")
    return wrong


def arrows(root: Path) -> set[tuple[str, str]]:
    """Pairs of a folder or module at the top, and another one that it imports."""
    everything = graph(root)
    pairs = {
        (module.split(".")[1], target.split(".")[1])
        for module, statements in everything.items()
        for statement in statements
        if module != root.name and (target := inside(statement, set(everything))) not in (None, root.name)
    }
    return {(one, other) for one, other in pairs if one != other}


def circle(root: Path) -> list[str]:
    """A circle of imports, or [] if there is none."""
    everything = graph(root)
    needs = {
        module: {target for s in statements if (target := inside(s, set(everything))) and target != module}
        for module, statements in everything.items()
        if module != root.name
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def heavy(root: Path) -> list[str]:
    """Optional packages that loading a module of the core would import."""
    return [
        f"{module}:{statement.line} imports {statement.module} when it is loaded"
        for module, statements in graph(root).items()
        if not f"{module}.".startswith(EXTRA)
        for statement in statements
        if statement.eager and statement.module.split(".")[0] in OPTIONAL
    ]


def sql(root: Path) -> list[str]:
    """SQLite and its language outside `storage`, one sentence each."""
    wrong = []
    for module, path in modules(root).items():
        if f"{module}.".startswith(f"{root.name}.storage."):
            continue
        source = path.read_text("utf-8")
        wrong += [
            f"{module}:{one.line} imports sqlite3"
            for one in imports(source, module, path.name == "__init__.py")
            if one.module.split(".")[0] == "sqlite3"
        ]
        wrong += [
            f"{module}:{node.lineno} says {node.value.split()[0]} to a database"
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
        ]
    return wrong


def reaching_out(root: Path) -> list[str]:
    """What the core imports or calls that could touch files, clocks or processes, one sentence each."""
    wrong = []
    for module, path in modules(root).items():
        if not f"{module}.".startswith(tuple(f"{root.name}.{name}." for name in CORE)):
            continue
        tree = ast.parse(source := path.read_text("utf-8"))
        wrong += [
            f"{module}:{one.line} imports {one.module}"
            for one in imports(source, module, path.name == "__init__.py")
            if one.module.split(".")[0] not in PURE | {root.name}
        ]
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = [(node.lineno, ast.unparse(node.func)) for node in calls]
        wrong += [
            f"{module}:{line} calls {name}"
            for line, name in names
            if name.split(".")[-1] in REACHING and name != "History.load"  # deprecated: a population reads no folder
        ]
    return wrong


def test_every_package_imports_only_from_its_left() -> None:
    assert against_the_flow(ROOT) == []


def test_few_arrows_run_between_the_rooms() -> None:
    """A new one needs a reason; one that is gone lowers the number."""
    assert len(arrows(ROOT)) <= ARROWS


def test_arrows_are_counted_once_for_each_pair(package: Path) -> None:
    assert arrows(package) == {("models", "space")}
    (package / "reports" / "late.py").write_text("def late():\n    from popbandits.models.gp import fit")
    (package / "reports" / "more.py").write_text("import popbandits.models.gp\nfrom popbandits.reports import late")
    assert arrows(package) == {("models", "space"), ("reports", "models")}


def test_no_module_imports_itself_by_a_detour() -> None:
    assert circle(ROOT) == []


def test_the_core_touches_no_file_clock_database_or_process() -> None:
    assert reaching_out(ROOT) == []


def test_the_core_loads_no_database() -> None:
    loaded = loading(*(f"popbandits.{name}" for name in CORE))
    assert "popbandits.population" in loaded
    assert not loaded & {"sqlite3", "popbandits.storage"}


def test_only_storage_knows_the_database() -> None:
    assert sql(ROOT) == []


def test_optional_packages_are_imported_only_where_they_are_used() -> None:
    assert heavy(ROOT) == []


CONTRACTS = "popbandits_experiments.contracts"
"""The contract suites, which the product's own explorers and selections must keep too."""


def experiments(root: Path, allowed: str = "") -> list[str]:
    """Imports of the experiments below a folder, except for one module, one sentence each."""
    return [
        f"{path.relative_to(root)}:{one.line} imports {one.module}"
        for path in sorted(root.rglob("*.py"))
        for one in imports(path.read_text("utf-8"), path.stem, is_package=False)
        if one.module.split(".")[0] in ("experiments", "popbandits_experiments") and one.module != allowed
    ]


def test_nothing_in_the_product_imports_the_experiments() -> None:
    assert experiments(ROOT) == []


def test_tests_of_the_product_import_of_the_experiments_the_contract_suites_alone() -> None:
    assert experiments(Path(__file__).parent, allowed=CONTRACTS) == []


def test_the_contract_suites_import_nothing_else_of_the_experiments() -> None:
    folder = Path(__file__).parents[1] / "experiments" / "src" / CONTRACTS.replace(".", "/")
    found = [sentence for sentence in experiments(folder) if f"imports {CONTRACTS}." not in sentence]
    assert len(experiments(folder)) > 1
    assert found == []


def test_an_import_of_the_experiments_is_found(package: Path) -> None:
    (package / "models" / "gp.py").write_text("def late():\n    from popbandits_experiments.paper import grid")
    assert experiments(package) == ["models/gp.py:2 imports popbandits_experiments.paper"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package with the right layout, for a test to spoil."""
    root = tmp_path / "popbandits"
    for name in ("space", "models", "reports", "rl"):
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text("")
    (root / "__init__.py").write_text("")
    (root / "models" / "gp.py").write_text("import numpy\nfrom popbandits.space import Space\n")
    assert (against_the_flow(root), circle(root), heavy(root)) == ([], [], [])
    return root


@pytest.mark.parametrize(
    "line",
    [
        "from popbandits.models import gp",
        "import popbandits.models.gp",
        "from ..models.gp import fit",
        "from .. import models",
        "def late():\n    from popbandits.models.gp import fit",
        "if TYPE_CHECKING:\n    from popbandits.models.gp import fit",
    ],
)
def test_an_import_from_the_right_is_found_however_it_is_written(package: Path, line: str) -> None:
    (package / "space" / "encoding.py").write_text(line)
    (problem,) = against_the_flow(package)
    assert "popbandits.space.encoding" in problem
    assert "popbandits.models" in problem


@pytest.mark.parametrize("name", ["space", "reports"])
def test_nothing_may_import_rl(package: Path, name: str) -> None:
    (package / name / "agents.py").write_text("from popbandits.rl import ppo")
    (problem,) = against_the_flow(package)
    assert "imports popbandits.rl, which is not to its left" in problem


def test_nothing_inside_may_import_from_the_front_door(package: Path) -> None:
    (package / "models" / "bandit.py").write_text("from popbandits import Space")
    (problem,) = against_the_flow(package)
    assert "front door" in problem


def test_a_new_package_must_take_a_place_in_the_flow(package: Path) -> None:
    (package / "helpers.py").write_text("")
    (problem,) = against_the_flow(package)
    assert "'helpers' has no place in the flow" in problem


def test_a_circle_inside_a_package_is_found(package: Path) -> None:
    (package / "models" / "gp.py").write_text("from popbandits.models.kernel import k")
    (package / "models" / "kernel.py").write_text("from . import gp")
    assert set(circle(package)) == {"popbandits.models.gp", "popbandits.models.kernel"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import time", "imports time"),
        ("def late():\n    from datetime import datetime", "imports datetime"),
        ("from pathlib import Path", "imports pathlib"),
        ("import os.path", "imports os.path"),
        ("text = open('fit.json').read()", "calls open"),
        ("np.save('x.npy', x)", "calls np.save"),
    ],
)
def test_what_reaches_out_of_the_core_is_found(package: Path, line: str, what: str) -> None:
    (package / "reports" / "words.py").write_text(line)
    assert reaching_out(package) == []
    (package / "models" / "fits.py").write_text(line)
    (problem,) = reaching_out(package)
    assert problem.startswith("popbandits.models.fits:")
    assert problem.endswith(what)


def test_only_a_deferred_import_may_run_from_the_right_if_it_is_named(package: Path) -> None:
    (package / "storage").mkdir()
    (package / "storage" / "store.py").write_text("")
    (package / "history").mkdir()
    for name in ("history", "rows"):
        (package / "history" / f"{name}.py").write_text("def load():\n    from popbandits.storage.store import Store")
    (problem,) = against_the_flow(package)
    assert problem.startswith("popbandits.history.rows:2 imports popbandits.storage.store")
    (package / "history" / "history.py").write_text("from popbandits.storage.store import Store")
    assert len(against_the_flow(package)) == 2


@pytest.mark.parametrize(
    "line",
    [
        "import sqlite3",
        "def late():\n    from sqlite3 import Error",
        'rows = store.ask("SELECT id FROM observation")',
        'rows = store.ask(f"SELECT {COLUMNS} FROM observation WHERE id > {least}")',
        'QUERY = """\n    WITH RECURSIVE line AS (VALUES (1)) SELECT * FROM line"""',
        'connection.execute("begin immediate")',
        'connection.execute("PRAGMA journal_mode = WAL")',
        'store.ask("insert into event values (1)")',
    ],
)
def test_sql_outside_storage_is_found_however_it_is_written(package: Path, line: str) -> None:
    (package / "storage").mkdir()
    (package / "storage" / "queries.py").write_text(line)
    assert sql(package) == []
    (package / "reports" / "words.py").write_text(line)
    (problem,) = sql(package)
    assert problem.startswith("popbandits.reports.words:")


def test_words_of_english_are_no_sql(package: Path) -> None:
    words = ("Select whose weights to load.", "Update the axis.", "With a model.", "begin", "delete it", "drop")
    (package / "reports" / "words.py").write_text("\n".join(map(repr, words)))
    assert sql(package) == []


def test_an_optional_package_counts_at_the_top_of_the_core_only(package: Path) -> None:
    (package / "reports" / "late.py").write_text("def figure():\n    import altair\n")
    (package / "rl" / "ppo.py").write_text("import torch")
    assert heavy(package) == []
    (package / "reports" / "early.py").write_text("try:\n    import altair.utils\nexcept ImportError:\n    pass")
    (problem,) = heavy(package)
    assert problem == "popbandits.reports.early:2 imports altair.utils when it is loaded"


def loading(*names: str) -> set[str]:
    """Modules that are loaded in a new process once these are imported."""
    script = f"import sys, {', '.join(names)}; print(*sys.modules)"
    env = os.environ | {"PYTHONPATH": str(ROOT.parent)}  # This checkout, installed or not.
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(("module", "slow"), [("popbandits", SLOW), ("popbandits.engines.workers", SLOW - {"numpy"})])
def test_importing_popbandits_or_starting_a_worker_loads_nothing_slow(module: str, slow: set[str]) -> None:
    loaded = {name.split(".")[0] for name in loading(module)}
    assert "popbandits" in loaded
    assert loaded & slow == set()


@pytest.mark.parametrize("name", popbandits.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    assert getattr(popbandits, name) is not None
    assert name in dir(popbandits)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="No popbandits attribute PB3"):
        popbandits.PB3  # noqa: B018
