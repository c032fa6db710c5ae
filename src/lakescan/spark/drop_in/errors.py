"""The classes of lakescan's errors in enabled sessions: those that jobs for the JARs catch, with our messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from lakescan.errors import (
    AmbiguousMerge,
    CommitConflict,
    CommitStateUnknown,
    InvalidFilter,
    InvalidOption,
    InvalidStatement,
    IsAView,
    LakescanError,
    NoSuchCatalog,
    NoSuchColumn,
    NoSuchNamespace,
    NoSuchSnapshot,
    NoSuchTable,
    NotATable,
    QueryFailed,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
)

ANALYSIS, ILLEGAL, RUNTIME = "AnalysisException", "IllegalArgumentException", "SparkRuntimeException"
UNSUPPORTED, JAVA, ARITHMETIC = "UnsupportedOperationException", "Py4JJavaError", "ArithmeticException"
_SPARK, _ICEBERG = "org.apache.spark.SparkException", "org.apache.iceberg.exceptions"
_FEATURE = "org.apache.spark.sql.delta.DeltaTableFeatureException"
_INVARIANT = "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException"
_VIOLATED, _INCOMPATIBLE = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "INCOMPATIBLE_DATA_FOR_TABLE"
_TWICE = "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT"
_ARITY, _UNRESOLVED = "INSERT_COLUMN_ARITY_MISMATCH", "UNRESOLVED_COLUMN.WITH_SUGGESTION"


def _too_many(parameters: Mapping[str, str]) -> str:
    """Return the condition of a query with too many or too few columns, by the numbers in `parameters`."""
    is_more = int(parameters["given"]) > int(parameters["wanted"])
    return f"{_ARITY}.{'TOO_MANY_DATA_COLUMNS' if is_more else 'NOT_ENOUGH_DATA_COLUMNS'}"


@dataclass(frozen=True)
class _Rule:
    """How Spark and the JVM libraries raise an error.

    - `kind`: lakescan's class.
    - `name`: the class of PySpark, or `JAVA` for an error that PySpark does not classify.
    - `condition`: Spark's error condition, or a function that returns it for the parameters; None for an error without
      one, as of Java's own classes.
    - `pattern`: only messages that this expression is found in. Its named groups are the message's parameters.
    - `format`: only for tables of this format.
    - `java`: Java's class of an error that PySpark does not classify.
    """

    kind: type[LakescanError]
    name: str
    condition: str | Callable[[Mapping[str, str]], str] | None = None
    pattern: str | None = None
    format: str | None = None
    java: str = _SPARK

    def match(self, error: LakescanError, format: str | None) -> dict[str, str] | None:
        """Return the message's parameters if the rule applies to an error, else None."""
        if not isinstance(error, self.kind) or self.format not in (None, format):
            return None
        if self.pattern is None:
            return {}
        found = re.search(self.pattern, str(error))
        return None if found is None else {key: value for key, value in found.groupdict().items() if value is not None}


# The first rule that applies is used.
_RULES = (
    _Rule(TableExists, JAVA, None, r"has tables: drop them first", java=f"{_ICEBERG}.NamespaceNotEmptyException"),
    _Rule(TableExists, ANALYSIS, "DELTA_PATH_EXISTS", r"^(?P<path>(?:\w+:)?/\S*)", "delta"),
    _Rule(TableExists, ANALYSIS, "SCHEMA_ALREADY_EXISTS", r"^namespace '(?P<schemaName>[^']*)'"),
    _Rule(TableExists, ANALYSIS, "TABLE_OR_VIEW_ALREADY_EXISTS", r"^(?P<relationName>\S+) already exists"),
    _Rule(TableExists, ANALYSIS, "TABLE_OR_VIEW_ALREADY_EXISTS"),
    _Rule(IsAView, ANALYSIS, "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"),
    _Rule(NoSuchTable, ANALYSIS, "TABLE_OR_VIEW_NOT_FOUND", r"(?:table |^)'?(?P<relationName>[\w.`]+)'?"),
    _Rule(NoSuchTable, ANALYSIS, "TABLE_OR_VIEW_NOT_FOUND"),
    _Rule(NotATable, ANALYSIS, "PATH_NOT_FOUND", r"^(?P<path>\S+) does not exist"),
    _Rule(NotATable, ANALYSIS, "DELTA_TABLE_NOT_FOUND", None, "delta"),
    _Rule(NotATable, ANALYSIS, "PATH_NOT_FOUND"),
    _Rule(NoSuchNamespace, ANALYSIS, "SCHEMA_NOT_FOUND", r"no namespace '(?P<schemaName>[^']*)'"),
    _Rule(NoSuchNamespace, ANALYSIS, "SCHEMA_NOT_FOUND"),
    _Rule(NoSuchCatalog, ANALYSIS, "CATALOG_NOT_FOUND"),
    _Rule(NoSuchColumn, ANALYSIS, _UNRESOLVED, r"no column '(?P<objectName>[^']*)'"),
    _Rule(NoSuchColumn, ANALYSIS, _UNRESOLVED),
    _Rule(AmbiguousMerge, RUNTIME, "MERGE_CARDINALITY_VIOLATION", None, "iceberg"),
    _Rule(AmbiguousMerge, UNSUPPORTED, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"),
    # Rows that violate rules of a table
    _Rule(SchemaMismatch, JAVA, _VIOLATED, r"violate|of the generated column", java=_INVARIANT),
    _Rule(SchemaMismatch, JAVA, _VIOLATED, r"is required, but is null", "delta", _INVARIANT),
    _Rule(SchemaMismatch, RUNTIME, "NOT_NULL_ASSERT_VIOLATION", r"column '(?P<walkedTypePath>[^']+)' is required, but"),
    _Rule(SchemaMismatch, JAVA, "DELTA_EXCEED_CHAR_VARCHAR_LIMIT", r"is (?:VAR)?CHAR\(\d+\), and", java=_INVARIANT),
    # Columns that do not fit a table
    _Rule(
        SchemaMismatch,
        ANALYSIS,
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        r"column '(?P<colName>[^']+)' is GENERATED ALWAYS AS IDENTITY",
    ),
    _Rule(
        SchemaMismatch,
        ANALYSIS,
        "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
        r"identity column '(?P<colName>[^']+)' cannot be updated",
    ),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_REPLACE_WHERE_MISMATCH", r"do not match replaceWhere"),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_DUPLICATE_COLUMNS_FOUND.DATA", r"occurs twice", "delta"),
    _Rule(SchemaMismatch, ANALYSIS, f"{_INCOMPATIBLE}.AMBIGUOUS_COLUMN_NAME", r"occurs twice"),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_METADATA_MISMATCH", r"is not in the table", "delta"),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_INSERT_COLUMN_ARITY_MISMATCH", r"the query has \d+ columns", "delta"),
    _Rule(SchemaMismatch, ANALYSIS, "DELTA_FAILED_TO_MERGE_FIELDS", None, "delta"),
    _Rule(SchemaMismatch, ANALYSIS, _too_many, r"the query has (?P<given>\d+) columns? .*for (?P<wanted>\d+) columns?"),
    _Rule(
        SchemaMismatch, ANALYSIS, f"{_INCOMPATIBLE}.CANNOT_FIND_DATA", r"'(?P<colName>[^']+)' is required but missing"
    ),
    _Rule(SchemaMismatch, ANALYSIS, f"{_INCOMPATIBLE}.EXTRA_COLUMNS", r"'(?P<extraColumns>[^']+)' is not in the table"),
    _Rule(SchemaMismatch, ARITHMETIC, "CAST_OVERFLOW_IN_TABLE_INSERT", r"a value does not fit.*not in range"),
    _Rule(SchemaMismatch, ANALYSIS, f"{_INCOMPATIBLE}.CANNOT_SAFELY_CAST", r"column '(?P<colName>[^']+)'"),
    _Rule(SchemaMismatch, ANALYSIS, f"{_INCOMPATIBLE}.CANNOT_SAFELY_CAST"),
    # Values of rows
    _Rule(QueryFailed, "NumberFormatException", "CAST_INVALID_INPUT", r"CAST_INVALID_INPUT"),
    _Rule(QueryFailed, ARITHMETIC, "DIVIDE_BY_ZERO", r"DIVIDE_BY_ZERO"),
    _Rule(QueryFailed, ARITHMETIC, "ARITHMETIC_OVERFLOW", r"OVERFLOW|OUT_OF_RANGE"),
    _Rule(QueryFailed, RUNTIME),
    # Statements and filters
    _Rule(InvalidStatement, ANALYSIS, "DELTA_MERGE_MISSING_WHEN", r"^the MERGE has no clause"),
    _Rule(InvalidStatement, ANALYSIS, _UNRESOLVED, r"no column '(?P<objectName>[^']*)'"),
    _Rule(InvalidStatement, ANALYSIS, f"{_TWICE}.DOUBLE_NAMED_ARGUMENT_REFERENCE", r"parameter '.*' is given twice"),
    _Rule(InvalidStatement, ANALYSIS, "UNEXPECTED_POSITIONAL_ARGUMENT", r"positional arguments come before named"),
    _Rule(InvalidStatement, ANALYSIS, "DELTA_NON_PARTITION_COLUMN_REFERENCE", r"which is not a partition column"),
    _Rule(InvalidStatement, UNSUPPORTED, "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", r"FULL is for clustered tables"),
    _Rule(InvalidStatement, ANALYSIS, "DELTA_CLUSTERING_WITH_ZORDER_BY", r"clustered by .* leave ZORDER BY out"),
    _Rule(InvalidStatement, UNSUPPORTED, "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE", r"clustered .* leave WHERE out"),
    _Rule(InvalidStatement, "ParseException", "UNSUPPORTED_DATATYPE", r"'(?P<typeName>[^']*)' is not a column type"),
    _Rule(InvalidStatement, "ParseException", "PARSE_SYNTAX_ERROR"),
    _Rule(InvalidFilter, ANALYSIS, "DELTA_FAILED_RECOGNIZE_PREDICATE", r"^cannot parse the filter"),
    _Rule(InvalidFilter, ANALYSIS, _UNRESOLVED),
    # Versions, snapshots and changes
    _Rule(NoSuchSnapshot, ILLEGAL, "DELTA_CDC_START_VERSION_AFTER_LATEST", r"has no changes from version"),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT", r"is after the newest version"),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", r"is before the oldest version"),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_VERSION_NOT_FOUND", r"has no version (?P<userVersion>\d+)"),
    _Rule(NoSuchSnapshot, ANALYSIS, "DELTA_VERSION_NOT_FOUND", None, "delta"),
    _Rule(NoSuchSnapshot, ILLEGAL),
    # Definitions of tables
    _Rule(InvalidOption, ANALYSIS, "DELTA_METADATA_MISMATCH", r"^partition-by=.* is (?:not )?partitioned", "delta"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_DUPLICATE_COLUMNS_FOUND.DATA", r"is defined twice", "delta"),
    _Rule(InvalidOption, ANALYSIS, "COLUMN_ALREADY_EXISTS", r"column '(?P<columnName>[^']+)' is defined twice"),
    _Rule(InvalidOption, ANALYSIS, "FIELD_ALREADY_EXISTS", r"already has a column |^column \S+ already exists: names"),
    _Rule(InvalidOption, ANALYSIS, "NOT_SUPPORTED_CHANGE_COLUMN", r"does not hold all its values|, cannot become "),
    _Rule(InvalidOption, ANALYSIS, "DELTA_CONSTRAINT_DOES_NOT_EXIST", r"has no constraint '(?P<constraintName>[^']+)'"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_CONSTRAINT_ALREADY_EXISTS", r"already has a constraint"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", r"rows violate the new constraint"),
    # Options
    _Rule(InvalidOption, ANALYSIS, "INVALID_TIME_TRAVEL_SPEC", r"options 'versionAsOf' and 'timestampAsOf'", "iceberg"),
    _Rule(InvalidOption, ILLEGAL, "DELTA_ONEOF_IN_TIMETRAVEL", r"options 'versionAsOf' and 'timestampAsOf'"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_MULTIPLE_CDC_BOUNDARY", r"ingVersion' and '\w+Timestamp' set"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", r"^a change feed reads a range of versions"),
    _Rule(
        InvalidOption, ILLEGAL, "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE", r"replaceWhere and a dynamic"
    ),
    _Rule(InvalidOption, ILLEGAL, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", r"txnAppId and txnVersion"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_NO_START_FOR_CDC_READ", r"^a change feed needs a start"),
    _Rule(InvalidOption, ILLEGAL, "DELTA_INVALID_CDC_RANGE", r"end \(version .*before its start"),
    _Rule(
        InvalidOption, ILLEGAL, "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", r"^VACUUM .*older files may still be in use"
    ),
    _Rule(InvalidOption, ILLEGAL, "DELTA_MODE_NOT_SUPPORTED", r"^GENERATE (?P<mode>\S*): it takes"),
    _Rule(
        InvalidOption,
        ILLEGAL,
        "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        r"^(?P<colName>\S+) is a partition column",
    ),
    _Rule(
        InvalidOption,
        JAVA,
        "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
        r"^Delta has no table feature",
        java=_FEATURE,
    ),
    _Rule(InvalidOption, JAVA, "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT", r"has no feature '", java=_FEATURE),
    _Rule(InvalidOption, ILLEGAL, None, r"it takes a version from"),
    _Rule(
        InvalidOption,
        UNSUPPORTED,
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        r"^'delta\.columnMapping\.mode'='\w+': it takes",
    ),
    _Rule(
        InvalidOption,
        ANALYSIS,
        "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
        r"^the folders of .* but partition_by is",
    ),
    _Rule(
        InvalidOption,
        ANALYSIS,
        "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        r"^SHOW PARTITIONS of .* not partitioned",
        "delta",
    ),
    _Rule(InvalidOption, ANALYSIS, "DELTA_UNKNOWN_CONFIGURATION", r"^Delta has no table property '(?P<config>[^']+)'"),
    _Rule(InvalidOption, JAVA, None, r"^'delta\.[^']*'='.*: it takes", java="java.lang.IllegalArgumentException"),
    _Rule(InvalidOption, JAVA, None, r"is already a data file of", java="java.lang.IllegalStateException"),
    _Rule(InvalidOption, JAVA, None, r"has no files to add", java="java.io.FileNotFoundException"),
    _Rule(InvalidOption, ANALYSIS, "DELTA_TIMESTAMP_INVALID", r"is not a timestamp", "delta"),
    _Rule(InvalidOption, ILLEGAL, "DELTA_ILLEGAL_OPTION", r"option '(?P<name>[^']+)' has the invalid value", "delta"),
    _Rule(InvalidOption, ANALYSIS, "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT", r"is not a timestamp"),
    _Rule(InvalidOption, ILLEGAL),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_UNSUPPORTED_DROP_COLUMN", r"dropping column .* logical names"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_UNSUPPORTED_RENAME_COLUMN", r"renaming column .* logical names"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", r"dropping .* is partitioned by it"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", r"without type widening"),
    _Rule(
        UnsupportedFeature,
        ANALYSIS,
        "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
        r"a default of column .*allowColumnDefaults",
    ),
    _Rule(
        UnsupportedFeature,
        ANALYSIS,
        "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED",
        r"clustering .* which is partitioned",
    ),
    _Rule(
        UnsupportedFeature, ANALYSIS, "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", r"the constraint .*: a condition of type"
    ),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_MISSING_CHANGE_DATA", r"did not record changes"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_EMPTY_DATA", r"has no columns for data files"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", r"table by all of its columns"),
    _Rule(UnsupportedFeature, ILLEGAL, "DELTA_UNSUPPORTED_DEEP_CLONE", r"a deep clone"),
    _Rule(UnsupportedFeature, ANALYSIS, "DELTA_CONVERT_NON_PARQUET_TABLE", r"CONVERT TO DELTA"),
    _Rule(UnsupportedFeature, UNSUPPORTED, "DELTA_CANNOT_MODIFY_APPEND_ONLY", r"delta\.appendOnly"),
    _Rule(UnsupportedFeature, UNSUPPORTED),
    _Rule(CommitStateUnknown, JAVA, java=f"{_ICEBERG}.CommitStateUnknownException"),
    _Rule(CommitConflict, JAVA, java=f"{_ICEBERG}.ValidationException"),
    _Rule(LakescanError, JAVA),
)

# Those of CALL; the first rule that applies is used.
_PROCEDURES = (
    _Rule(NoSuchTable, JAVA, java="java.lang.RuntimeException"),
    _Rule(NoSuchCatalog, ANALYSIS, "FAILED_TO_LOAD_ROUTINE", r"Did you mean"),
    _Rule(NoSuchSnapshot, ILLEGAL, None, r"no ancestor of the current snapshot|to fast-forward to"),
    _Rule(NoSuchSnapshot, JAVA, java=f"{_ICEBERG}.ValidationException"),
    _Rule(NoSuchColumn, ILLEGAL),
    _Rule(UnsupportedFeature, JAVA, None, r"is not an ancestor of", java=f"{_ICEBERG}.ValidationException"),
    _Rule(UnsupportedFeature, ILLEGAL),
    _Rule(
        InvalidOption,
        JAVA,
        None,
        r"already (?:includes snapshot|cherry-picked)",
        java=f"{_ICEBERG}.ValidationException",
    ),
    _Rule(InvalidOption, ANALYSIS, "FAILED_TO_LOAD_ROUTINE", r"^there is no procedure"),
    _Rule(InvalidOption, ANALYSIS, "UNRECOGNIZED_PARAMETER_NAME", r"^\w+ has no parameter"),
    _Rule(InvalidOption, ANALYSIS, "REQUIRED_PARAMETER_NOT_FOUND", r"^\w+ needs (?!either)"),
    _Rule(InvalidOption, ANALYSIS, "WRONG_NUM_ARGS.WITHOUT_SUGGESTION", r"^\w+ takes \d+ arguments"),
    _Rule(InvalidOption, ANALYSIS, f"{_TWICE}.BOTH_POSITIONAL_AND_NAMED", r"is given twice, by position and by name"),
    _Rule(InvalidOption, "NumberFormatException", "CAST_INVALID_INPUT", r"='.*': expected a whole number"),
)

_STATES = {
    "ARITHMETIC_OVERFLOW": "22003",
    "CAST_INVALID_INPUT": "22018",
    "CAST_OVERFLOW_IN_TABLE_INSERT": "22003",
    "CATALOG_NOT_FOUND": "42P08",
    "COLUMN_ALREADY_EXISTS": "42711",
    "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED": "42000",
    "DELTA_CANNOT_MODIFY_APPEND_ONLY": "42809",
    "DELTA_CANNOT_RESTORE_TABLE_VERSION": "22003",
    "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER": "22003",
    "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER": "22003",
    "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION": "428FT",
    "DELTA_CDC_START_VERSION_AFTER_LATEST": "22003",
    "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE": "0A000",
    "DELTA_CLUSTERING_WITH_ZORDER_BY": "42613",
    "DELTA_CONSTRAINT_ALREADY_EXISTS": "42710",
    "DELTA_CONSTRAINT_DOES_NOT_EXIST": "42704",
    "DELTA_CONVERT_NON_PARQUET_TABLE": "0AKDC",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": "42601",
    "DELTA_DUPLICATE_COLUMNS_FOUND": "42711",
    "DELTA_EMPTY_DATA": "428GU",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT": "22001",
    "DELTA_FAILED_RECOGNIZE_PREDICATE": "42601",
    "DELTA_FAILED_TO_MERGE_FIELDS": "22005",
    "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED": "42808",
    "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED": "42808",
    "DELTA_ILLEGAL_OPTION": "42616",
    "DELTA_INSERT_COLUMN_ARITY_MISMATCH": "42802",
    "DELTA_INVALID_CDC_RANGE": "22003",
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": "42K05",
    "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS": "42616",
    "DELTA_MERGE_MISSING_WHEN": "42601",
    "DELTA_MERGE_UNRESOLVED_EXPRESSION": "42601",
    "DELTA_METADATA_MISMATCH": "42KDG",
    "DELTA_MISSING_CHANGE_DATA": "KD002",
    "DELTA_MISSING_DELTA_TABLE": "42P01",
    "DELTA_MODE_NOT_SUPPORTED": "0AKDC",
    "DELTA_MULTIPLE_CDC_BOUNDARY": "42614",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE": "21506",
    "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION": "23512",
    "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT": "42621",
    "DELTA_NON_PARTITION_COLUMN_REFERENCE": "42P10",
    "DELTA_NO_START_FOR_CDC_READ": "42601",
    "DELTA_ONEOF_IN_TIMETRAVEL": "42601",
    "DELTA_OPERATION_NOT_ALLOWED_DETAIL": "0AKDC",
    "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED": "42601",
    "DELTA_PATH_EXISTS": "42K04",
    "DELTA_REPLACE_WHERE_MISMATCH": "44000",
    "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE": "42613",
    "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE": "42809",
    "DELTA_TABLE_ALREADY_EXISTS": "42P07",
    "DELTA_TABLE_NOT_FOUND": "42P01",
    "DELTA_TABLE_ONLY_OPERATION": "0AKDD",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "42816",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "42816",
    "DELTA_TIMESTAMP_INVALID": "42816",
    "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME": "KD009",
    "DELTA_UNKNOWN_CONFIGURATION": "F0000",
    "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP": "0AKDC",
    "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE": "0AKDC",
    "DELTA_UNSUPPORTED_DEEP_CLONE": "0A000",
    "DELTA_UNSUPPORTED_DROP_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_RENAME_COLUMN": "0AKDC",
    "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS": "0AKDC",
    "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT": "22003",
    "DELTA_VERSION_NOT_FOUND": "22003",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": "23001",
    "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST": "42703",
    "DELTA_ZORDERING_ON_PARTITION_COLUMN": "42P10",
    "DIVIDE_BY_ZERO": "22012",
    "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT": "4274K",
    "EXPECT_TABLE_NOT_VIEW": "42809",
    "FAILED_TO_LOAD_ROUTINE": "38000",
    "FIELD_ALREADY_EXISTS": "42710",
    "INCOMPATIBLE_DATA_FOR_TABLE": "KD000",
    "INSERT_COLUMN_ARITY_MISMATCH": "21S01",
    "INVALID_SAVE_MODE": "42000",
    "INVALID_TIME_TRAVEL_SPEC": "42K0E",
    "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR": "42K0E",
    "MERGE_CARDINALITY_VIOLATION": "23K01",
    "NOT_NULL_ASSERT_VIOLATION": "42000",
    "NOT_SUPPORTED_CHANGE_COLUMN": "0A000",
    "NO_MERGE_ACTION_SPECIFIED": "42K0E",
    "PARSE_SYNTAX_ERROR": "42601",
    "PATH_NOT_FOUND": "42K03",
    "REQUIRED_PARAMETER_NOT_FOUND": "4274K",
    "SCHEMA_ALREADY_EXISTS": "42P06",
    "SCHEMA_NOT_FOUND": "42704",
    "SORT_BY_WITHOUT_BUCKETING": "42601",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "42P07",
    "TABLE_OR_VIEW_NOT_FOUND": "42P01",
    "UNEXPECTED_POSITIONAL_ARGUMENT": "4274K",
    "UNRECOGNIZED_PARAMETER_NAME": "4274K",
    "UNRESOLVED_COLUMN": "42703",
    "UNSUPPORTED_DATATYPE": "0A000",
    "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED": "0AKDE",
    "WRONG_NUM_ARGS": "42605",
}


@contextmanager
def raise_as_spark(*, connect: bool | None = None) -> Iterator[None]:
    """Context manager: raise lakescan's errors as errors that are also of the class that PySpark would raise.

    Args:
        connect: Whether the session is one of Connect; None to find out. It matters for errors that PySpark does not
            classify: `Py4JJavaError` in a classic session.
    """
    try:
        yield
    except LakescanError as error:
        found = spark_error(error, connect=connect)
        if found is error:
            raise
        raise found.with_traceback(error.__traceback__) from error.__cause__


@contextmanager
def errors_of_format(name: str) -> Iterator[None]:
    """Context manager: errors are about a table of this format, whose library decides about their classes."""
    try:
        yield
    except LakescanError as error:
        error.table_format = error.table_format or name
        raise


@contextmanager
def branch_errors() -> Iterator[None]:
    """Context manager: a branch in the name of a table that does not exist raises the error of Iceberg's library."""
    try:
        yield
    except NoSuchSnapshot as error:
        raise with_class(error, JAVA, f"{_ICEBERG}.ValidationException") from error.__cause__


@contextmanager
def procedure_errors() -> Iterator[None]:
    """Context manager: the errors of CALL have the classes of Iceberg's procedures, and of Spark's checks of calls."""
    try:
        yield
    except LakescanError as error:
        rule = next((each for each in _PROCEDURES if each.match(error, None) is not None), None)
        if rule is None:
            raise
        condition = rule.java if rule.name == JAVA else rule.condition
        assert not callable(condition)
        raise with_class(error, rule.name, condition) from error.__cause__


@contextmanager
def optimize_errors() -> Iterator[None]:
    """Context manager: an unknown column of a Z-order raises Delta's own error."""
    try:
        yield
    except NoSuchColumn as error:
        raise with_class(error, ILLEGAL, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST") from error.__cause__


@contextmanager
def restore_errors() -> Iterator[None]:
    """Context manager: a version that cannot be restored raises Delta's own error."""
    try:
        yield
    except NoSuchSnapshot as error:
        found = "TABLE_VERSION"
        if "before the oldest" in str(error):
            found = "TIMESTAMP_EARLIER"
        elif "after the newest" in str(error):
            found = "TIMESTAMP_GREATER"
        raise with_class(error, ANALYSIS, f"DELTA_CANNOT_RESTORE_{found}") from error.__cause__


def spark_error(error: LakescanError, *, connect: bool | None = None) -> Exception:
    """Return an error of both lakescan's class and PySpark's, with the same message.

    An error whose cause is an error of Spark about the user's query keeps Spark's class and condition. For `connect`
    see `raise_as_spark`.
    """
    from pyspark import errors

    from lakescan.spark.drop_in.delta_exceptions import conflict_class

    if isinstance(error, errors.PySparkException) or hasattr(error, "_lakescan_text"):
        return error
    if isinstance(error, CommitConflict) and (conflict := conflict_class(error)) is not None:
        return error_of_class(error, *conflict)
    wanted = error.__dict__.get("spark_error")
    if wanted is not None and wanted[0] != JAVA:
        return error_of_class(error, getattr(errors, wanted[0]), wanted[1])
    if wanted is not None:
        return _java_error(error, wanted[1] or _SPARK, None, {}, _is_connect() if connect is None else connect)
    if (cause := _cause_of_spark(error)) is not None:
        return error_of_class(
            error, _plain_class(cause), cause.getCondition(), cause.getMessageParameters(), cause.getSqlState()
        )
    format = error.table_format
    for rule in _RULES:
        parameters = rule.match(error, format)
        if parameters is None:
            continue
        condition = rule.condition(parameters) if callable(rule.condition) else rule.condition
        if rule.name == "ParseException" and error.__dict__.get("is_parsed"):  # Spark can parse the statement
            return error_of_class(error, errors.AnalysisException, None, parameters)
        if rule.name == JAVA:
            on_connect = _is_connect() if connect is None else connect
            return _java_error(error, rule.java, condition, parameters, on_connect)
        return error_of_class(error, getattr(errors, rule.name), condition, parameters)
    return error


def with_class(error: LakescanError, name: str, condition: str | None) -> LakescanError:
    """Return the error with the name of PySpark's class and the error condition that `spark_error` gives it.

    For the class `JAVA`, the condition is the name of Java's class.

    Example:
        >>> raise with_class(InvalidOption("mode 'upsert' is unknown"), "AnalysisException", "INVALID_SAVE_MODE")
    """
    error.__dict__["spark_error"] = (name, condition)
    return error


def error_of_class(
    error: LakescanError,
    base: type,
    condition: str | None,
    parameters: Mapping[str, str] | None = None,
    state: str | None = None,
) -> Exception:
    """Return an error of both lakescan's class and `base`, with the same message.

    Args:
        error: The error.
        base: A class of PySpark's errors.
        condition: The error condition, as `getCondition` returns it; None for an error without one.
        parameters: The parameters of the message.
        state: The SQLSTATE; None for that of the condition.
    """
    known = state if state is not None or condition is None else _STATES.get(condition.partition(".")[0])
    kept = {
        key: value for key, value in error.__dict__.items() if key not in ("spark_error", "table_format", "is_parsed")
    }
    return _rebuild(type(error), base, error.args, kept, (str(error), condition, dict(parameters or {}), known))


def _rebuild(
    kind: type[LakescanError],
    base: type,
    arguments: tuple[Any, ...],
    state: Mapping[str, Any],
    about: tuple[str, str | None, dict[str, str], str | None],
) -> Exception:
    """Return an error of lakescan's class `kind` and of `base`, as `error_of_class` and pickle make it."""
    classes: Any = (kind, base)
    found: Any = _class_of(*classes)
    new: Any = found.__new__(found, *arguments)
    new.__dict__.update(state)
    new.args = arguments
    message, condition, parameters, sql_state = about
    shown = condition is not None and not condition.startswith("_LEGACY")
    new._lakescan_text = f"[{condition}] {message}" if shown else message
    new._lakescan_about = about
    new._message, new._desc, new._errorClass = message, new._lakescan_text, condition
    new._messageParameters, new._contexts, new._sqlState = parameters, [], sql_state
    result: Exception = new
    return result


def _reduce(self: Any) -> Any:
    kind, base = type(self)._lakescan_classes
    hidden: tuple[str, ...] = ("_lakescan_text", "_lakescan_about", "_message", "_desc", "_errorClass")
    hidden += ("_messageParameters", "_contexts", "_sqlState")
    state = {key: value for key, value in self.__dict__.items() if key not in hidden}
    return _rebuild, (kind, base, self.args, state, self._lakescan_about)


def _error_class(self: Any) -> str | None:
    """Return the error condition, as `getCondition`."""
    import warnings

    warnings.warn("Deprecated in 4.0.0, use getCondition instead.", FutureWarning, stacklevel=2)
    condition: str | None = self.getCondition()
    return condition


@cache
def _class_of(kind: Any, base: Any) -> type:
    """Return the class that extends PySpark's class `base`, whose name it has, and lakescan's."""
    members: dict[str, Any] = {
        "__module__": base.__module__,
        "__doc__": kind.__doc__,
        "_lakescan_classes": (kind, base),
        "__init__": lambda self, *arguments: None,
        "__str__": lambda self: self._lakescan_text,
        "__reduce__": _reduce,
    }
    if hasattr(base, "getCondition"):  # not an error of py4j
        members |= {
            "getCondition": lambda self: self._lakescan_about[1],
            "getErrorClass": _error_class,
            "getMessage": lambda self: self._lakescan_text,
            "getMessageParameters": lambda self: dict(self._lakescan_about[2]),
            "getSqlState": lambda self: self._lakescan_about[3],
            "getQueryContext": lambda self: [],
            "getBreakingChangeInfo": lambda self: None,
        }
    return type(base.__name__, (base, kind), members)


class JavaException:
    """What a job reads of the Java exception in a `Py4JJavaError`: its class and its message."""

    def __init__(self, name: str, message: str) -> None:
        self._name, self._message = name, message

    def getClass(self) -> JavaException:
        """Return the class, of which `getName` and `getSimpleName` can be read."""
        return self

    def getName(self) -> str:
        """Return the name of the class."""
        return self._name

    def getSimpleName(self) -> str:
        """Return the name of the class without its package."""
        return self._name.rpartition(".")[2]

    def getMessage(self) -> str:
        """Return the message."""
        return self._message

    getLocalizedMessage = getMessage

    def getCause(self) -> None:
        """Return None: there is no other exception."""

    def toString(self) -> str:
        """Return the class and the message."""
        return f"{self._name}: {self._message}"

    __str__ = toString


def _java_error(
    error: LakescanError, java: str, condition: str | None, parameters: Mapping[str, str], connect: bool
) -> Exception:
    """Return an error that PySpark does not classify; `java` is the name of Java's class."""
    if connect:
        from pyspark.errors.exceptions import connect as classes

        names = (*(("SparkException",) if java == _SPARK else ()), "UnknownException", "SparkConnectGrpcException")
        base = next(getattr(classes, each) for each in names if hasattr(classes, each))
        return error_of_class(error, base, condition, parameters)
    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    except ImportError:  # a client without Java's libraries
        return error
    found: Any = error_of_class(error, Py4JJavaError, condition, parameters)
    found.java_exception = JavaException(java, found._lakescan_text)
    found.errmsg = found._lakescan_text
    result: Exception = found
    return result


def _is_connect() -> bool:
    """Return whether this process has no classic session."""
    from pyspark import SparkContext

    return getattr(SparkContext, "_active_spark_context", None) is None


def _cause_of_spark(error: LakescanError) -> Any:
    """Return the error of Spark about the user's query or rows that an error was translated from; None without one."""
    from pyspark.errors import PySparkException, PythonException

    found: BaseException | None = error.__cause__
    while isinstance(found, LakescanError):
        found = found.__cause__
    if not isinstance(found, PySparkException) or isinstance(found, PythonException) or found.getCondition() is None:
        return None
    return found if isinstance(error, QueryFailed | InvalidStatement | NoSuchColumn | InvalidFilter) else None


def _plain_class(error: Exception) -> type:
    """Return the class of `pyspark.errors` that an error of Spark belongs to."""
    from pyspark import errors

    return next(
        each for each in type(error).__mro__ if getattr(errors, each.__name__, None) is each or each is Exception
    )
