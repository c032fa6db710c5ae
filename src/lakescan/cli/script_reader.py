"""Read a PySpark script or notebook with `ast`, without running it: its settings, statements, reads and writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakescan.cli.notebook import find_magic, read_notebook
from lakescan.errors import InvalidOption

UNKNOWN = "\0"  # stands for a part of a text that is known only when the job runs


@dataclass(frozen=True)
class Place:
    """A line of a script; in a notebook, a line of the code cell `cell`, from 1."""

    line: int
    cell: int | None = None


@dataclass(frozen=True)
class Call:
    """A call in a chain of calls such as `df.write.format("delta").save(path)`: its name, arguments and keywords.

    Texts may contain `UNKNOWN`. An argument that is not a constant is None.
    """

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    place: Place

    def argument(self, position: int, *names: str) -> Any:
        """Return an argument by its position or its name; None without it."""
        if position < len(self.arguments):
            return self.arguments[position]
        return next((self.keywords[each] for each in names if each in self.keywords), None)


@dataclass(frozen=True)
class Chain:
    """A chain of attributes and calls, such as `df.write.format("delta").save(path)` with the root `df`.

    `steps` are attribute names, and calls, in the order of the text.
    """

    root: str | None
    steps: tuple[str | Call, ...]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the chain."""
        return tuple(step for step in self.steps if isinstance(step, Call))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all steps."""
        return tuple(step.name if isinstance(step, Call) else step for step in self.steps)


@dataclass
class Script:
    """The contents of a script.

    - `chains`: its outermost chains with at least one call, in the order of the text.
    - `settings`: settings with constant names, each with its value (None if unknown) and place.
    - `imports`: the imported modules with their places.
    - `java`: the texts of attribute chains through `_jvm` and other private Java objects of PySpark.
    - `magics`: the magics of a notebook.
    - `delta_names`: variables that hold a `DeltaTable`.
    """

    chains: list[Chain] = field(default_factory=list)
    settings: list[tuple[str, str | None, Place]] = field(default_factory=list)
    imports: list[tuple[str, Place]] = field(default_factory=list)
    java: list[tuple[str, Place]] = field(default_factory=list)
    magics: list[tuple[str, Place]] = field(default_factory=list)
    delta_names: set[str] = field(default_factory=set)


def read_script(path: str) -> Script:
    """Read a Python script or a notebook.

    Raises `InvalidOption` if the file cannot be read or is not valid Python.
    """
    script = Script()
    trees: list[tuple[ast.Module, int | None]] = []
    try:
        if path.endswith(".ipynb"):
            for cell in read_notebook(path, refuse_magics=False):
                if (magic := find_magic(cell.code)) is not None:
                    script.magics.append((magic[1], Place(magic[0], cell.number)))
                    continue
                trees.append((ast.parse(cell.code), cell.number))
        else:
            with open(path, "rb") as file:
                trees.append((ast.parse(file.read(), path), None))
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidOption(f"{path} cannot be read: {error}") from None
    constants = _constants([tree for tree, _ in trees])
    for tree, number in trees:
        _Reader(script, constants, number).visit(tree)
    return script


def _constants(trees: Sequence[ast.Module]) -> dict[str, ast.expr]:
    """Return the texts of variables that are assigned once in the whole script."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
                else:
                    for each in ast.walk(target):
                        if isinstance(each, ast.Name):
                            found.setdefault(each.id, []).append(None)
        elif isinstance(node, ast.arg):
            found.setdefault(node.arg, []).append(None)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr | ast.comprehension):
            for each in ast.walk(node.target):
                if isinstance(each, ast.Name):
                    found.setdefault(each.id, []).append(None)
    return {name: value[0] for name, value in found.items() if len(value) == 1 and value[0] is not None}


_JAVA = ("_jvm", "_jdf", "_jsc", "_jsparkSession", "_jwrite", "_jreader")


class _Reader(ast.NodeVisitor):
    def __init__(self, script: Script, constants: dict[str, ast.expr], cell: int | None) -> None:
        self.script, self.constants, self.cell = script, constants, cell

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self.script.imports.append((each.name, self._place(node)))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module and not node.level:
            self.script.imports.append((node.module, self._place(node)))

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Call | ast.Attribute):
            chain = self._chain(node.value)
            made = chain.root == "DeltaTable" or "DeltaTable" in chain.names
            if made and not {"toDF", "history", "detail", "execute"} & set(chain.names):
                self.script.delta_names.update(each.id for each in node.targets if isinstance(each, ast.Name))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        chain = self._chain(node)
        self.script.chains.append(chain)
        self._settings(chain)
        self._java(node)
        # The arguments of all calls in the chain may have chains of their own.
        inner: ast.AST = node
        while isinstance(inner, ast.Call | ast.Attribute):
            if isinstance(inner, ast.Call):
                for each in [*inner.args, *(keyword.value for keyword in inner.keywords)]:
                    self.visit(each)
                inner = inner.func
            else:
                inner = inner.value
        self.visit(inner)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._java(node)
        self.generic_visit(node)

    def _java(self, node: ast.AST) -> None:
        names: list[str] = []
        inner = node
        while isinstance(inner, ast.Call | ast.Attribute):
            if isinstance(inner, ast.Attribute):
                names.append(inner.attr)
                inner = inner.value
            else:
                inner = inner.func
        names.reverse()
        at = next((n for n, name in enumerate(names) if name in _JAVA), None)
        place = self._place(node)
        if at is not None and all(place != each for _, each in self.script.java):
            self.script.java.append((".".join(names[at:]), place))

    def _settings(self, chain: Chain) -> None:
        for n, step in enumerate(chain.steps):
            if not isinstance(step, Call):
                continue
            before = chain.names[n - 1] if n else chain.root
            if step.name in ("config", "set") and (step.name == "config" or self._is_conf(before)):
                key, value = step.argument(0, "key"), step.argument(1, "value")
                pairs = [(key, value)] if isinstance(key, str) else []
                pairs += list((step.keywords.get("map") or {}).items())
            elif step.name == "setAll" and isinstance(step.argument(0), list):
                pairs = [tuple(each) for each in step.argument(0) if isinstance(each, tuple | list) and len(each) == 2]
            else:
                continue
            for key, value in pairs:
                if isinstance(key, str) and UNKNOWN not in key:
                    text = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                    self.script.settings.append((key, text, step.place))

    def _is_conf(self, before: str | None) -> bool:
        return before is not None and (
            "conf" in before.lower() or before in ("set", "setMaster", "setAppName", "SparkConf")
        )

    def _chain(self, node: ast.AST) -> Chain:
        steps: list[str | Call] = []
        while True:
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else None
                if name is None and isinstance(node.func, ast.Name):
                    name = node.func.id
                if name is None:
                    break
                arguments = tuple(self._value(each) for each in node.args if not isinstance(each, ast.Starred))
                keywords = {each.arg: self._value(each.value) for each in node.keywords if each.arg is not None}
                line = node.func.end_lineno if isinstance(node.func, ast.Attribute) else node.lineno
                steps.append(Call(name, arguments, keywords, Place(line or node.lineno, self.cell)))
                if isinstance(node.func, ast.Name):
                    return Chain(None, tuple(reversed(steps)))
                node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            elif isinstance(node, ast.Attribute):
                steps.append(node.attr)
                node = node.value
            else:
                break
        root = node.id if isinstance(node, ast.Name) else None
        return Chain(root, tuple(reversed(steps)))

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression, with `UNKNOWN` for unknown parts of a text; None if it is unknown."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.JoinedStr(values=values):
                parts = [self._value(each, depth) for each in values]
                return "".join(UNKNOWN if each is None else str(each) for each in parts)
            case ast.FormattedValue(value=value):
                return self._value(value, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                sides = [self._value(each, depth) for each in (left, right)]
                if any(isinstance(each, str) for each in sides):
                    return "".join(each if isinstance(each, str) else UNKNOWN for each in sides)
            case ast.Name(id=name) if name in self.constants and depth < 5:
                return self._value(self.constants[name], depth + 1)
            case ast.Dict(keys=keys, values=values):
                named = [
                    (None if key is None else self._value(key, depth), value)
                    for key, value in zip(keys, values, strict=True)
                ]
                return {key: self._value(value, depth) for key, value in named if isinstance(key, str)}
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [self._value(each, depth) for each in elements]
            case ast.Call(func=ast.Attribute(value=text, attr="format" | "strip" | "join")):
                known = self._value(text, depth)
                if isinstance(known, str) and node.func.attr == "format":  # type: ignore[attr-defined]
                    return re.sub(r"\{[^{}]*\}", UNKNOWN, known)
                return known if isinstance(known, str) and node.func.attr == "strip" else None  # type: ignore[attr-defined]
        return None

    def _place(self, node: Any) -> Place:
        return Place(node.lineno, self.cell)
