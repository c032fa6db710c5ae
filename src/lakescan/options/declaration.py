"""Declare options, and parse and check any set of them.

An option set is a frozen dataclass with one typed attribute per option. Option names are compared ignoring case,
hyphens and underscores, so `snapshot-id`, `snapshot_id` and `snapshotId` are the same option (Spark passes option names
in lower case). No option is ignored: an unknown name raises `InvalidOption` with the most similar one, and an option of
Iceberg or Delta that is not implemented raises `UnsupportedFeature`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, ClassVar, Self, TypeVar, overload

from lakescan.common.option_values import ValueParser
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

T = TypeVar("T")
BOTH, ICEBERG, DELTA = ("iceberg", "delta"), ("iceberg",), ("delta",)
_DECLARATION = "option"
# Delta has one set of options for reads and writes (`DeltaOptions`). A read ignores the write options, and vice versa.
_DELTAS_OPTIONS = (
    "checkpointLocation",
    "compression",
    "dataChange",
    "endingTimestamp",
    "endingVersion",
    "excludeRegex",
    "failOnDataLoss",
    "ignoreChanges",
    "ignoreDeletes",
    "ignoreFileDeletion",
    "maxBytesPerTrigger",
    "maxFilesPerTrigger",
    "maxRecordsPerFile",
    "mergeSchema",
    "optimizeWrite",
    "overwriteSchema",
    "partitionOverwriteMode",
    "queryName",
    "readChangeData",
    "readChangeFeed",
    "replaceWhere",
    "skipChangeCommits",
    "startingTimestamp",
    "startingVersion",
    "timestampAsOf",
    "txnAppId",
    "txnVersion",
    "userMetadata",
    "versionAsOf",
)


class Group(Enum):
    """The purpose of an option; each group is a section of the documentation."""

    STATE = "Which state to read"
    RANGE = "A range of snapshots"
    FEED = "Changes of Delta tables"
    ROWS = "Which rows and columns"
    PLANNING = "How reads are planned"
    READING = "How files are read"
    STREAM = "Streams"
    MODE = "What a write does"
    FILES = "Data files"
    COMMIT = "The commit"
    CREATE = "New tables"
    REWRITE = "Compactions"
    OPENING = "Where the table is"


@dataclass(frozen=True)
class Option:
    """The declaration of one option, which may be a prefix of many names.

    Args:
        name: The name that Iceberg, Delta or Spark uses; it ends with `.NAME` for a prefix.
        value: The parser of its values.
        doc: Its meaning, for the documentation.
        group: Its purpose.
        formats: The table formats that have the option.
        default: The default, as printed in the documentation.
        aliases: Further names, each with the table formats that have it.
    """

    name: str
    value: ValueParser[Any]
    doc: str
    group: Group
    formats: tuple[str, ...] = BOTH
    default: str = ""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_prefix(self) -> bool:
        """Whether the name stands for many names, such as `table-property.NAME`."""
        return self.name.endswith(".NAME")

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """All names of the option, each with the table formats that have it."""
        return {self.name: self.formats, **self.aliases}


@overload
def option(
    name: str,
    value: ValueParser[T],
    doc: str,
    group: Group,
    formats: tuple[str, ...] = BOTH,
    *,
    default: T,
    unset: str = "",
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> T: ...
@overload
def option(
    name: str,
    value: ValueParser[T],
    doc: str,
    group: Group,
    formats: tuple[str, ...] = BOTH,
    *,
    unset: str = "",
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> T | None: ...
def option(
    name: str,
    value: ValueParser[Any],
    doc: str,
    group: Group,
    formats: tuple[str, ...] = BOTH,
    *,
    default: Any = None,
    unset: str = "",
    aliases: Mapping[str, tuple[str, ...]] | None = None,
) -> Any:
    """Declare an option as an attribute of an `OptionSet`.

    Args:
        name: The name that Iceberg, Delta or Spark uses. The attribute has this name in snake case.
        value: The parser of its values.
        doc: Its meaning, for the documentation.
        group: Its purpose.
        formats: The table formats that have the option.
        default: The attribute's value if the option is not given.
        unset: A description of the default, if it is not one value but a table property or a choice.
        aliases: Further names, each with the table formats that have it.
    """
    printed = unset or ("" if default is None else str(default).lower() if isinstance(default, bool) else str(default))
    return field(
        default=default,
        metadata={_DECLARATION: Option(name, value, doc, group, formats, printed, aliases or {})},
    )


def prefix_option(name: str, doc: str, group: Group, formats: tuple[str, ...] = BOTH) -> Mapping[str, str]:
    """Declare options that share a prefix, such as `table-property.NAME`, as an attribute of an `OptionSet`.

    The attribute maps each NAME to its value as text.
    """
    declared = Option(name, ValueParser(_as_property, "text", "str"), doc, group, formats)
    return field(default_factory=dict, metadata={_DECLARATION: declared})


def _as_property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def normalise_name(name: str) -> str:
    """Return an option's name in lower case without hyphens and underscores, for comparison."""
    return name.lower().replace("-", "").replace("_", "")


def as_keyword(name: str) -> str:
    """Return an option's name as a Python keyword: `partial-progress.enabled` becomes `partial_progress_enabled`."""
    return name.replace("-", "_").replace(".", "_")


@dataclass(frozen=True, repr=False, kw_only=True)
class OptionSet:
    """The parsed options of one read or write, one attribute per option. Immutable.

    - `given`: maps the attribute of each option that the caller passed to the name that the caller used, in the order
      of declaration.
    - `without_effect`: options that have no effect here, as they are for writes in a read or for reads in a write; only
      Delta accepts these.
    """

    KIND: ClassVar[str] = "option"
    PREFIXES: ClassVar[tuple[str, ...]] = ()  # prefixes that other engines put before option names
    UNSUPPORTED: ClassVar[Mapping[str, Iterable[str]]] = {}  # names of options that are not implemented, by owner
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}  # options that do not apply here, with advice
    WITHOUT: ClassVar[str] = "read"  # the verb for messages: "remove the option to read without it"

    given: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()  # only for Delta tables

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Parse options by name; names are compared ignoring case, hyphens, underscores and known prefixes.

        Raises `InvalidOption` for unknown names, invalid values and contradictions, and `UnsupportedFeature` for
        options that are not implemented.
        """
        known = _option_index(cls)
        parsed: dict[str, Any] = {}
        given: dict[str, str] = {}
        ignored: list[str] = []
        for written, value in values.items():
            name = cls._strip_prefix(written)
            head, dot, rest = name.partition(".")
            if (found := known.get(normalise_name(head) + dot) or known.get(normalise_name(name))) is None:
                ignored.append(cls._check_ignored(name, value))
                continue
            attribute, spelled, declared = found
            result = _parse(declared, name if declared.is_prefix else spelled, value)
            if declared.is_prefix:
                if parsed.setdefault(attribute, {}).setdefault(rest, result) != result:
                    raise _twice(name)
            elif attribute in parsed and parsed[attribute] != result:
                raise _twice(given[attribute], spelled)
            else:
                parsed[attribute] = result
            given[attribute] = spelled
        return cls(given=_declaration_order(cls, given), without_effect=tuple(ignored), **parsed)

    @classmethod
    def has_option(cls, name: str, format_name: str) -> bool:
        """Return whether tables of a format have an option of this name, in any case and style."""
        plain = cls._strip_prefix(name)
        head, dot, _ = plain.partition(".")
        known = _option_index(cls)
        found = known.get(normalise_name(head) + dot) or known.get(normalise_name(plain))
        return found is not None and format_name in found[2].names[found[1]]

    def merge(self, values: Mapping[str, object]) -> Self:
        """Return these options updated with `values`, which take precedence; raises the errors of `parse`."""
        later = type(self).parse(values)
        changed = {attribute: getattr(later, attribute) for attribute in later.given}
        ignored = (*self.without_effect, *later.without_effect)
        return replace(
            self, given=_declaration_order(type(self), {**self.given, **later.given}), without_effect=ignored, **changed
        )

    def merge_arguments(self, values: Mapping[str, object]) -> Self:
        """Return these options together with `values`, which a function takes as arguments.

        Raises `InvalidOption` if an option is in both with different values, and the errors of `parse`.
        """
        later = type(self).parse(values)
        changed: dict[str, Any] = {}
        for attribute, name in later.given.items():
            before, now = getattr(self, attribute), getattr(later, attribute)
            if declarations(type(self))[attribute].is_prefix:
                if twice := [each for each in before.keys() & now.keys() if before[each] != now[each]]:
                    raise _twice(name.replace("NAME", min(twice)))
                now = {**before, **now}
            elif attribute in self.given and before != now:
                raise _twice(self.given[attribute], name)
            changed[attribute] = now
        ignored = (*self.without_effect, *later.without_effect)
        return replace(
            self, given=_declaration_order(type(self), {**later.given, **self.given}), without_effect=ignored, **changed
        )

    def exclude(self, names: Iterable[str]) -> Self:
        """Return these options with the defaults of those in `names`, as if they had not been passed.

        Names may have any case and style; an alias also excludes its option. Raises `KeyError` for an unknown name.
        """
        known = _option_index(type(self))
        gone = {known[normalise_name(name)][0] for name in names}
        plain = type(self)()
        return replace(
            self,
            given={attribute: name for attribute, name in self.given.items() if attribute not in gone},
            **{attribute: getattr(plain, attribute) for attribute in gone},
        )

    def names_of_groups(self, *groups: Group) -> tuple[str, ...]:
        """Return the names of the options that the caller passed and that belong to one of the groups."""
        declared = declarations(type(self))
        return tuple(name for attribute, name in self.given.items() if declared[attribute].group in groups)

    def values(self) -> dict[str, Any]:
        """Return the values of the options that the caller passed, by the names that the caller used."""
        return {name: getattr(self, attribute) for attribute, name in self.given.items()}

    def check_format(self, format_name: str) -> None:
        """Raise `InvalidOption` if the caller passed an option that does not exist for the table's format."""
        declared = declarations(type(self))
        if self.without_effect and format_name not in DELTA:
            raise self._unknown_error(self.without_effect[0])
        for attribute, name in self.given.items():
            formats = declared[attribute].names[name]
            if format_name not in formats:
                theirs, article = " or ".join(formats), "an" if format_name[0] in "aeiou" else "a"
                raise InvalidOption(f"option {name!r} is for {theirs} tables; this is {article} {format_name} table")

    def check_opened(self) -> None:
        """Raise `InvalidOption` for an option that locates or opens a table, since this table is already open."""
        if opening := self.names_of_groups(Group.OPENING):
            raise InvalidOption(f"{self.KIND} {opening[0]!r} is for opening a table, and this one is open: remove it")

    def __repr__(self) -> str:
        secret = {attribute for attribute, each in declarations(type(self)).items() if each.value.is_secret}
        shown = (f"{n}={'...' if a in secret else repr(getattr(self, a))}" for a, n in self.given.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def _strip_prefix(cls, name: str) -> str:
        lowered = name.lower()
        return next((name[len(each) :] for each in cls.PREFIXES if lowered.startswith(each)), name)

    @classmethod
    def _other_side(cls) -> type[OptionSet] | None:
        """Return the class of write options for reads, and vice versa, as Delta accepts both; None without one."""
        return None

    @classmethod
    def _check_ignored(cls, name: str, value: object) -> str:
        """Check an option that has no effect here, as it is for writes in a read or vice versa; return its name.

        Raises `InvalidOption` for an unknown name or a wrong value, and `UnsupportedFeature` for one not implemented.
        """
        theirs = next((each for each in _DELTAS_OPTIONS if normalise_name(each) == normalise_name(name)), None)
        other = cls._other_side()
        if theirs is None or other is None:
            raise cls._unknown_error(name)
        if (found := _option_index(other).get(normalise_name(theirs))) is not None:
            _parse(found[2], found[1], value)
        return theirs

    @classmethod
    def _unknown_error(cls, name: str) -> Exception:
        for whose, theirs_all in cls.UNSUPPORTED.items():
            for theirs in theirs_all:
                if normalise_name(theirs) == normalise_name(name):
                    return UnsupportedFeature(
                        f"{whose} option {theirs!r}", f"Remove the option to {cls.WITHOUT} without it."
                    )
        for theirs, advice in cls.ELSEWHERE.items():
            if normalise_name(theirs) == normalise_name(name):
                return InvalidOption(f"option {theirs!r} does not apply to {cls.WITHOUT}s: {advice}")
        known = [name for declared in declarations(cls).values() for name in declared.names]
        suggestion = nearest(name, [*known, *(theirs for some in cls.UNSUPPORTED.values() for theirs in some)])
        return InvalidOption(f"unknown {cls.KIND} {name!r}.{suggestion} Valid: {', '.join(known)}")


def _twice(name: str, other: str = "") -> InvalidOption:
    if other in ("", name):
        return InvalidOption(f"option {name!r} is given twice, with two values: give only one")
    return InvalidOption(f"options {name!r} and {other!r} are one option with two values: give only one")


def declarations(options: type[OptionSet]) -> dict[str, Option]:
    """Return the declared options of a set by attribute, in the order of declaration."""
    return {each.name: each.metadata[_DECLARATION] for each in fields(options) if _DECLARATION in each.metadata}


def _option_index(options: type[OptionSet]) -> dict[str, tuple[str, str, Option]]:
    """Map each normalised name to its attribute, its name as declared, and its declaration.

    The key of a prefix is the prefix up to its dot.
    """
    return {
        spelled: (attribute, name, declared)
        for attribute, declared in declarations(options).items()
        for name in declared.names
        for spelled in _spellings(declared, name)
    }


def _spellings(declared: Option, name: str) -> set[str]:
    if declared.is_prefix:
        return {normalise_name(name.removesuffix("NAME"))}
    return {normalise_name(name), normalise_name(as_keyword(name))}


def _declaration_order(options: type[OptionSet], given: Mapping[str, str]) -> dict[str, str]:
    return {attribute: given[attribute] for attribute in declarations(options) if attribute in given}


def _parse(declared: Option, name: str, value: object) -> Any:
    try:
        return declared.value(value)
    except ValueError as error:
        if declared.value.is_secret:
            raise InvalidOption(f"option {name!r} has an invalid value; expected: {error}") from None
        raise InvalidOption(f"option {name!r} has the invalid value {value!r}; expected: {error}") from error
