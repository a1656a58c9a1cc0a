"""Two operators that Cosmic Ray does not have: remove a call, and remove an argument."""

from typing import Any

from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Keyword


class RemoveStatement(Operator):  # type: ignore[misc]
    """Replace a statement that is a call or a `del` by `pass`."""

    def mutation_positions(self, node: Any) -> list[Any]:
        if node.type == "simple_stmt" and len(node.children) == 2 and _is_call_or_del(node.children[0]):
            return [(node.children[0].start_pos, node.children[0].end_pos)]
        return []

    def mutate(self, node: Any, index: int) -> Any:
        removed = node.children[0]
        node.children[0] = Keyword("pass", removed.start_pos, removed.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> Any:
        return (Example("f(x)\n", "pass\n"), Example("del a[0]\n", "pass\n"))


class RemoveArgument(Operator):  # type: ignore[misc]
    """Remove one named argument of a call."""

    def mutation_positions(self, node: Any) -> list[Any]:
        return [(node.children[at].start_pos, node.children[at].end_pos) for at in _named(node)]

    def mutate(self, node: Any, index: int) -> Any:
        at = _named(node)[index]
        if node.type == "arglist":  # with the comma after it, or before it if it is the last
            first = at if at + 1 < len(node.children) else at - 1
            del node.children[first : first + 2]
        else:
            del node.children[at]
        return node

    @classmethod
    def examples(cls) -> Any:
        return (Example("f(x, a=1)", "f(x)"), Example("f(a=1)", "f()"))


def _is_call_or_del(node: Any) -> bool:
    if node.type == "del_stmt":
        return True
    last = node.children[-1] if node.type == "atom_expr" else node
    return last.type == "trailer" and bool(last.children[0] == "(")


def _named(node: Any) -> list[int]:
    """Return the indices of the named arguments among the children of a call's arguments."""
    if node.type not in ("arglist", "trailer"):
        return []
    return [i for i, c in enumerate(node.children) if c.type == "argument" and c.children[1] == "="]
