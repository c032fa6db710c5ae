"""Actions that are not of files, reconciled, as checkpoints hold them: protocol, metaData, txn, domainMetadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakescan.delta.commit.file_changes import TEXTS
from lakescan.delta.log.text import Action, LogText, only_actions, single_actions
from lakescan.errors import CorruptMetadata, UnsupportedFeature

_STRINGS = pa.list_(pa.string())
_FORMAT = pa.struct([pa.field("provider", pa.string()), pa.field("options", TEXTS)])
OTHER_ACTIONS: Mapping[str, pa.StructType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", _FORMAT),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_NAMES = tuple(OTHER_ACTIONS)


@dataclass
class OtherActions:
    """The newest action of each kind, application and domain, while a log is read in ascending order."""

    of_table: dict[str, Action] = field(default_factory=dict)
    transactions: dict[str | None, Action] = field(default_factory=dict)
    domains: dict[str | None, Action] = field(default_factory=dict)

    def apply_commit(self, commit: LogText) -> None:
        """Apply the actions of the next commit; raises `CorruptMetadata`."""
        self.apply(reversed(list(single_actions(commit, _NAMES))))

    def apply(self, actions: Iterable[Action]) -> None:
        """Apply the actions of one version in their order; raises `CorruptMetadata`."""
        actions = list(actions)
        self.of_table |= only_actions(each for each in actions if each.name in ("protocol", "metaData"))
        for action in actions:
            if action.name == "txn":
                self.transactions[_key(action, "appId")] = action
            elif action.name == "domainMetadata":
                self.domains[_key(action, "domain")] = action

    def required_action(self, name: str, location: str, version: int) -> Action:
        """The protocol or metaData action; raises `CorruptMetadata` without one."""
        if name not in self.of_table:
            raise CorruptMetadata(f"{location}: the log has no {name} action up to version {version}")
        return self.of_table[name]

    def live(self, transactions_after: int | None = None) -> list[Action]:
        """The actions, without removed domains, and without transactions that were not updated after a time.

        The time is in milliseconds since 1970. Raises `CorruptMetadata`.
        """
        domains = [each for each in self.domains.values() if not each.get("removed")]
        recent = [
            each
            for each in self.transactions.values()
            if transactions_after is None or (each.whole_number("lastUpdated") or 0) > transactions_after
        ]
        return [*self.of_table.values(), *domains, *recent]

    def rows(self, transactions_after: int | None) -> list[tuple[str, dict[str, Any]]]:
        """The live actions by name, as a checkpoint holds them.

        Raises `CorruptMetadata`, and `UnsupportedFeature` for members that would be lost.
        """
        return [(each.name, _row(each)) for each in self.live(transactions_after)]


def _key(action: Action, member: str) -> str | None:
    key = action.text(member)
    if key is None:
        raise action.wrong(member, "text")
    return key


def _row(action: Action) -> dict[str, Any]:
    kind = OTHER_ACTIONS[action.name]
    return {f.name: _value(action, f) for f in _check_members(action, kind)}


def _check_members(action: Action, kind: pa.StructType) -> pa.StructType:
    known = {f.name for f in kind}
    if lost := sorted(name for name, value in action.members.items() if value is not None and name not in known):
        raise UnsupportedFeature(
            f"writing a checkpoint with the member {action.name}.{lost[0]}", f"{action.where} has it; it would be lost."
        )
    return kind


def _value(action: Action, member: pa.Field) -> Any:
    """A member in the form that Arrow makes a value of the field of."""
    if member.type == TEXTS:
        return list(action.text_map(member.name).items())
    if member.type == _FORMAT:
        node = action.get("format") or {"provider": "parquet"}
        inner = Action("metaData.format", node, action.where)
        return {"provider": inner.text("provider"), "options": list(inner.text_map("options").items())}
    if member.type == _STRINGS:
        return action.texts(member.name)
    if pa.types.is_integer(member.type):
        return action.whole_number(member.name)
    return bool(action.get(member.name)) if pa.types.is_boolean(member.type) else action.text(member.name)
