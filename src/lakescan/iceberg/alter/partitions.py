"""Partition spec changes (Java's `BaseUpdatePartitionSpec`)."""

from __future__ import annotations

from dataclasses import replace

from lakescan.common.schema import Schema
from lakescan.definition.table_changes import AddPartition, DropPartition, ReplacePartition
from lakescan.definition.table_definition import Term
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest
from lakescan.iceberg.alter.column_tree import resolve_term
from lakescan.iceberg.alter.metadata_draft import MetadataDraft
from lakescan.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform

_VOID = Transform("void")
_KNOWN = ("identity", "void", "year", "month", "day", "hour", "bucket", "truncate")


def add(change: AddPartition, draft: MetadataDraft) -> MetadataDraft:
    """Add a partition field; from version 2 on, reuse the id and name of an equal field of an earlier spec.

    Raises `NoSuchColumn`, `InvalidOption` if the table has an equal partition field or one with that name, or the
    transform does not accept the column, and `UnsupportedFeature` for a spec with an unknown transform.
    """
    _check_transforms(draft)
    source, transform = resolve_term(change.term, draft.schema, "partitioning")
    if equal := _find_equal_field(draft.partition_fields, source.id, transform):
        raise InvalidOption(f"the table is already partitioned by {change.term}: the partition field {equal.name!r}")
    if restored := _find_original_field(draft, source.id, transform):
        return _put_field(draft, replace(restored, name=change.name or restored.name))
    kind = transform.result_type(source.type)
    known = _find_earlier_field(draft, source.id, transform, change.name)
    if known is None:
        draft = replace(draft, last_partition_id=draft.last_partition_id + 1)
        name = change.name or partition_name(draft.schema, source.id, transform)
        known = PartitionField(draft.last_partition_id, name, source.id, transform, kind)
    return _put_field(_free_name(draft, known.name), replace(known, type=kind))


def drop(change: DropPartition, draft: MetadataDraft) -> MetadataDraft:
    """Drop a partition field; in version 1 it becomes void, because manifests identify partition values by position.

    Raises `InvalidOption` for a missing field, `UnsupportedFeature` for a spec with an unknown transform.
    """
    _check_transforms(draft)
    gone = _find_partition_field(draft, change.which)
    if draft.version > 1:
        kept = tuple(each for each in draft.partition_fields if each.id != gone.id)
        return replace(draft, partition_fields=kept)
    return _put_field(draft, replace(gone, transform=_VOID))


def replace_field(change: ReplacePartition, draft: MetadataDraft) -> MetadataDraft:
    """Drop a partition field and add another; raises the errors of `drop` and `add`."""
    return add(AddPartition(change.term, change.name), drop(DropPartition(change.which), draft))


def partition_name(schema: Schema, source_id: int, transform: Transform) -> str:
    """Return the default name of a partition field as in Java: `country`, `ts_day`, `id_bucket_16`, `name_trunc_4`."""
    source = schema.path_of[source_id]
    match transform.name:
        case "identity":
            return source
        case "bucket":
            return f"{source}_bucket_{transform.parameter}"
        case "truncate":
            return f"{source}_trunc_{transform.parameter}"
        case "void":
            return f"{source}_null"
    return f"{source}_{transform.name}"


def find_reusable_spec(draft: MetadataDraft) -> PartitionSpec | None:
    """Return the current or an earlier spec with the same sources, transforms and names as the draft's, or None."""
    key = [_field_key(each) for each in draft.partition_fields]
    return next((spec for spec in draft.base.specs.values() if [_field_key(each) for each in spec.fields] == key), None)


def _field_key(of: PartitionField) -> tuple[int, Transform, str]:
    return of.source_id, of.transform, of.name


def _put_field(draft: MetadataDraft, own: PartitionField) -> MetadataDraft:
    """Return the draft with the partition field `own`, which replaces the one with the same id, if any.

    Fields of the default spec come first, in their order. Raises `InvalidOption` if another field has the name.
    """
    if any(each.name == own.name and each.id != own.id for each in draft.partition_fields):
        raise InvalidOption(f"there already is a partition field {own.name!r}: give another name")
    fields = {**{each.id: each for each in draft.partition_fields}, own.id: own}
    before = [each.id for each in _base_fields(draft) if each.id in fields]  # in their original order, as in Java
    places = dict.fromkeys([*before, *fields])
    return replace(draft, partition_fields=tuple(fields[each] for each in places))


def _find_equal_field(fields: tuple[PartitionField, ...], source: int, transform: Transform) -> PartitionField | None:
    return next((each for each in fields if (each.source_id, each.transform) == (source, transform)), None)


def _find_original_field(draft: MetadataDraft, source: int, transform: Transform) -> PartitionField | None:
    """Return the field of the default spec with this source and transform, or None.

    It was dropped in this draft if it is added again.
    """
    return _find_equal_field(_base_fields(draft), source, transform)


def _base_fields(draft: MetadataDraft) -> tuple[PartitionField, ...]:
    """Return the fields of the table's default spec, before the changes."""
    return draft.base.specs[draft.base.default_spec_id].fields


def _find_earlier_field(
    draft: MetadataDraft, source: int, transform: Transform, name: str | None
) -> PartitionField | None:
    """Return the equal field of the newest spec that has one, to reuse its id, or None.

    If `name` is None, the field may have any name. The result is None in version 1, whose field ids are positions.
    """
    if draft.version < 2:
        return None
    specs = sorted(draft.base.specs.values(), key=lambda spec: (spec.id == draft.base.default_spec_id, spec.id))
    equal = [
        each
        for spec in reversed(specs)
        for each in spec.fields
        if (each.source_id, each.transform) == (source, transform) and name in (None, each.name)
    ]
    return next((each for each in equal if all(other.id != each.id for other in draft.partition_fields)), None)


def _free_name(draft: MetadataDraft, name: str) -> MetadataDraft:
    """Return the draft with a void partition field called `name` renamed to `<name>_<id>`, as in Java, if there is one.

    Another field can then have the name.
    """
    for each in draft.partition_fields:
        if each.name == name and each.transform == _VOID:
            return _put_field(draft, replace(each, name=f"{name}_{each.id}"))
    return draft


def _find_partition_field(draft: MetadataDraft, which: Term | str) -> PartitionField:
    """Return the partition field with a name or a transform; a plain column means its identity transform.

    Raises `InvalidOption` for a missing field.
    """
    live = [each for each in draft.partition_fields if draft.version > 1 or each.transform != _VOID]
    if isinstance(which, str):
        lower = which.replace("`", "").lower()
        if found := [each for each in live if each.name == which] or [e for e in live if e.name.lower() == lower]:
            return found[0]
        which_term: Term | None = Term(which) if _is_column(draft, which) else None
    else:
        which_term = which
    if which_term is not None:
        source, transform = resolve_term(which_term, draft.schema, "partitioning")
        if found_field := _find_equal_field(tuple(live), source.id, transform):
            return found_field
    known = [each.name for each in live]
    raise InvalidOption(
        f"there is no partition field {which}.{nearest(str(which), known)} The table is partitioned by "
        f"{', '.join(known) or 'nothing'}."
    )


def _is_column(draft: MetadataDraft, text: str) -> bool:
    return text.replace("`", "").lower() in {path.lower() for path in draft.schema.path_of.values()}


def _check_transforms(draft: MetadataDraft) -> None:
    """Raise `UnsupportedFeature` for a spec with an unknown transform, as Java does."""
    for each in draft.partition_fields:
        if each.transform.name not in _KNOWN:
            raise UnsupportedFeature(
                f"changing a partition spec with the transform {each.transform} ({each.name})",
                "Only tables with the transforms of the specification can be changed.",
            )
