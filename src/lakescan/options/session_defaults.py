"""Read and write options that a Spark session sets for all tables of a format.

As in Iceberg's Spark source, an option of the read or write takes precedence over the session's setting, and the
session's setting over the table's property.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakescan.options.declaration import DELTA, ICEBERG, Group, OptionSet, declarations
from lakescan.options.read import ReadOptions
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions

(_FORMAT,) = ICEBERG
_PREFIX = f"spark.datasource.{_FORMAT}."  # before any option's name, as in Spark's `SessionConfigSupport`
_OWN = {
    f"spark.sql.{_FORMAT}.{setting}": name
    for setting, name in (
        ("vectorization.enabled", "vectorization-enabled"),
        ("data-planning-mode", "data-planning-mode"),
        ("delete-planning-mode", "delete-planning-mode"),
        ("distribution-mode", "distribution-mode"),
        ("compression-codec", "compression-codec"),
        ("compression-level", "compression-level"),
    )
}
_OF_DELTA = {"spark.databricks.delta.schema.autoMerge.enabled": "mergeSchema"}
# The write options that correspond to table properties.
_WRITES = ("target-file-size-bytes", "compression-codec", "compression-level", "write-format", "distribution-mode")
Given = tuple[str, str, str]  # table format, option name, value


def _names(options: type[OptionSet]) -> set[str]:
    if issubclass(options, WriteOptions):
        return set(_WRITES)
    found = (each for each in declarations(options).values() if each.group in (Group.PLANNING, Group.READING))
    return {each.name for each in found if _FORMAT in each.formats}


def session_settings() -> Mapping[str, str]:
    """Return the option names by the names of the session settings that set them.

    If settings set the same option, later ones in this order take precedence.
    """
    general = {_PREFIX + name: name for name in sorted(_names(ReadOptions) | _names(WriteOptions))}
    return general | _OWN | _OF_DELTA


def parse_session_settings(settings: Mapping[str, str]) -> tuple[Given, ...]:
    """Return the options that a session's settings set, each as table format, option name and value."""
    names = session_settings()
    found = {names[each]: value for each, value in settings.items() if each in names}
    delta = _OF_DELTA.values()
    return tuple((DELTA[0] if name in delta else _FORMAT, name, value) for name, value in found.items())


def evolution_of_session(session: SessionSettings, format_name: str) -> dict[str, bool]:
    """Return the option `mergeSchema` if the session sets it for all writes to tables of a format, as for Delta."""
    is_set = any(
        kind == format_name and value.lower() == "true"
        for kind, name, value in session.options
        if name == "mergeSchema"
    )
    return {"mergeSchema": True} if is_set else {}


def session_options(options: OptionSet, session: Iterable[Given], format_name: str) -> dict[str, str]:
    """Return the session's options for a table of the format `format_name`, as values by option name.

    Left out are options that `options` sets itself, and that it does not have (reads and writes differ).
    """
    names, attributes = _names(type(options)), {each.name: key for key, each in declarations(type(options)).items()}
    return {
        name: value
        for kind, name, value in session
        if kind == format_name and name in names and attributes[name] not in options.given
    }
