"""Record how Spark compares text literals with typed columns: `python scripts/text_literals.py`.

Writes `tests/expressions/text_literals.json`. For each column type and time zone, the file has some values, and for
each text the comparison with every value: `<`, `=` or `>`, or null if Spark refuses the text. A test on Spark
recomputes and compares these answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).parent.parent / "tests" / "expressions" / "text_literals.json"
_EVERYWHERE = (
    "", " ", "abc", "null", "0", "1", "-1", "+1", " 1 ", "\t1\n", "1 1", "5", "5.5", "5.0", ".5", "5.", "1e2", "1E2",
    "1e-2", "0x10", "1L", "1d", "1f", "1_000", "1,000", "--1", "+-1", "\u0661", "\u00a01", "1\u00a0", "true", "2020",
    "2020-02-29", "2020-02-29 12:00:00", "epoch", "now", "12:00:00",
)  # fmt: skip
_WHOLE = (
    "127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "00005", "5.9", "5.", "-5.5", "1e0", "-0",
    "+", "-", ".", "5 .", "5.x", "5.0.0", "NaN", "Infinity",
)  # fmt: skip
_FLOATING = (
    "NaN", "nan", "NAN", "+NaN", "-NaN", "Infinity", "infinity", "inf", "+inf", "-inf", "-Infinity", "Inf", "INF",
    "infinit", "1e400", "-1e400", "1e-400", "-0", "-0.0", "0.1", "0.10000000149011612", "0.30000000000000004", "1e",
    "1e+2", "e5", "1.5.5", "1.5e0.5", "16777217", "9007199254740993", "0x1p3", "0x1.8p1", "1D", "1.5F", "1.5d",
    "1.5 f", " NaN ", ".", "-.5", "5.e1", "1e+", "3.4028235e38", "3.4028236e38", "1.7976931348623157e308", "4.9e-324",
)  # fmt: skip
_DECIMAL = (
    "1.50", "1.505", "1.5", "1.4999999999999999999", "1.50000000000000000001", "999.99", "1000", "-1000", "NaN",
    "Infinity", "-Infinity", "1e400", "0.1", "0.10", "123456789012345678.1", "123456789012345678.0000000001",
    "1234567890123456789012345678.0000000001", "1.5f", "9999999999999999999999999999", "1e28", "1e38", "-1e28",
)  # fmt: skip
_BOOLEAN = (
    "t", "T", "tr", "TRUE", "True", " true ", "\ttrue", "false", "f", "F", "FALSE", "y", "Y", "yes", "YES", "n", "N",
    "no", "No", "on", "off", "2", "00", "true1", "truE", "01",
)  # fmt: skip
_DATE = (
    "2020-2", "2020-02", "2020-2-9", "2020-02-9", "2020-2-29", "2020-02-30", "2019-02-29", "2020-13-01", "2020-00-01",
    "2020-02-00", "20200229", "2020/02/29", " 2020-02-29 ", "\t2020-02-29\n", "2020-02-29T", "2020-02-29 ",
    "2020-02-29T12:00:00", "2020-02-29Tgarbage", "2020-02-29 garbage", "2020-02-29x", "2020-02-29-01",
    "2020-02-29 23:59:59.999999", "2020-02-29T23:00:00-12:00", "2020-02-29Z", "2020-02-29+02:00", "02020-02-29",
    "0002020-02-29", "00002020-02-29", "+2020-02-29", "-2020-02-29", "+12020-02-29", "12020-02-29", "-0001-01-01",
    "0000-01-01", "0001-01-01", "1-1-1", "20-02-29", "999-02-28", "9999-12-31", "10000-01-01", "5881580-07-11",
    "5881580-07-12", "-5877641-06-23", "-5877641-06-22", "2020-", "2020-02-", "2020-02-29-", "-", "2020-02-029",
    "2020-002-29", "today", "tomorrow", "yesterday", "EPOCH", " epoch ", "epoch UTC", "1970-01-01", "2020-03-01",
    "2020-02-28", "2020-2-29 1:2:3", "1582-10-10", "1500-02-29", "infinity", "2020-02-29 12:00:00.0000019",
)  # fmt: skip
_TIMESTAMP = (
    *_DATE, "2020-02-29 1:2:3", "2020-02-29 12", "2020-02-29 12:", "2020-02-29 12:00", "2020-02-29 12:0",
    "2020-02-29 12:00:0", "2020-02-29 12:00:00.", "2020-02-29 12:00:00.1", "2020-02-29 12:00:00.123456",
    "2020-02-29 12:00:00.1234567", "2020-02-29 12:00:00.000001", "2020-02-29 12:00:00.0000009",
    "2020-02-29 12:00:00.123456789", "2020-02-29 12:00:00.1234567890123", "2020-02-29 24:00:00",
    "2020-02-29 23:60:00", "2020-02-29 23:59:60", "2020-02-29 12:00:00Z", "2020-02-29T12:00:00Z",
    "2020-02-29 12:00:00 Z", "2020-02-29 12:00:00z", "2020-02-29 12:00:00UTC", "2020-02-29 12:00:00 UTC",
    "2020-02-29 12:00:00 GMT", "2020-02-29 12:00:00+02:00", "2020-02-29 12:00:00+0200", "2020-02-29 12:00:00+02",
    "2020-02-29 12:00:00+2", "2020-02-29 12:00:00 +02:00", "2020-02-29 12:00:00-8", "2020-02-29 12:00:00+2:30",
    "2020-02-29 12:00:00+02:3", "2020-02-29 12:00:00+1:2", "2020-02-29 12:00:00+02:00:30",
    "2020-02-29 12:00:00+18:00", "2020-02-29 12:00:00+18:01", "2020-02-29 12:00:00+19:00",
    "2020-02-29 12:00:00-00:00", "2020-02-29 12:00:00 Europe/Paris", "2020-02-29 12:00:00Europe/Paris",
    "2020-02-29 12:00:00 europe/paris", "2020-02-29 12:00:00 America/New_York", "2020-02-29 12:00:00 PST",
    "2020-02-29 12:00:00 EST", "2020-02-29 12:00:00 CET", "2020-02-29 12:00:00 UTC+2",
    "2020-02-29 12:00:00 UTC+02:00", "2020-02-29 12:00:00 GMT+2", "2020-02-29 12:00:00 UT",
    "2020-02-29 12:00:00 UT+1", "2020-02-29 12:00:00 Nowhere/City", "2020-02-29 12:00:00 Z ",
    "2020-02-29 12:00:00.5Z", "2020-02-29 12:00:00.1234567Z", "2020-02-29 12:00:00.1234567 Europe/Paris",
    "2020-02-29 12Z", "2020-02-29 12:00Z", "2020-02-29 12:00+02:00", "2020-02-29T12:00", "2020-02-29 T12:00:00",
    "2020-02-29  12:00:00", "T12:00:00", "12:00", "T12", "12:00:00.5", "2020 12:00:00", "2020-02 12:00:00",
    "2020-02T12:00:00", "2020-02-29 12:00:00 garbage", "2020-02-29 12:00:00.5.5", "2020-02-29 12:00:00,5",
    "1582923600", "2020-03-08 02:30:00", "2020-03-08 02:30:00 America/New_York", "2020-11-01 01:30:00",
    "2020-11-01 01:30:00 America/New_York", "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808",
    "+294247-01-10 04:00:54.775807", "-290308-12-21 19:59:05.224192", "-290308-12-21 19:59:05.224191", "294248-01-01",
    "500000-01-01", "1970-01-01 00:00:00", "1969-12-31 23:59:59.9999999", "1969-12-31 23:59:59.999999",
    "0001-01-01 00:00:00", "1883-11-18 12:00:00", "1800-01-01 00:00:00 Europe/Paris", "12020-02-29 12:00:00",
    "2020-02-29 12:00:00 UTC+25", "2020-02-29 12:00:00 GMT0", "2020-02-29 12:00:00 EST5EDT",
    "2020-02-29 12:00:00 Zulu", "2020-02-29 12:00:00 Factory", "2020-02-29 12:00:00 BST", "2020-02-29 12:00:00 MST",
    "2020-02-29 12:00:00 IST", "2020-02-29 12:00:00 utc", "2020-02-29 12:00:00+2:3", "2020-02-29 12:00:00 +2:30:15",
    "2020-02-29 12:00:00+020030", "2020-02-29 12:00:00 UTCZ", "2020-02-29 12:00:00 UTC ", "2020-02-29 12:00:00:30",
    "2020-02-29 12:00:00 Europe/Kyiv", "2020-02 12", "2020 12", "epoch Nowhere", "epochUTC", "epoch +01:00", "EpOcH",
    "2020-02-29\t12:00:00", "2020-02-29\n", "2020-02-29T12", "2020-02-29 12:00:00 Etc/GMT+5",
    "2020-02-29 12:00:00 US/Pacific",
)  # fmt: skip
_TIME = (
    "12", "12:00", "12:0", "1:2", "1:2:3", "12:00:00", " 12:00:00 ", "\t12:00:00\n", "T12:00:00", "t12:00",
    "12:00:00.5", "12:00:00.", "12:00:00.123456", "12:00:00.1234567", "12:00:00.000001", "12:00:00.0000019",
    "24:00:00", "23:59:59", "23:59:59.999999", "23:60:00", "23:59:60", "00:00:00", "0:0:0", "012:00:00", "12:000",
    "12:00:00Z", "12:00:00+02:00", "12:00:00 UTC", "2020-02-29T12:00:00", "T12", "T12 PM", "12 PM", "12PM",
    "T1:00 PM", "1:00  PM", "1:00\tPM", "1:00 P", "1:00 PM.", "1:00:00.25PM", "12:00:00.123456789 PM", "01:00 pM",
    "00:30 PM", "12:00 AM", "12:00 PM", "1:00 PM", "1:00PM", "1:00:00 pm", "13:00 PM", "0:00 AM", "12:00:00.5 am",
    "-1:00", "12:", "12:00:", ":00", "12.5", "noon",
)  # fmt: skip
_STRING = ("a", "A", "ab", " a", "a ", "\u00e9", "e\u0301", "z", "\U0001f600", "\uffff", "'", '"', "\\", "%")
_UUID = (
    "f79c3e09-677c-4bbd-a479-3f349cb785e7", "F79C3E09-677C-4BBD-A479-3F349CB785E7",
    "f79c3e09677c4bbda4793f349cb785e7", "{f79c3e09-677c-4bbd-a479-3f349cb785e7}",
    " f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7 ",
    "urn:uuid:f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e", "f79c3e09", "f79c3e09-",
    "f79c3e09-677c-4bbd-a479-3f349cb785e70", "f79c3e09/", "f79c3e09.", "f79c3e09-677c-4bbd-a479-3f349cb785eg", "g",
    "f", "/", ":", "-", "@", "`", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "zz", "00000000-0000-0000-0000-00000000000", "00000000-0000-0000-0000-0000000000000", "\u00e9", "A", "a", "9a",
    "9A",
)  # fmt: skip
_ANY_TIME = (
    "-290308-12-21 19:59:05.224192", "0001-01-01 00:00:00", "1883-11-18 12:00:00", "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00", "1970-01-01 05:00:00", "2020-02-28 00:00:00", "2020-02-29 00:00:00", "2020-02-29 05:00:00",
    "2020-02-29 11:00:00", "2020-02-29 12:00:00", "2020-02-29 12:00:00.000001", "2020-02-29 12:00:00.123456",
    "2020-02-29 17:00:00", "2020-03-08 07:30:00", "2020-11-01 05:30:00", "2020-11-01 06:30:00",
    "+294247-01-10 04:00:54.775807",
)  # fmt: skip
_WHOLES = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
# By type: its values, as SQL, and the texts in addition to `_EVERYWHERE`.
TYPES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "BOOLEAN": (["false", "true"], _BOOLEAN),
    **{
        name: (
            [f"CAST('{n}' AS {name})" for n in (-(2 ** (bits - 1)), -1, 0, 1, 5, 100, 2 ** (bits - 1) - 1)],
            _WHOLE,
        )
        for name, bits in _WHOLES.items()
    },
    **{
        name: (
            [
                f"CAST('{n}' AS {name})"
                for n in ("-Infinity", "-1", "-0.0", "0.0", "0.1", "0.5", "1.5", "5", "100", "16777216", "16777218",
                          "9007199254740992", "3.4028235e38", "Infinity", "NaN")
            ],
            _FLOATING,
        )
        for name in ("FLOAT", "DOUBLE")
    },
    "DECIMAL(5,2)": (
        [f"CAST('{n}' AS DECIMAL(5,2))" for n in ("-999.99", "-1", "0", "0.10", "1", "1.50", "1.51", "5", "5.5",
                                                  "999.99")],
        (*_DECIMAL, *_FLOATING),
    ),
    "DECIMAL(38,10)": (
        [
            f"CAST('{n}' AS DECIMAL(38,10))"
            for n in ("-9999999999999999999999999999", "0", "0.1", "0.1000000001", "1.5", "123456789012345678",
                      "123456789012345678.0000000001", "123456789012345678.1", "123456789012345680",
                      "1234567890123456789012345678.0000000001", "9999999999999999999999999999.9999999999")
        ],
        (*_DECIMAL, *_FLOATING),
    ),
    "DATE": (
        [f"CAST('{d}' AS DATE)" for d in ("-5877641-06-23", "0001-01-01", "1582-10-10", "1970-01-01", "2020-01-01",
                                          "2020-02-01", "2020-02-09", "2020-02-28", "2020-02-29", "2020-03-01",
                                          "9999-12-31", "+12020-02-29", "+5881580-07-11")],
        _DATE,
    ),
    "TIMESTAMP": ([f"TIMESTAMP_LTZ '{each} UTC'" for each in _ANY_TIME], _TIMESTAMP),
    "TIMESTAMP_NTZ": ([f"TIMESTAMP_NTZ '{each}'" for each in _ANY_TIME], _TIMESTAMP),
    "TIME": (
        [f"TIME '{each}'" for each in ("00:00:00", "01:02:03", "12:00:00", "12:00:00.000001", "12:00:00.123456",
                                       "13:00:00", "23:59:59.999999")],
        _TIME,
    ),
    "BINARY": (["X''", "X'30'", "X'31'", "X'616263'", "X'C3A9'", "X'FF'"], _STRING),
    "STRING": (["''", "'0'", "'1'", "'abc'", "'\u00e9'", "'a '", "'A'", "'\U0001f600'"], _STRING),
    "UUID": (
        [f"'{each}'" for each in ("00000000-0000-0000-0000-000000000000", "9a000000-0000-0000-0000-000000000000",
                                  "a0000000-0000-0000-0000-000000000000", "f79c3e09-677c-4bbd-a479-3f349cb785e7",
                                  "ffffffff-ffff-ffff-ffff-ffffffffffff")],
        _UUID,
    ),
}  # fmt: skip
_ZONED = {"TIMESTAMP": ("UTC", "America/New_York")}
# Texts whose meaning depends on the current day.
_MOVING = ("now", "today", "tomorrow", "yesterday")
_OF_TODAY = ("12:00:00", "T12:00:00", "12:00", "T12", "12:00:00.5")


def texts_of(name: str) -> list[str]:
    """Return the texts to compare with the values of a type, without those whose meaning depends on the day."""
    texts = dict.fromkeys((*_EVERYWHERE, *TYPES[name][1]))
    moving = _MOVING + _OF_TODAY if name.startswith("TIMESTAMP") else _MOVING if name == "DATE" else ()
    return [each for each in texts if each not in moving]


def quoted(text: str) -> str:
    """Return the text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def answers(spark: Any) -> dict[str, Any]:
    """Return, by type, its values, and by zone and text one sign for each value, or None for a refused text."""
    from pyspark.errors import PySparkException

    spark.conf.set("spark.sql.timeType.enabled", "true")
    result: dict[str, Any] = {}
    for name, (values, _) in TYPES.items():
        zones = _ZONED.get(name, ("UTC",))
        result[name] = {"values": values, "zones": {}}
        listed = " UNION ALL ".join(f"SELECT {n} AS n, {value} AS v" for n, value in enumerate(values))
        spark.sql(listed).createOrReplaceTempView("text_literals")
        for zone in zones:
            spark.conf.set("spark.sql.session.timeZone", zone)
            found: dict[str, str | None] = {}
            for text in texts_of(name):
                sign = f"CASE WHEN v < {quoted(text)} THEN '<' WHEN v = {quoted(text)} THEN '=' ELSE '>' END"
                try:
                    rows = spark.sql(f"SELECT n, {sign} FROM text_literals").collect()
                    found[text] = "".join(each[1] for each in sorted(rows))
                except PySparkException:
                    found[text] = None
            result[name]["zones"][zone] = found
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    return result


def main() -> None:
    """Compute the answers in a separate session and write them."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    ANSWERS.write_text(json.dumps(answers(spark), indent=0, ensure_ascii=True) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
