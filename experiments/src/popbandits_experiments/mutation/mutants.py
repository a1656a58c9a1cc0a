"""Mutants by Cosmic Ray and two operators of our own: a seeded sample, stored as text replacements."""

import ast
import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
SOURCES = (
    *("models/*.py", "explorers/*.py", "selection/*.py", "population/*.py", "engines/*.py", "run/*.py", "views/*.py"),
    "storage/*.py",
)
"""Files to mutate, in src/popbandits."""
CLUSTERS = "ray_engine.py"
"""Not mutated: its tests start clusters, which take minutes for each mutant."""
GUARDS = ("strict", "frozen")
"""Arguments that have no effect unless there is a mistake elsewhere."""

KINDS = (
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop"),
    *("ExceptionReplacer", "NumberReplacer", "RemoveDecorator"),
    r"ReplaceUnaryOperator_Delete_\w+",
    *("ReplaceUnaryOperator_USub_UAdd", "ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_Div)"),
    "ReplaceBinaryOperator_(Pow_Mul|BitAnd_BitOr|BitOr_BitAnd|LShift_RShift|RShift_LShift)",
    "ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Lt_GtE|GtE_Lt|LtE_Gt|Gt_LtE)",
)
"""Cosmic Ray's operators in use. The others, such as << for -, are noticed by any test."""


@dataclass(frozen=True)
class Mutant:
    """One change: `old` becomes `new` at `start`, in characters from the beginning of the file."""

    id: int
    file: str
    line: int
    kind: str
    start: int
    old: str
    new: str
    sha256: str
    """Hash of the file before the change: a plan is valid only for the sources that it was made from."""

    def applied(self, source: str) -> str:
        """Return the source with the change."""
        if hashlib.sha256(source.encode()).hexdigest() != self.sha256:
            raise SystemExit(f"{self.file} changed since the plan was made; make a new plan")
        assert source[self.start : self.start + len(self.old)] == self.old
        return source[: self.start] + self.new + source[self.start + len(self.old) :]


@dataclass(frozen=True)
class Site:
    """A place in a file with the changes that operators can make there; one of them is drawn."""

    file: str
    span: tuple[tuple[int, int], tuple[int, int]]
    choices: list[tuple[str, Any, int]]
    """(name, operator, which of its occurrences in the file)"""


def plan(count: int, seed: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """Draw sites of all folders, or of those named, and one change at each; all sites for a count of 0."""
    found = [path for path in sources() if not only or path.parent.name in only]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in found}
    sites = [site for file, source in texts.items() for site in find_sites(file, source)]
    rng = random.Random(seed)
    rng.shuffle(sites)
    mutants: list[dict[str, Any]] = []
    for site in sites:
        if (made := make(site, texts[site.file], len(mutants), rng)) is not None:
            mutants.append(asdict(made))
        if len(mutants) == count:
            break
    return {"sites": len(sites), "seed": seed, "mutants": mutants}


def sources() -> list[Path]:
    """Return the files to mutate."""
    folder = ROOT / "src" / "popbandits"
    return [path for pattern in SOURCES for path in sorted(folder.glob(pattern)) if path.name != CLUSTERS]


def find_sites(file: str, source: str) -> list[Site]:
    """Return all sites of a file that can be changed, except code that is never executed."""
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes = list(ast_nodes(get_ast(source)))
    ignored = list(_ignored(source))
    sites: dict[Any, Site] = {}
    for name, operator in _operators():
        occurrence = 0
        for node in nodes:
            for span in operator.mutation_positions(node):
                choice, occurrence = (name, operator, occurrence), occurrence + 1
                if not any(first <= span[0] < last for first, last in ignored):
                    sites.setdefault((span, name.split("_")[0]), Site(file, span, [])).choices.append(choice)
    return list(sites.values())


def _operators() -> Iterator[tuple[str, Any]]:
    from cosmic_ray import plugins

    from popbandits_experiments.mutation.operators import RemoveArgument, RemoveStatement

    for full in plugins.operator_names():
        name = full.removeprefix("core/")
        if any(re.fullmatch(kind, name) for kind in KINDS):
            yield name, plugins.get_operator(full)()
    yield "RemoveStatement", RemoveStatement()
    yield "RemoveArgument", RemoveArgument()


def _ignored(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the spans of annotations and overloads, which are never executed, and of guards, which matter only if
    something else is wrong."""
    for node in ast.walk(ast.parse(source)):
        parts: list[Any] = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.keyword) and node.arg in GUARDS:
            parts.append(node)
        if any(isinstance(each, ast.Name) and each.id == "overload" for each in getattr(node, "decorator_list", ())):
            parts += [node, *node.decorator_list]  # type: ignore[attr-defined]
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def make(site: Site, source: str, number: int, rng: random.Random) -> Mutant | None:
    """Return the first change at a site, in random order, that changes the program; None if there is none."""
    from cosmic_ray.mutating import mutate_code

    for name, operator, occurrence in rng.sample(site.choices, len(site.choices)):
        try:
            changed = mutate_code(source, operator, occurrence)
        except AttributeError:  # Cosmic Ray cannot replace an exception that is named with its module.
            continue
        if changed is None or not _differs(source, changed):
            continue
        start = _in_common(source, changed)
        tail = _in_common(source[start:][::-1], changed[start:][::-1])
        old, new = source[start : len(source) - tail], changed[start : len(changed) - tail]
        line = source.count("\n", 0, start + len(old) - len(old.lstrip())) + 1
        return Mutant(number, site.file, line, name, start, old, new, hashlib.sha256(source.encode()).hexdigest())
    return None


def _differs(source: str, changed: str) -> bool:
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _in_common(a: str, b: str) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
