"""Determine the conditions on rows, the columns and the limit that a Spark Connect plan needs of its reads.

Names are resolved from the reads upwards, as in Spark: each relation has output columns, whose values are trees over
symbols (`expressions.py`). Then conditions, columns and limits are pushed down from the root to the reads, through each
operator that allows it. An unsupported operator or expression stops them: the reads below it have all columns and no
conditions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.common.references import parse_reference
from lakescan.expressions.scalar.parse import names_of
from lakescan.spark.connect.expressions import (
    ROW_WISE,
    TOTALS,
    Attribute,
    AttributeScope,
    Outputs,
    References,
    Trees,
    child_messages,
    column,
    is_expression,
    is_plain_star,
    is_random,
    is_row_wise,
    member,
    parse_item,
    plan_id_of,
    references,
    totals,
    unknown_value,
)

_LOG = logging.getLogger("lakescan")
# Commands that read their relations at once, as they are now. Other commands keep relations, or send them elsewhere.
_COMMANDS = (
    *("write_operation", "write_operation_v2", "create_dataframe_view", "checkpoint_command"),
    "write_stream_operation_start",
)
_MOST_RELATIONS = 2_000  # relations of a plan; reads of larger plans are not narrowed
# By join type: the sides that conditions above the join can be pushed to, and the sides for conditions of the join.
_SIDES = {
    "JOIN_TYPE_INNER": ("lr", "lr"),
    "JOIN_TYPE_CROSS": ("lr", "lr"),
    "JOIN_TYPE_LEFT_OUTER": ("l", "r"),
    "JOIN_TYPE_RIGHT_OUTER": ("r", "l"),
    "JOIN_TYPE_LEFT_SEMI": ("l", "lr"),
    "JOIN_TYPE_LEFT_ANTI": ("l", "r"),
    "JOIN_TYPE_FULL_OUTER": ("", ""),
}
_ONE_SIDE = ("JOIN_TYPE_LEFT_SEMI", "JOIN_TYPE_LEFT_ANTI")
# Relations with as many rows as their input, if their expressions are row-wise.
_SAME_ROWS = ("project", "with_columns", "with_columns_renamed", "to_df", "drop", "subquery_alias")
# Relations whose expressions Spark may resolve with columns below an aggregate.
_SEES_BELOW = ("filter", "sort", "repartition_by_expression")
# Relations that need all columns of their inputs, and no columns of other relations.
_CLOSED = ("map_partitions", "tail", "sample")


@dataclass(frozen=True)
class ReadColumn:
    """An output column of a read of lakescan's formats.

    - `path`: the names of the column in the table, or of the struct member; None if conditions may not test it.
    - `kind`: the name of the type. Columns of the same kind are compared in the same way.
    """

    name: str
    path: tuple[str, ...] | None
    kind: str = ""


@dataclass(frozen=True)
class Totals:
    """An aggregate of all rows of a read that match conditions.

    - `relation`: the message of the aggregate.
    - `expressions`: the aggregate's expressions, over columns with the names of `wanted`.
    - `wanted`: the totals by name, each as its kind and the path of its column in the table.
    - `conditions`: all conditions between the aggregate and the read, as trees over the paths of the read's columns.
    """

    relation: Any
    expressions: tuple[Any, ...]
    wanted: dict[str, tuple[str, tuple[str, ...] | None]]
    conditions: tuple[Any, ...]


@dataclass(frozen=True)
class NarrowedRead:
    """A read in a plan, with the data that the plan needs of it.

    - `relation`: the message of the read.
    - `conditions`: trees over the paths of the read's columns. All of them are true of the rows that are needed.
    - `columns`: the names of the output columns that are needed; None for all.
    - `limit`: the number of rows that are needed; None for all.
    - `totals`: the aggregate above the read, if nothing else needs its rows.
    """

    relation: Any
    conditions: tuple[Any, ...] = ()
    columns: frozenset[str] | None = None
    limit: int | None = None
    totals: Totals | None = None


@dataclass(frozen=True)
class ReadRequirements:
    """The requirements of a plan on one of its relations, collected from the relations above it.

    - `conditions`: trees over symbols that are true of all rows that are needed.
    - `needed`: the output columns that are needed; None for all.
    - `limit`: the number of rows that are needed; None for all.
    - `all_columns`: whether all reads below need all columns, as a name above could not be resolved.
    """

    conditions: tuple[Any, ...] = ()
    needed: frozenset[Attribute] | None = None
    limit: int | None = None
    all_columns: bool = False


@dataclass(eq=False)
class _Node:
    relation: Any
    kind: str
    op: Any
    inputs: list[_Node]
    outputs: Outputs = None
    columns: tuple[ReadColumn, ...] | None = None  # of a read of lakescan's formats
    symbols: frozenset[str] = frozenset()  # the symbols that the outputs may contain
    below: dict[int, Outputs] = field(default_factory=dict)
    is_row_wise: bool = True


def relations_of(plan: Any) -> list[Any]:
    """Return the top relations of a query, or of a command that uses their rows, such as a write or a temporary view.

    Empty for other commands, and for global views, which other sessions read.
    """
    which = plan.WhichOneof("op_type")
    if which == "root":
        return [plan.root]
    if which != "command":
        return []
    kind = plan.command.WhichOneof("command_type")
    if kind not in _COMMANDS:
        return []
    if kind == "create_dataframe_view" and plan.command.create_dataframe_view.is_global:
        return []  # other sessions may read the view
    return list(_relations_in(getattr(plan.command, kind)))


def is_relation(message: Any) -> bool:
    """Return whether a protobuf message is a relation."""
    return str(message.DESCRIPTOR.full_name) == "spark.connect.Relation"


def _relations_in(message: Any) -> Iterator[Any]:
    """Yield the nearest relations below a message. Relations within expressions (subqueries) are left out."""
    for each in child_messages(message):
        if is_relation(each):
            yield each
        elif not is_expression(each):
            yield from _relations_in(each)


def all_relations(roots: Sequence[Any]) -> list[Any]:
    """Return relations and all relations below them, in no particular order; no depth of nesting is too large."""
    found, stack = [], list(roots)
    while stack:
        relation = stack.pop()
        found.append(relation)
        kind = relation.WhichOneof("rel_type")
        if kind is not None:
            stack.extend(_relations_in(getattr(relation, kind)))
    return found


def narrow_reads(
    roots: Sequence[Any],
    columns_of: Callable[[Any], tuple[ReadColumn, ...] | None],
    is_opaque: Callable[[Any], bool],
    *,
    case_sensitive: bool,
    own_functions: frozenset[str] = frozenset(),
) -> list[NarrowedRead]:
    """Return the reads of a plan, each with the data that the plan needs of it.

    If the plan is too large, not understood, or calls functions whose meaning is unknown, each read is returned with
    all columns and rows.

    Args:
        roots: The relations of the plan.
        columns_of: Returns the output columns of a relation that is a read of lakescan's formats; None for others.
        is_opaque: Returns whether to ignore a relation and all below it, such as a persisted one.
        case_sensitive: The session's setting `spark.sql.caseSensitive`.
        own_functions: The names of functions that the session registered, in lower case.
    """
    return _Narrowing(columns_of, is_opaque, case_sensitive, own_functions).narrow(roots)


class _Narrowing:
    def __init__(
        self,
        columns_of: Callable[[Any], tuple[ReadColumn, ...] | None],
        is_opaque: Callable[[Any], bool],
        case_sensitive: bool,
        own_functions: frozenset[str],
    ) -> None:
        self._columns_of, self._is_opaque = columns_of, is_opaque
        self._case_sensitive, self._own = case_sensitive, own_functions
        self._count = 0
        self._kinds: dict[str, str] = {}  # by symbol
        self._found: list[NarrowedRead] = []
        self._above: list[str] = []  # the kinds of the relations above the current one

    def narrow(self, roots: Sequence[Any]) -> list[NarrowedRead]:
        if len(all_relations(roots)) > _MOST_RELATIONS or self._own & ROW_WISE:  # functions may be the user's
            return self.whole_reads(roots)
        try:
            for each in roots:
                self._push_down(self._resolve(each), ReadRequirements())
        except Exception as error:  # nested too deep, or a message of an unknown version
            _LOG.debug("reads of a Spark Connect plan are not narrowed (%s)", type(error).__name__)
            return self.whole_reads(roots)
        return self._found

    def whole_reads(self, roots: Sequence[Any]) -> list[NarrowedRead]:
        """Return the reads of relations, each with all columns and rows."""
        stack, found = list(roots), []
        while stack:
            relation = stack.pop()
            if self._is_opaque(relation):
                continue
            if self._columns_of(relation) is not None:
                found.append(NarrowedRead(relation))
                continue
            kind = relation.WhichOneof("rel_type")
            stack.extend(_relations_in(getattr(relation, kind)) if kind is not None else ())
        return found

    def _symbol(self, kind: str) -> str:
        self._count += 1
        name = f"__symbol_{self._count}"
        self._kinds[name] = kind
        return name

    # From the reads up: the output columns of each relation

    def _resolve(self, relation: Any) -> _Node:
        kind = relation.WhichOneof("rel_type") or ""
        op = getattr(relation, kind) if kind else None
        if op is None or self._is_opaque(relation):
            return _Node(relation, "opaque", op, [])
        columns = self._columns_of(relation)
        if columns is not None:
            return self._read(relation, op, columns)
        node = _Node(relation, kind, op, [self._resolve(each) for each in _relations_in(op)])
        node.symbols = frozenset().union(*(each.symbols for each in node.inputs))
        for each in node.inputs:
            for plan_id, outputs in each.below.items():
                node.below[plan_id] = None if plan_id in node.below else outputs
        outputs_of = getattr(self, f"_outputs_of_{kind}", None)
        node.outputs = None if outputs_of is None else outputs_of(node, op)
        self._name(node)
        return node

    def _name(self, node: _Node) -> None:
        """Record a node's outputs under its plan id, by which columns refer to it; None if the id is used twice."""
        if node.relation.HasField("common") and node.relation.common.HasField("plan_id"):
            plan_id = node.relation.common.plan_id
            node.below[plan_id] = None if plan_id in node.below else node.outputs

    def _read(self, relation: Any, op: Any, columns: tuple[ReadColumn, ...]) -> _Node:
        outputs, symbols = [], []
        for each in columns:
            symbols.append(name := self._symbol(each.kind))
            outputs.append(Attribute(each.name, None if each.path is None else column([name]), name))
        node = _Node(relation, "read", op, [], tuple(outputs), columns, frozenset(symbols))
        self._name(node)
        return node

    def _scope(self, node: _Node) -> AttributeScope:
        """Return the columns that the expressions of a node may refer to."""
        inputs = [each.outputs for each in node.inputs]
        outputs = None if any(each is None for each in inputs) else tuple(a for each in inputs for a in each or ())
        below: dict[int, Outputs] = {}
        for each in node.inputs:
            for plan_id, found in each.below.items():
                below[plan_id] = None if plan_id in below else found
        return AttributeScope(outputs, below, self._case_sensitive)

    def _pass(self, node: _Node, op: Any) -> Outputs:
        return node.inputs[0].outputs

    _outputs_of_filter = _outputs_of_sort = _outputs_of_limit = _outputs_of_offset = _outputs_of_tail = _pass
    _outputs_of_sample = _outputs_of_hint = _outputs_of_repartition = _outputs_of_repartition_by_expression = _pass
    _outputs_of_deduplicate = _pass

    def _outputs_of_with_relations(self, node: _Node, op: Any) -> Outputs:
        return node.inputs[0].outputs if op.HasField("root") else None

    def _outputs_of_subquery_alias(self, node: _Node, op: Any) -> Outputs:
        known = node.inputs[0].outputs
        if known is None:
            return None
        alias = frozenset((op.alias,))
        return tuple(Attribute(each.name, each.tree, each.origin, alias, (each,)) for each in known)

    def _item(self, expression: Any, scope: AttributeScope) -> list[Attribute] | None:
        """Return the output columns of an expression in a list of columns; None if they are unknown.

        A `*` has several columns, other expressions have one.
        """
        kind = expression.WhichOneof("expr_type")
        if kind == "unresolved_star":
            star = expression.unresolved_star
            return None if scope.outputs is None or not is_plain_star(star) else list(scope.outputs)
        if kind == "expression_string" and expression.expression_string.expression.strip() == "*":
            return None if scope.outputs is None else list(scope.outputs)
        if kind == "unresolved_attribute":
            attribute = expression.unresolved_attribute
            return [self._pass_column(parse_reference(attribute.unparsed_identifier), plan_id_of(attribute), scope)]
        row_wise, alias = is_row_wise(expression), None
        if kind == "alias":
            if len(expression.alias.name) != 1:
                return None
            alias = expression.alias.name[0]
        elif kind == "expression_string":
            item = parse_item(expression.expression_string.expression)
            if item is None or item[1] is None:
                return None
            alias = item[0]
        elif kind == "cast":
            inner = self._item(expression.cast.expr, scope)
            alias = inner[0].name if inner is not None and len(inner) == 1 else None
        if alias is None and not row_wise:
            return None
        tree = Trees(scope, self._own).tree(expression) if row_wise and scope.outputs is not None else None
        return [Attribute(alias, tree, object())]

    def _pass_column(self, names: tuple[str, ...], plan_id: int | None, scope: AttributeScope) -> Attribute:
        """Return an output column for a reference to a column or struct member, with its value if that is found."""
        found = scope.find(names, plan_id)
        if found is None:
            return Attribute(names[-1], None, object())
        attribute, members = found
        if not members:
            return Attribute(names[-1], attribute.tree, attribute.origin, attribute.qualifiers)
        return Attribute(names[-1], member(attribute.tree, members), object())

    def _items(self, node: _Node, expressions: Sequence[Any]) -> Outputs:
        scope, found = self._scope(node), []
        for each in expressions:
            some = self._item(each, scope)
            if some is None:
                return None
            found += some
        return tuple(found)

    def _outputs_of_project(self, node: _Node, op: Any) -> Outputs:
        stars = ("unresolved_star",)
        node.is_row_wise = all(
            e.WhichOneof("expr_type") in stars or _is_star(e) or is_row_wise(e) for e in op.expressions
        )
        return self._items(node, op.expressions) if op.HasField("input") else None

    def _outputs_of_with_columns(self, node: _Node, op: Any) -> Outputs:
        scope, known = self._scope(node), node.inputs[0].outputs
        node.is_row_wise = all(is_row_wise(each.expr) for each in op.aliases)
        if known is None or any(len(each.name) != 1 for each in op.aliases):
            return None
        outputs = list(known)
        for each in op.aliases:
            name = each.name[0]
            tree = Trees(scope, self._own).tree(each.expr) if is_row_wise(each.expr) else None
            new = Attribute(name, tree, object())
            same = [n for n, old in enumerate(outputs) if scope.is_same_name(old.name, name)]
            for n in same:
                outputs[n] = new
            if not same:
                outputs.append(new)
        return tuple(outputs) if len(set(outputs)) == len(outputs) else None

    def _outputs_of_with_columns_renamed(self, node: _Node, op: Any) -> Outputs:
        known, scope = node.inputs[0].outputs, self._scope(node)
        pairs = [(each.col_name, each.new_col_name) for each in op.renames] if op.renames else []
        if known is None or not pairs or op.rename_columns_map:
            return None
        if any(scope.is_same_name(new, old) for _, new in pairs for old, _ in pairs):
            return None
        outputs = []
        for each in known:
            new = [new for old, new in pairs if scope.is_same_name(each.name, old)]
            outputs.append(Attribute(new[0], each.tree, object(), below=(each,)) if len(new) == 1 else each)
        return tuple(outputs)

    def _outputs_of_drop(self, node: _Node, op: Any) -> Outputs:
        known, scope = node.inputs[0].outputs, self._scope(node)
        if known is None:
            return None
        gone = {each for each in known for name in op.column_names if scope.is_same_name(each.name, name)}
        for each in op.columns:
            if each.WhichOneof("expr_type") != "unresolved_attribute":
                return None
            names, plan_id = (
                parse_reference(each.unresolved_attribute.unparsed_identifier),
                plan_id_of(each.unresolved_attribute),
            )
            found = scope.find(names, plan_id)
            if found is None or found[1]:
                return None
            gone.add(found[0])
        return tuple(each for each in known if each not in gone)

    def _outputs_of_to_df(self, node: _Node, op: Any) -> Outputs:
        known = node.inputs[0].outputs
        if known is None or len(known) != len(op.column_names):
            return None
        named = zip(op.column_names, known, strict=True)
        return tuple(Attribute(name, each.tree, object(), below=(each,)) for name, each in named)

    def _outputs_of_aggregate(self, node: _Node, op: Any) -> Outputs:
        if _kind_of(op, "group_type") != "GROUP_TYPE_GROUPBY":
            return None
        keys = self._items(node, op.grouping_expressions)
        node.is_row_wise = all(map(is_row_wise, op.grouping_expressions))
        if keys is None or not node.is_row_wise:
            return None
        values = []
        for each in op.aggregate_expressions:
            is_named = each.WhichOneof("expr_type") == "alias" and len(each.alias.name) == 1
            if not is_named and each.WhichOneof("expr_type") not in ("unresolved_function", "cast"):
                return None
            values.append(Attribute(each.alias.name[0] if is_named else None, None, object()))
        return (*keys, *values)

    def _outputs_of_join(self, node: _Node, op: Any) -> Outputs:
        left, right = (each.outputs for each in node.inputs)
        kind = _kind_of(op, "join_type")
        if kind in _ONE_SIDE and not op.using_columns:
            return left
        if left is None or right is None or kind not in _SIDES:
            return None
        if not op.using_columns:
            return (*left, *right)
        scope = self._scope(node)
        keys, gone = [], set()
        for name in op.using_columns:
            found = [[each for each in side if scope.is_same_name(each.name, name)] for side in (left, right)]
            if any(len(each) != 1 for each in found):
                return None
            (one,), (other,) = found
            gone |= {one, other}
            if kind == "JOIN_TYPE_FULL_OUTER":
                keys.append(Attribute(one.name, None, object(), below=(one, other)))
            else:
                keys.append(other if kind == "JOIN_TYPE_RIGHT_OUTER" else one)
        rest = left if kind in _ONE_SIDE else (*left, *right)
        return (*keys, *(each for each in rest if each not in gone))

    def _outputs_of_set_op(self, node: _Node, op: Any) -> Outputs:
        if op.by_name or len(node.inputs) != 2:
            return None
        left, right = (each.outputs for each in node.inputs)
        if left is None or right is None or len(left) != len(right):
            return None
        outputs = []
        for one, other in zip(left, right, strict=True):
            kinds = {self._kind(each.tree) for each in (one, other)}
            is_alike = len(kinds) == 1 and "" not in kinds
            name = self._symbol(kinds.pop() if is_alike else "")
            outputs.append(Attribute(one.name, column([name]) if is_alike else None, name, below=(one, other)))
        node.symbols = frozenset(each.origin for each in outputs)
        return tuple(outputs)

    def _kind(self, tree: Any | None) -> str:
        """Return the type's name of a tree that is one symbol; empty for other trees and None."""
        names = () if tree is None else _names(tree)
        return self._kinds.get(names[0], "") if len(names) == 1 and _is_symbol(tree) else ""

    # From the root down: conditions, columns and limits

    def _push_down(self, node: _Node, above: ReadRequirements) -> None:
        if node.kind == "opaque":
            return
        if node.columns is not None:
            self._found.append(self._narrow_read(node, above))
            return
        self._above.append(node.kind)
        move = getattr(self, f"_down_{node.kind}", None)
        if move is not None:
            move(node, node.op, above)
        else:
            for each in node.inputs:
                self._push_down(each, ReadRequirements(all_columns=above.all_columns or node.kind not in _CLOSED))
        self._above.pop()

    def _narrow_read(self, node: _Node, above: ReadRequirements) -> NarrowedRead:
        assert node.columns is not None
        assert node.outputs is not None
        paths = _paths(node)
        conditions = tuple(
            _substitute_paths(each, paths) for each in above.conditions if set(_names(each)) <= set(paths)
        )
        needed = above.needed
        is_whole = above.all_columns or needed is None or not needed <= set(node.outputs)
        columns = (
            None if is_whole or needed is None else frozenset(each.name for each in needed if each.name is not None)
        )
        return NarrowedRead(node.relation, conditions, columns, above.limit)

    def _add_totals(self, node: _Node, expressions: Sequence[Any]) -> None:
        """Add an aggregate of all rows (`node`) to the read that was pushed down last, if metadata may answer it.

        All relations between them must be filters or keep the rows as they are, and `expressions` must only need
        totals.
        """
        if self._own & TOTALS or any(each in _SEES_BELOW for each in self._above):
            return
        found = totals(expressions, self._scope(node))
        if found is None:
            return
        conditions: list[Any] = []
        (below,) = node.inputs
        while below.columns is None:
            if below.kind == "filter":
                conditions += Trees(self._scope(below), self._own).conjuncts(below.op.condition)
            elif below.kind not in _SAME_ROWS or below.outputs is None or not below.is_row_wise or not below.inputs:
                return
            (below,) = below.inputs
        paths = _paths(below)
        used = {each.column for each in found[1].values() if each.column is not None}
        if not used.union(*map(_names, conditions)) <= set(paths):
            return
        wanted = {
            name: (each.kind, None if each.column is None else paths[each.column]) for name, each in found[1].items()
        }
        over = tuple(_substitute_paths(each, paths) for each in conditions)
        self._found[-1] = replace(self._found[-1], totals=Totals(node.relation, found[0], wanted, over))

    def _needed_columns(
        self, node: _Node, above: ReadRequirements, found: References, *, rest: bool
    ) -> tuple[frozenset[Attribute] | None, bool]:
        """Return the input columns that a node needs: those in `found`, and with `rest` those that `above` needs.

        They are None for all columns. Also return whether all columns of all reads below are needed, because a name
        could not be resolved.
        """
        all_columns = above.all_columns or not found.are_known
        needed: set[Attribute] | None = set(found.attributes)
        if rest:
            needed = None if above.needed is None else found.attributes | _input_columns(above.needed, node)
        return (None if needed is None else frozenset(needed)), all_columns

    def _down_filter(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        scope = self._scope(node)
        needed, everything = self._needed_columns(node, above, references([op.condition], scope), rest=True)
        # As in Spark, a condition that is not deterministic has to see the rows that conditions above it remove.
        own = () if is_random(op.condition) else tuple(Trees(scope, self._own).conjuncts(op.condition))
        outer = above.conditions if is_row_wise(op.condition) else ()
        self._push_down(node.inputs[0], ReadRequirements((*outer, *own), needed, None, everything))

    def _down_project(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        if not node.inputs:
            return
        stars = [each for each in op.expressions if _is_star(each)]
        others = [each for each in op.expressions if not _is_star(each)]
        found = references(others, self._scope(node))
        needed, everything = self._needed_columns(node, above, found, rest=False)
        needed = None if stars else needed
        passes = node.is_row_wise
        self._push_down(
            node.inputs[0],
            ReadRequirements(above.conditions if passes else (), needed, above.limit if passes else None, everything),
        )
        if not passes:
            self._add_totals(node, op.expressions)

    def _down_with_columns(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        found = references([each.expr for each in op.aliases], self._scope(node))
        needed, everything = self._needed_columns(node, above, found, rest=True)
        if node.outputs is None:
            needed = None
        passes = node.is_row_wise
        self._push_down(
            node.inputs[0],
            ReadRequirements(above.conditions if passes else (), needed, above.limit if passes else None, everything),
        )

    def _down_pass(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        """Push requirements down through a relation with its input's rows, and the same or renamed columns."""
        needed = None if above.needed is None or node.outputs is None else frozenset(_input_columns(above.needed, node))
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, needed, above.limit, above.all_columns))

    _down_subquery_alias = _down_pass

    def _down_with_columns_renamed(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, None, above.limit, above.all_columns))

    _down_to_df = _down_drop = _down_with_columns_renamed

    def _down_repartition(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        needed = None if above.needed is None else frozenset(_input_columns(above.needed, node))
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, needed, None, above.all_columns))

    def _down_hint(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        found = references(op.parameters, self._scope(node))
        needed, everything = self._needed_columns(node, above, found, rest=True)
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, needed, None, everything))

    def _down_repartition_by_expression(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        found = references(op.partition_exprs, self._scope(node))
        needed, everything = self._needed_columns(node, above, found, rest=True)
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, needed, None, everything))

    def _down_with_relations(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        for n, each in enumerate(node.inputs):
            is_root = n == 0 and op.HasField("root")
            self._push_down(each, above if is_root else ReadRequirements(all_columns=above.all_columns))

    def _down_sort(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        keys = [each.child for each in op.order]
        found = references(keys, self._scope(node))
        found.are_known &= all(
            each.WhichOneof("expr_type") != "literal" for each in keys
        )  # a literal is a column number
        needed, everything = self._needed_columns(node, above, found, rest=True)
        self._push_down(node.inputs[0], ReadRequirements(above.conditions, needed, None, everything))

    def _down_limit(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        needed = None if above.needed is None else frozenset(_input_columns(above.needed, node))
        limit = op.limit if above.limit is None else min(op.limit, above.limit)
        self._push_down(node.inputs[0], ReadRequirements((), needed, limit, above.all_columns))

    def _down_offset(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        needed = None if above.needed is None else frozenset(_input_columns(above.needed, node))
        limit = None if above.limit is None else above.limit + op.offset
        self._push_down(node.inputs[0], ReadRequirements((), needed, limit, above.all_columns))

    def _down_show_string(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        self._push_down(node.inputs[0], ReadRequirements(limit=op.num_rows + 1, all_columns=above.all_columns))

    _down_html_string = _down_show_string

    def _down_deduplicate(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        if op.all_columns_as_keys and not op.within_watermark:
            self._push_down(node.inputs[0], ReadRequirements(above.conditions, None, None, above.all_columns))
        else:
            self._push_down(node.inputs[0], ReadRequirements(all_columns=above.all_columns))

    def _down_aggregate(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        found = references(
            [op.pivot, *op.grouping_expressions, *op.aggregate_expressions, *op.grouping_sets], self._scope(node)
        )
        is_ordinal = any(each.WhichOneof("expr_type") == "literal" for each in op.grouping_expressions)
        found.are_known &= not is_ordinal
        needed, everything = self._needed_columns(node, above, found, rest=False)
        # The outputs with trees are the grouping keys, so a condition on them keeps or drops whole groups.
        passes = node.outputs is not None and node.is_row_wise and len(op.grouping_expressions) > 0
        self._push_down(node.inputs[0], ReadRequirements(above.conditions if passes else (), needed, None, everything))
        if _kind_of(op, "group_type") == "GROUP_TYPE_GROUPBY" and not op.grouping_expressions:
            self._add_totals(node, op.aggregate_expressions)

    def _down_set_op(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        for n, each in enumerate(node.inputs):
            conditions: list[Any] = []
            if node.outputs is not None:
                trees = {a.origin: a.below[n].tree for a in node.outputs}
                for condition in above.conditions:
                    if all(trees.get(name) is not None for name in _names(condition)):
                        conditions.append(_substitute_symbols(condition, trees))
            self._push_down(each, ReadRequirements(tuple(conditions), None, None, above.all_columns))

    def _down_join(self, node: _Node, op: Any, above: ReadRequirements) -> None:
        scope, kind = self._scope(node), _kind_of(op, "join_type")
        found, own = References(), ()
        if op.HasField("join_condition"):
            found = references([op.join_condition], scope)
            own = tuple(Trees(scope, self._own).conjuncts(op.join_condition))
        left, right = node.inputs
        for name in op.using_columns:
            for side in (left, right):
                same = [each for each in side.outputs or () if scope.is_same_name(each.name, name)]
                found.attributes.update(same)
                found.are_known &= len(same) == 1
        needed, everything = self._needed_columns(node, above, found, rest=True)
        if node.outputs is None:
            needed = None
        for side, letter in ((left, "l"), (right, "r")):
            conditions = [
                each
                for some, allowed in zip((above.conditions, own), _SIDES.get(kind, ("", "")), strict=True)
                for each in some
                if letter in allowed and (used := set(_names(each))) and used <= side.symbols
            ]
            of_side = needed
            if needed is not None and side.outputs is not None:
                of_side = needed & frozenset(side.outputs)
            elif kind in _ONE_SIDE and letter == "r" and side.outputs is not None:
                of_side = frozenset(found.attributes) & frozenset(side.outputs)
            self._push_down(side, ReadRequirements(tuple(conditions), of_side, None, everything))


def _paths(read: _Node) -> dict[str, tuple[str, ...]]:
    """Return the table columns that conditions may test, as a tuple of names by the symbol of each output of a read."""
    pairs = zip(read.outputs or (), read.columns or (), strict=True)
    return {attribute.origin: each.path for attribute, each in pairs if each.path is not None}


def _is_star(expression: Any) -> bool:
    kind = expression.WhichOneof("expr_type")
    if kind == "expression_string":
        return bool(expression.expression_string.expression.strip() == "*")
    return bool(kind == "unresolved_star") and not expression.unresolved_star.unparsed_target


def _kind_of(op: Any, name: str) -> str:
    """Return the name of the value of the enumeration field `name` of a protobuf message."""
    return str(op.DESCRIPTOR.fields_by_name[name].enum_type.values_by_number[getattr(op, name)].name)


def _input_columns(attributes: frozenset[Attribute], node: _Node) -> set[Attribute]:
    """Return the columns of a node's inputs that given outputs of the node are, or are derived from."""
    known = {each for child in node.inputs for each in child.outputs or ()}
    found: set[Attribute] = set()
    for each in attributes:
        found.update((each,) if each in known else each.below)
    return found


def _names(tree: Any) -> list[str]:
    """Return the symbols in a tree, as often as they occur."""
    from sqlglot import exp

    return [each.parts[0].name for each in tree.find_all(exp.Column)]


def _is_symbol(tree: Any) -> bool:
    """Return whether a tree is one symbol, without struct members."""
    from sqlglot import exp

    inner = tree.unnest()
    return isinstance(inner, exp.Column) and len(inner.parts) == 1


def _substitute_symbols(tree: Any, values: dict[str, Any]) -> Any:
    """Replace the symbols in a tree by the trees in `values`.

    Members of a value that has none become `unknown_value`.
    """
    return _substitute_names(
        tree, lambda names: values[names[0]] if len(names) == 1 else member(values[names[0]], names[1:])
    )


def _substitute_paths(tree: Any, paths: dict[str, tuple[str, ...]]) -> Any:
    """Replace the symbols in a tree by columns of the table, given as names by symbol."""
    return _substitute_names(tree, lambda names: column((*paths[names[0]], *names[1:])))


def _substitute_names(tree: Any, value: Callable[[tuple[str, ...]], Any]) -> Any:
    from sqlglot import exp

    def substitute(node: Any) -> Any:
        if not isinstance(node, exp.Column | exp.Dot) or (names := names_of(node)) is None:
            return node
        found = value(names)
        return unknown_value() if found is None else exp.paren(found.copy())

    return tree.copy().transform(substitute)
