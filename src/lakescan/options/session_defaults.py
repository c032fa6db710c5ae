"""Options that a session of Spark sets for the tables of a format: for reads and writes that do not set them.

As in Iceberg's source for Spark: an option that is given wins over the session's setting, and that over the table's
property.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakescan.options.declaration import ICEBERG, Group, OptionSet, declarations
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions

(_FORMAT,) = ICEBERG
_PREFIX = f"spark.datasource.{_FORMAT}."  # of any option, by Spark's `SessionConfigSupport`
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
# Of writes: those that stand for properties of the table.
_WRITES = ("target-file-size-bytes", "compression-codec", "compression-level", "write-format", "distribution-mode")
Given = tuple[str, str, str]  # the format of the tables, the option's name, its value


def _names(options: type[OptionSet]) -> set[str]:
    if issubclass(options, WriteOptions):
        return set(_WRITES)
    found = (each for each in declarations(options).values() if each.group in (Group.PLANNING, Group.READING))
    return {each.name for each in found if _FORMAT in each.formats}


def session_settings() -> Mapping[str, str]:
    """The names of settings that set an option, with the option's name. Later ones win over earlier ones."""
    general = {_PREFIX + name: name for name in sorted(_names(ReadOptions) | _names(WriteOptions))}
    return general | _OWN


def parse_session_settings(settings: Mapping[str, str]) -> tuple[Given, ...]:
    """The options that the settings of a session set."""
    names = session_settings()
    found = {names[each]: value for each, value in settings.items() if each in names}
    return tuple((_FORMAT, name, value) for name, value in found.items())


def session_options(options: OptionSet, session: Iterable[Given], format_name: str) -> dict[str, str]:
    """The options of a session that apply to a read or write of a table of a format, which does not set them itself."""
    names, attributes = _names(type(options)), {each.name: key for key, each in declarations(type(options)).items()}
    return {
        name: value
        for kind, name, value in session
        if kind == format_name and name in names and attributes[name] not in options.given
    }
