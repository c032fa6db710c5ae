"""The names by which conditions of a MERGE can refer to a data frame: its alias, and the columns of frames in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.common.references import backquote, parse_reference
from lakescan.spark.column_sql.column_text import Scope
from lakescan.spark.session import is_connect
from lakescan.statements.syntax.text import tokens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Connect's plans whose columns keep the qualifiers of their input
_KEEPING = (
    "Filter",
    "Limit",
    "Tail",
    "Offset",
    "Sort",
    "Deduplicate",
    "Repartition",
    "RepartitionByExpression",
    "Hint",
    "Sample",
    "Drop",
    "WithColumns",
    "CachedRelation",
)


@dataclass(frozen=True)
class SourceNames:
    """The qualifiers of a source's columns.

    - `alias`: the source's alias, if all qualified columns have the same one; else None.
    - `others`: the qualified names that conditions may use instead: qualifier and column in lower case, mapped to the
      column's name. They are set for a join of several named frames, and for a table with its namespace.
    """

    alias: str | None
    others: dict[tuple[str, ...], str]

    @staticmethod
    def of(source: DataFrame) -> SourceNames:
        """Find the qualifiers of a data frame."""
        qualified = list(_connect_names(source)) if is_connect(source.sparkSession) else list(_classic_names(source))
        last = {each[-1] for each, _ in qualified}
        others = {}
        for qualifier, name in qualified:
            for start in range(len(qualifier)):
                others[*(part.lower() for part in qualifier[start:]), name.lower()] = name
        return SourceNames(last.pop() if len(last) == 1 else None, others)

    def replace(self, text: str, alias: str) -> str:
        """Return an SQL expression with the source's `alias` instead of its own qualifiers, such as `db.t.id`."""
        if all(len(names) == 2 and names[0] == alias.lower() for names in self.others):
            return text
        words, edits = tokens(text), []
        at = 0
        while at < len(words):
            end = at + 1
            while end + 1 < len(words) and words[end].text == ".":
                end += 2
            names = [each.text.lower() for each in words[at:end:2]]
            if words[at].token_type.name == "STRING":
                names = []
            for size in range(len(names), 1, -1):
                if (column := self.others.get(tuple(names[:size]))) is not None:
                    edits.append((words[at].start, words[at + 2 * size - 2].end + 1, column))
                    break
            at = end
        for start, end, column in reversed(edits):
            text = f"{text[:start]}{backquote(alias)}.{backquote(column)}{text[end:]}"
        return text


def _classic_names(source: DataFrame) -> Iterator[tuple[tuple[str, ...], str]]:
    for each in _output(source):
        qualifier = each.qualifier()
        parts = tuple(qualifier.apply(n) for n in range(qualifier.length()))
        if parts:
            yield parts, each.name()


def _output(frame: DataFrame) -> list[Any]:
    """Return the output attributes of a classic frame's analyzed plan."""
    tree: Any = frame
    found = tree._jdf.queryExecution().analyzed().output()
    return [found.apply(n) for n in range(found.length())]


def _connect_names(source: DataFrame) -> Iterator[tuple[tuple[str, ...], str]]:
    tree: Any = source
    plan = tree._plan
    while type(plan).__name__ in _KEEPING and getattr(plan, "_child", None) is not None:
        plan = plan._child
    kind = type(plan).__name__
    if kind == "SubqueryAlias":
        qualifier: tuple[str, ...] = (plan._alias,)
    elif kind == "Read":
        qualifier = parse_reference(plan.table_name)
    else:
        return
    for name in source.columns:
        yield qualifier, name


def scope_of(source: DataFrame | None, source_alias: str, frames: Sequence[DataFrame], alias: str) -> Scope:
    """Return the columns that expressions may refer to as `frame["name"]`.

    Args:
        source: The source of a MERGE; None without one.
        source_alias: Its name in the statement.
        frames: Frames of the changed table.
        alias: The changed table's name in the statement.
    """
    scope = Scope()
    for frame, name in (*((each, alias) for each in frames), *(() if source is None else ((source, source_alias),))):
        if is_connect(frame.sparkSession):
            tree: Any = frame
            scope.plans.update((each, name) for each in _plan_ids(tree._plan))
        else:
            for each in _output(frame):
                scope.attributes[int(each.exprId().id())] = f"{backquote(name)}.{backquote(each.name())}"
    return scope


def _plan_ids(plan: Any) -> Iterator[int]:
    while plan is not None:
        yield plan._plan_id
        plan = getattr(plan, "_child", None)
