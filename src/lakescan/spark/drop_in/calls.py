"""The state of PySpark's readers and writers, from their recorded calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.errors import InvalidOption
from lakescan.spark.drop_in.interception import recorded_calls
from lakescan.spark.session import conf


@dataclass
class Calls:
    """The format, mode, options and columns that were given to a reader or writer."""

    format: str | None = None
    mode: str | None = None
    schema: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    partition_by: list[str] | None = None
    bucket_by: tuple[Any, ...] | None = None
    cluster_by: list[str] | None = None
    is_sorted: bool = False
    output_mode: str | None = None
    query_name: str | None = None
    trigger: dict[str, Any] | None = None

    @staticmethod
    def of(builder: Any) -> Calls:
        """Return the state of a reader or writer."""
        found = Calls()
        for name, args, kwargs in recorded_calls(builder):
            found.apply(name, args, kwargs)
        return found

    def apply(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Apply one call."""
        value = args[0] if args else next(iter(kwargs.values()), None)
        match name:
            case "format":
                self.format = value
            case "mode":
                self.mode = value if value is not None else self.mode
            case "schema":
                self.schema = value
            case "option":
                key, given = (*args, *kwargs.values())[:2]
                self.set_option(key, given)
            case "options":
                for key, given in kwargs.items():
                    self.set_option(key, given)
            case "partitionBy":
                self.partition_by = _names(args)
            case "bucketBy":
                self.bucket_by = (*args, *kwargs.values())
            case "clusterBy":
                self.cluster_by = _names(args)
            case "outputMode":
                self.output_mode = value
            case "queryName":
                self.query_name = value
            case "trigger":
                self.trigger = dict(kwargs)

    def set_option(self, key: str, value: Any) -> None:
        """Set an option; as in Spark, names are compared without case, and None leaves the option out."""
        for known in [each for each in self.options if each.lower() == key.lower()]:
            del self.options[known]
        if value is not None:
            self.options[key] = str(value).lower() if isinstance(value, bool) else str(value)

    def given(self, options: Mapping[str, Any], **arguments: Any) -> Calls:
        """Apply the arguments of the last call: a format, mode or schema that is not None, and options."""
        for name, value in arguments.items():
            if value is not None:
                setattr(self, name, value)
        for key, value in options.items():
            self.set_option(key, value)
        return self

    def take_place(self, method: str, format: str, path: Any) -> Any:
        """Return the path or name of a call: its argument, else the option `path`, which is removed.

        Raises `InvalidOption` without either. `method` and `format` are those of the call, for the message.
        """
        found = path if path is not None else self.options.pop("path", None)
        if found is None:
            raise InvalidOption(f"{method} of format {format} needs a path or a table's name")
        return found

    def our_format(self, spark: Any) -> str | None:
        """Return "iceberg" or "delta" if that is the format, or the session's default format; else None."""
        name = (self.format or conf(spark, "spark.sql.sources.default") or "").lower()
        return {"iceberg": "iceberg", "delta": "delta"}.get(name)


def _names(args: tuple[Any, ...]) -> list[str]:
    if len(args) == 1 and isinstance(args[0], list | tuple):
        return list(args[0])
    return list(args)
