"""Every mutant of a module, made from its syntax tree.

A mutant is one small change to one function, named by the module below `receiver`, the function, and what becomes of
what, with the statement around it where the function holds the same text twice. So there is no list to edit when a
module changes.
"""

import ast
import gc
import importlib
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

SHIFTED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDARIES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
TURNED: dict[type[ast.operator], ast.operator] = {ast.Add: ast.Sub(), ast.Sub: ast.Add()}
LEAVES = ast.Return | ast.Continue | ast.Break | ast.Raise
CACHED = type(cache(lambda: None))
SHORT = 90  # characters of a name that show the code


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change to *function* of *module*; *lines* are those of the smallest statement that it is in. *diff* is the
    change to the text that begins at *line*, with ``-`` and ``+`` before the lines."""

    name: str
    module: str
    function: str
    lines: range
    line: int
    diff: str
    code: CodeType


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node hangs: in *field* of *owner*, in a list there at *index*."""

    owner: ast.AST
    field: str
    index: int | None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.owner, self.field, node)
        else:
            getattr(self.owner, self.field)[self.index] = node


@dataclass(frozen=True, slots=True)
class _Change:
    place: _Place
    old: ast.AST
    new: ast.AST
    lines: range

    def __str__(self) -> str:
        old, new = ast.unparse(self.old), ast.unparse(self.new)
        if isinstance(self.new, ast.Constant):
            condition = "while" if isinstance(self.place.owner, ast.While) else "if"
            return f"{condition} {_short(old)} -> {new}"
        if isinstance(self.old, ast.BoolOp):
            rest = [self.new] if self.new in self.old.values else getattr(self.new, "values", [])
            [gone] = [v for v in self.old.values if v not in rest]
            return f"{_short(ast.unparse(gone))} dropped from {_short(old)}"
        return f"{_short(old)} -> {'dropped' if isinstance(self.new, ast.Pass) else _short(new)}"


def mutants(module: str) -> list[Mutant]:
    """Return every mutant of *module*, in the order of its text. Raises ImportError, SyntaxError."""
    path = file_of(module)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = []
    for function, node, alone in _functions(tree):
        changes = list(_changes(node))
        names = _names(node, changes)
        _keep_closures(node, _compiled(alone, function, path))
        for change, said in zip(changes, names, strict=True):
            change.place.put(ast.copy_location(change.new, change.old))
            code = _compiled(alone, function, path)
            change.place.put(change.old)
            line, diff = _diff(text, change)
            name = f"{module.removeprefix('receiver.')}.{function}: {said}"
            found.append(
                Mutant(name=name, module=module, function=function, lines=change.lines, line=line, diff=diff, code=code)
            )
    return found


def _names(node: ast.FunctionDef, changes: Sequence[_Change]) -> list[str]:
    """Return a name for each of *changes* to the function *node*: with the statement around it where another change
    reads the same, so that a name never passes to another change when a statement is added before. Of those that stand
    in like statements each also has its number."""
    names = [str(change) for change in changes]
    alike = Counter(names)
    names = [
        f"{name} in {_around(node, change)}" if alike[name] > 1 else name
        for name, change in zip(names, changes, strict=True)
    ]
    alike, seen = Counter(names), Counter[str]()
    for position, name in enumerate(names):
        seen[name] += 1
        if alike[name] > 1:
            names[position] = f"{name} (#{seen[name]} of {alike[name]})"
    return names


def _around(node: ast.FunctionDef, change: _Change) -> str:
    """Return the first line of the statement of *node* that *change* is a part of, of one that goes the one around."""
    if isinstance(change.old, ast.stmt):
        line = ast.unparse(change.place.owner).partition("\n")[0]
        return f"the else of {line}" if change.place.field == "orelse" else line
    statements = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and change.old in ast.walk(each)]
    return ast.unparse(min(statements, key=lambda each: (each.end_lineno or 0) - each.lineno)).partition("\n")[0]


def _diff(text: str, change: _Change) -> tuple[int, str]:
    """The line where *change* begins, and the lines of *text* before and after it."""
    old: Any = change.old
    lines = text.encode().splitlines()[old.lineno - 1 : old.end_lineno]
    new = ast.unparse(change.new).encode()
    changed = lines[0][: old.col_offset] + new + lines[-1][old.end_col_offset :]
    shown = [*(b"-" + line for line in lines), b"+" + changed]
    return old.lineno, b"\n".join(shown).decode()


def plant(mutant: Mutant) -> None:
    """Give the function of *mutant* its code for the rest of this process, through every reference to it, and the
    functions that it has already made theirs."""
    function = _function(mutant)
    forget(mutant.module)
    changed = [(old, new) for old, new in _inner(function.__code__, mutant.code) if old != new]
    function.__code__ = mutant.code
    gc.unfreeze()  # the tests freeze what they imported, and what is frozen is not listed
    made = [each for each in gc.get_objects() if isinstance(each, FunctionType)] if changed else []
    for old, new in changed:
        for each in made:
            if each.__code__ is old:
                each.__code__ = new


def forget(module: str) -> None:
    """Empty the caches of the functions of *module*: of what was worked out before, no test reaches a line, and no
    mutant changes it."""
    namespace = vars(importlib.import_module(module))
    classes = [each for each in namespace.values() if isinstance(each, type) and each.__module__ == module]
    for each in (value for names in (namespace, *map(vars, classes)) for value in names.values()):
        if isinstance(each, CACHED) and each.__module__ == module:
            each.cache_clear()


def _inner(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The codes of the functions within a function, before and after a change."""
    before, after = ([c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new))
    for code in before:
        for other in after:
            if (code.co_qualname, code.co_firstlineno) == (other.co_qualname, other.co_firstlineno):
                yield code, other
                yield from _inner(code, other)


def _compiled(alone: ast.Module, function: str, path: Path) -> CodeType:
    return _code(compile(ast.fix_missing_locations(alone), str(path), "exec"), function)


def _keep_closures(node: ast.FunctionDef, code: CodeType) -> None:
    """Let each function within *node*, of *code*, name what it takes from around it in a branch that is never run: then
    a change to it leaves the number of its variables as it is, and one that was made before can get its code."""
    for inner in (part for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and part is not node):
        for made in (c for c in _all_codes(code) if c.co_name == inner.name and c.co_freevars):
            names: list[ast.expr] = [ast.Name(id=name, ctx=ast.Load()) for name in made.co_freevars]
            branch = ast.If(
                test=ast.Constant(value=0), body=[ast.Expr(value=ast.Tuple(elts=names, ctx=ast.Load()))], orelse=[]
            )
            inner.body.append(ast.copy_location(branch, inner.body[-1]))


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    for inner in (c for c in code.co_consts if isinstance(c, CodeType)):
        yield inner
        yield from _all_codes(inner)


def file_of(module: str) -> Path:
    """Return the file of *module*, which is imported. Raises ImportError."""
    return Path(str(importlib.import_module(module).__file__))


def _function(mutant: Mutant) -> FunctionType:
    found: Any = importlib.import_module(mutant.module)
    for part in mutant.function.split("."):
        found = vars(found)[part]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        found = next(getattr(found, a) for a in ("fget", "func", "__func__", "__wrapped__") if hasattr(found, a))
    return found


def functions_at(text: str, lines: Collection[int]) -> set[str]:
    """Return the functions of the module *text* that hold one of *lines*, decorators included. Raises SyntaxError."""
    found = set()
    for name, node, _ in _functions(ast.parse(text)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if any(first <= line <= (node.end_lineno or first) for line in lines):
            found.add(name)
    return found


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, ast.Module]]:
    """Each function, and a module that holds nothing else: that is compiled in a moment."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, ast.Module(body=[node], type_ignores=[])
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(node, ast.ClassDef) and isinstance(inner, ast.FunctionDef):
                alone = ast.parse(f"class {node.name}: pass")
                setattr(alone.body[0], "body", [inner])  # noqa: B010  # mypy does not know what was parsed
                yield f"{node.name}.{inner.name}", inner, alone


def _code(code: CodeType, function: str) -> CodeType:
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    for inner in inside:
        if inner.co_qualname == function:
            return inner
    return next(_code(c, function) for c in inside if function.startswith(f"{c.co_qualname}."))


def _changes(function: ast.FunctionDef) -> Iterator[_Change]:
    for index, statement in enumerate(function.body):
        last = index == len(function.body) - 1
        yield from _of(_Place(function, "body", index), statement, range(0), last=last)


def _of(place: _Place, node: ast.AST, lines: range, *, last: bool = False) -> Iterator[_Change]:
    """The changes to *node* and all that it holds; of a *last* statement of a function, no return is dropped."""
    if isinstance(node, ast.Assert) or _is_log(node):
        return
    if isinstance(node, ast.stmt):
        inner = [s.lineno for s in getattr(node, "body", [])[:1] if isinstance(s, ast.stmt)]
        lines = range(node.lineno, max(inner[0], node.lineno + 1) if inner else (node.end_lineno or 0) + 1)
    for new in () if last and isinstance(node, LEAVES) else _instead(place, node):
        yield _Change(place, node, new, lines)
    for field, value in ast.iter_fields(node):
        if field in ("decorator_list", "annotation", "returns", "args") and isinstance(
            node, ast.FunctionDef | ast.AnnAssign | ast.Lambda
        ):
            continue
        if isinstance(value, ast.AST):
            yield from _of(_Place(node, field, None), value, lines)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    ends = last and field in ("body", "orelse") and index == len(value) - 1
                    yield from _of(_Place(node, field, index), item, lines, last=ends)


def _instead(place: _Place, node: ast.AST) -> Iterator[ast.AST]:
    """What stands in the place of *node* in each of its mutants."""
    term, condition = isinstance(place.owner, ast.BoolOp), _is_condition(place)
    if condition and not isinstance(node, ast.Constant):
        yield ast.Constant(value=True)
        yield ast.Constant(value=False)
    match node:
        case ast.Compare():
            for n, op in enumerate(node.ops):
                if isinstance(op, BOUNDARIES) or not (condition or term):  # what sees these forced or dropped, sees it
                    ops = [*node.ops[:n], SHIFTED[type(op)](), *node.ops[n + 1 :]]
                    yield ast.Compare(left=node.left, ops=ops, comparators=node.comparators)
        case ast.BoolOp():
            for n in range(len(node.values)):
                rest = [*node.values[:n], *node.values[n + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)
        case ast.UnaryOp(op=ast.Not()) if not (condition or term):
            yield node.operand
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            yield ast.Call(func=ast.Name(id=SWAPPED[name], ctx=ast.Load()), args=node.args, keywords=node.keywords)
        case ast.BinOp() if type(node.op) in TURNED and not (_is_text(node.left) or _is_text(node.right)):
            yield ast.BinOp(left=node.left, op=TURNED[type(node.op)], right=node.right)
        case ast.stmt():
            yield from _instead_of_statement(place, node)


def _instead_of_statement(place: _Place, node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.AugAssign():
            if type(node.op) in TURNED and not isinstance(node.value, ast.List | ast.ListComp):
                yield ast.AugAssign(target=node.target, op=TURNED[type(node.op)], value=node.value)
            yield ast.Pass()
        case ast.Return() | ast.Continue() | ast.Break() | ast.Raise() if not _is_all_of_a_branch(place):
            yield ast.Pass()
        case ast.Expr(value=ast.Call()) if not ast.unparse(node).startswith("super()"):  # the code would lose its class
            yield ast.Pass()


def _is_condition(place: _Place) -> bool:
    return (place.field == "test" and isinstance(place.owner, ast.If | ast.While | ast.IfExp)) or (
        place.field == "ifs" and isinstance(place.owner, ast.comprehension)
    )


def _is_all_of_a_branch(place: _Place) -> bool:
    """Without it the branch does nothing, as when its condition is False."""
    owner = place.owner
    return isinstance(owner, ast.If) and place.field == "body" and len(owner.body) == 1 and not owner.orelse


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_log(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node).startswith("log.")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHORT else textwrap.shorten(text, SHORT, placeholder=" ...")
