"""Spark's functions of strings and binaries in Python. Positions in strings count characters from 1."""

from __future__ import annotations

import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.python import casts
from lakescan.expressions.scalar.typed_sql import Interval
from lakescan.expressions.scalar.udf import FailedValue, type_factory

upper, lower = str.upper, str.lower


def initcap(text: str) -> str:
    """Convert a text to lower case, with a capital at the beginning of each word; words are separated by spaces."""
    return " ".join(map(_capitalize, text.split(" ")))


def _capitalize(word: str) -> str:
    return word[:1].title() + word.lower()[len(word[:1].lower()) :]


def ascii_(text: str) -> int:
    """Return the code point of the first character; 0 for an empty string."""
    return ord(text[0]) if text else 0


def chr_(number: int) -> str:
    """Return the character for the low 8 bits of a number; an empty string for a negative number."""
    return "" if number < 0 else chr(number & 0xFF)


def bit_length(value: bytes) -> int:
    """Return the length of a binary in bits."""
    return 8 * len(value)


def hex_text(value: bytes) -> str:
    """Return bytes as upper-case hexadecimal digits."""
    return value.hex().upper()


def hex_number(value: int) -> str:
    """Return a long as upper-case hexadecimal digits, in two's complement."""
    return f"{value & 0xFFFFFFFFFFFFFFFF:X}"


def unhex(text: str) -> bytes | None:
    """Parse hexadecimal digits to bytes; None for other text."""
    try:
        return bytes.fromhex("0" * (len(text) % 2) + text) if re.fullmatch("[0-9a-fA-F]*", text) else None
    except ValueError:
        return None


def bin_(value: int) -> str:
    """Return a long as binary digits, in two's complement."""
    return f"{value & 0xFFFFFFFFFFFFFFFF:b}"


_MOST_PLACES = 1_000  # decimal places of a formatted number
_WIDE = Context(prec=400 + _MOST_PLACES)  # the default rounds to 28 digits
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def conv(text: str, source: int, target: int) -> str | None:
    """Convert a number from the base `source` to the base `target`; text after the digits is ignored.

    If `target` is positive, the result is an unsigned 64-bit number, else a signed one. None for a base outside 2 to 36
    or empty text. Raises `FailedValue` for more than 64 bits.
    """
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36):
        return None
    text = text.strip(" ")
    if not text:
        return None
    negative = text[0] == "-"
    number = 0
    for each in text[negative:]:
        digit = _DIGITS.find(each.upper()) if each.isascii() else -1
        if not 0 <= digit < source:
            break
        number = number * source + digit
    if number >= 2**64:
        raise FailedValue("ARITHMETIC_OVERFLOW: conv() of a number of more than 64 bits")
    if negative and target > 0:
        number = -number & (2**64 - 1)
    is_negative = False
    if target < 0:
        signed = number - 2**64 if number >= 2**63 else number
        signed = -signed if negative else signed
        is_negative, number = signed < 0, abs(signed)
    digits = ""
    while number:
        number, digit = divmod(number, abs(target))
        digits = _DIGITS[digit] + digits
    return ("-" if is_negative else "") + (digits or "0")


def find_in_set(text: str, listed: str) -> int:
    """Return the position of a text in the comma-separated list `listed`, from 1.

    Returns 0 if the text is not in the list or has a comma.
    """
    if "," in text:
        return 0
    parts = listed.split(",")
    return parts.index(text) + 1 if text in parts else 0


def levenshtein(left: str, right: str, most: int | None = None) -> int:
    """Return the edit distance of two texts; -1 if it exceeds `most`."""
    row = list(range(len(right) + 1))
    for n, one in enumerate(left, 1):
        before, row[0] = row[0], n
        for m, other in enumerate(right, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (one != other))
    return -1 if most is not None and row[-1] > most else row[-1]


def soundex(text: str) -> str:
    """Return the Soundex code of a text that begins with an ASCII letter, and other texts unchanged."""
    codes = "0123012*02245501262301*202"  # for A to Z; * is for H and W
    if not text or not ("A" <= text[0].upper() <= "Z") or not text[0].isascii():
        return text
    result, last = text[0].upper(), codes[ord(text[0].upper()) - 65]
    for each in text[1:]:
        letter = each.upper()
        if not ("A" <= letter <= "Z" and len(letter) == 1):
            last = "0"
            continue
        code = codes[ord(letter) - 65]
        if code == "*":
            continue
        if code != "0" and code != last:
            result += code
            if len(result) == 4:
                break
        last = code
    return result.ljust(4, "0")


def overlay(text: str, new: str, start: int, size: int) -> str:
    """Replace `size` characters from position `start` by `new`; if `size` is negative, use the length of `new`."""
    count = len(new) if size < 0 else size
    return _part(text, 1, start - 1) + new + _part(text, start + count, 2**31 - 1)


def overlay_bytes(value: bytes, new: bytes, start: int, size: int) -> bytes:
    """Replace `size` bytes from position `start` by `new`; if `size` is negative, use the length of `new`."""
    count = len(new) if size < 0 else size
    return value[: max(start - 1, 0)] + new + value[max(start + count - 1, 0) :]


def _part(text: str, start: int, size: int) -> str:
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + size, 0)]


def substring_bytes(value: bytes, start: int, size: int) -> bytes:
    """Return `size` bytes from `start`, which counts from 1, or from the end if negative; 0 is the first byte."""
    begin = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    return value[max(begin, 0) : max(begin + size, 0)]


def substring_index(text: str, separator: str, count: int) -> str:
    """Return the text before the `count`th separator, or after it if `count` is negative and counts from the end.

    Returns the whole text with fewer separators, and empty text for a count of 0 or an empty separator.
    """
    if not count or not separator:
        return ""
    at = -1
    if count > 0:
        for _ in range(count):
            at = text.find(separator, at + 1)
            if at < 0:
                return text
        return text[:at]
    at = len(text) - len(separator) + 1
    for _ in range(-count):
        at = text.rfind(separator, 0, max(at - 1 + len(separator), 0)) if at > 0 else -1
        if at < 0:
            return text
    return text[at + len(separator) :]


def split_part(text: str, separator: str, number: int) -> str:
    """Return a part between separators, counted from 1, or from the end if negative; empty if it does not exist.

    Raises `FailedValue` for the number 0.
    """
    if not number:
        raise FailedValue("INVALID_INDEX_OF_ZERO: the number of split_part() must not be 0")
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def translate(text: str, letters: str, others: str) -> str:
    """Replace each of `letters` by the character at its position in `others`, or remove it if `others` is shorter."""
    known: dict[int, str | None] = {}
    for n, each in enumerate(letters):
        known.setdefault(ord(each), others[n] if n < len(others) else None)
    return text.translate(known)


def trim(text: str, letters: str, side: str) -> str:
    """Remove the characters of `letters` from the left end (`side` is `l`), the right end (`r`) or both ends."""
    if not letters:
        return text
    return text.lstrip(letters) if side == "l" else text.rstrip(letters) if side == "r" else text.strip(letters)


def locate(part: str, text: str, start: int) -> int:
    """Return the position of the first `part` in `text` from the position `start` on, from 1; 0 if it is not found."""
    return 0 if start < 1 or start - 1 > len(text) else text.find(part, start - 1) + 1


def pad(value: bytes, size: int, pad: bytes, left: bool) -> bytes:
    """Truncate bytes to the length `size`, or pad them to it with repeated `pad`, on the left or (not `left`) right."""
    size = max(size, 0)
    if len(value) >= size or not pad:
        return value[:size]
    filling = (pad * (size // len(pad) + 1))[: size - len(value)]
    return filling + value if left else value + filling


def luhn_check(text: str) -> bool:
    """Return whether a text consists of digits that satisfy the Luhn algorithm."""
    if not re.fullmatch("[0-9]+", text):
        return False
    total = 0
    for n, each in enumerate(reversed(text)):
        digit = int(each) * (1 + n % 2)
        total += digit - 9 * (digit > 9)
    return total % 10 == 0


def mask(text: str | None, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str | None:
    """Replace each upper-case letter, lower-case letter, digit and other character by the given one.

    A kind of characters whose replacement is None stays. None for a null text.
    """
    if text is None:
        return None
    found = []
    for each in text:
        kind = unicodedata.category(each)
        new = upper if kind == "Lu" else lower if kind == "Ll" else digit if kind == "Nd" else other
        found.append(each if new is None else new)
    return "".join(found)


def quote(text: str) -> str:
    """Put a text in single quotes, with a backslash before inner single quotes."""
    return "'" + text.replace("'", "\\'") + "'"


def str_to_map(text: str, pairs: str, key: str) -> list[tuple[str, str | None]]:
    """Split a text at `pairs` into the entries of a map, and each entry at `key` into a key and a value.

    Both separators are regular expressions. An entry without `key` has the value None. Raises `FailedValue` for
    duplicate keys.
    """
    from lakescan.expressions.scalar.python.patterns import split

    found: dict[str, str | None] = {}
    for each in split(text, pairs, -1):
        parts = split(each, key, 2)
        if parts[0] in found:
            raise FailedValue(f"DUPLICATED_MAP_KEY: the key {parts[0]!r} occurs twice")
        found[parts[0]] = parts[1] if len(parts) > 1 else None
    return list(found.items())


def url_encode(text: str) -> str:
    """Encode a text as `application/x-www-form-urlencoded`."""
    return urllib.parse.quote_plus(text, safe="*-._").replace("~", "%7E")


def url_decode(text: str) -> str:
    """Decode a text in `application/x-www-form-urlencoded`; raises `FailedValue` for an invalid % escape."""
    if re.search("%(?![0-9a-fA-F]{2})", text):
        raise FailedValue(f"CANNOT_DECODE_URL: {text!r} is not encoded as a URL")
    return urllib.parse.unquote_plus(text)


def try_url_decode(text: str) -> str | None:
    """Decode a text in `application/x-www-form-urlencoded`; None for an invalid % escape."""
    return None if re.search("%(?![0-9a-fA-F]{2})", text) else urllib.parse.unquote_plus(text)


_URL = re.compile(r"(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?")
_NO_URL = re.compile(r"[\s<>\"{}|\\^`]|%(?![0-9a-fA-F]{2})")


def parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL, such as `HOST`, or with `key` the value of this key in its query.

    None if the URL lacks it, or for an unknown part. Raises `FailedValue` for an invalid URL.
    """
    if _NO_URL.search(url):
        raise FailedValue(f"INVALID_URL: {url!r} is not a URL. try_parse_url returns null for it")
    return try_parse_url(url, part, key)


def try_parse_url(url: str, part: str, key: str | None = None) -> str | None:
    """Return a part of a URL, such as `HOST`, or with `key` the value of this key in its query.

    None if the URL lacks it, for an unknown part, and for an invalid URL.
    """
    found = _URL.fullmatch(url)
    if found is None or _NO_URL.search(url):
        return None
    scheme, authority, path, query, fragment = (found[n] for n in (2, 4, 5, 7, 9))
    user, at, host = (authority or "").rpartition("@")
    if key is not None:
        values = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", query or "") if part == "QUERY" else None
        return values[1] if values else None
    match part:
        case "HOST":
            return re.sub(r":\d*$", "", host) or None
        case "PATH":
            return path
        case "QUERY":
            return query
        case "REF":
            return fragment
        case "PROTOCOL":
            return scheme
        case "FILE":
            return path + (f"?{query}" if query is not None else "")
        case "AUTHORITY":
            return authority
        case "USERINFO":
            return user if at else None
    return None


_CHARSETS = {"us-ascii", "iso-8859-1", "utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32"}


def _charset(name: str) -> str:
    if name.lower() not in _CHARSETS:
        raise FailedValue(f"INVALID_PARAMETER_VALUE.CHARSET: {name!r} is not in {', '.join(sorted(_CHARSETS))}")
    return name.lower()


def encode(text: str, charset: str) -> bytes:
    """Encode a text in a charset that Spark supports.

    Raises `FailedValue` for another charset, and for characters that the charset lacks.
    """
    name = _charset(charset)
    try:
        if name == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode("utf-32-be" if name == "utf-32" else name)
    except UnicodeEncodeError as error:
        raise FailedValue(f"MALFORMED_CHARACTER_CODING: {text!r} has characters that {charset} lacks") from error


def decode(value: bytes, charset: str) -> str:
    """Decode bytes in a charset that Spark supports.

    Raises `FailedValue` for another charset, and for invalid bytes.
    """
    name = _charset(charset)
    try:
        if name == "utf-16" and value[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            name = "utf-16-be"
        return value.decode("utf-32-be" if name == "utf-32" else name)
    except UnicodeDecodeError as error:
        raise FailedValue(f"MALFORMED_CHARACTER_CODING: these bytes are not in {charset}") from error


def format_number(value: Any, places: int) -> str | None:
    """Format a number with thousands separators and `places` decimal places, rounded half even.

    None for negative `places`.
    """
    if places < 0:
        return None
    is_double = isinstance(value, float)
    if is_double:
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "∞" if value > 0 else "-∞"
        value = Decimal(repr(value))
    rounded = _round(Decimal(value), places, ROUND_HALF_EVEN)
    text = f"{abs(rounded):,.{places}f}"
    return f"-{text}" if rounded.is_signed() and (rounded or is_double) else text


def _round(value: Decimal, places: int, rounding: str) -> Decimal:
    """Round to `places` decimal places; raises `FailedValue` for more than `_MOST_PLACES`."""
    if places > _MOST_PLACES:
        raise FailedValue(f"a number cannot be formatted with {places:,} decimal places: the limit is {_MOST_PLACES:,}")
    return value.quantize(Decimal(1).scaleb(-places), rounding, _WIDE)


def is_valid_utf8(value: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


_CONVERSION = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


@type_factory
def format_string(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., str | None]:
    """Return the function of values for `format_string(form, ...)`, which formats as Java's `String.format` does.

    `kinds` are the types of the arguments. The function raises `FailedValue` for a conversion that does not fit its
    value or is not supported.
    """
    bits = [8 << t.INTEGRAL.index(kind) if kind in t.INTEGRAL else 64 for kind in kinds[1:]]
    return lambda form, *args: None if form is None else _format_values(form, args, bits)


def _format_values(form: str, args: Sequence[Any], bits: Sequence[int]) -> str:
    place = 0

    def one(found: re.Match[str]) -> str:
        nonlocal place
        number, flags, width, precision, kind = found.groups()
        if kind == "%":
            return "%"
        if kind == "n":
            return "\n"
        if number is not None:
            at = int(number) - 1
        else:
            at, place = place, place + 1
        if at >= len(args):
            raise FailedValue(f"the format {form!r} has more parts than there are values")
        text = _format_value(args[at], flags, width, precision, kind, form, bits[at])
        if width is not None and len(text) < int(width):
            text = text.ljust(int(width)) if "-" in flags else text.rjust(int(width))
        return text

    return _CONVERSION.sub(one, form)


def _format_value(
    value: Any, flags: str, width: str | None, precision: str | None, kind: str, form: str, bits: int
) -> str:
    if kind in "sS":
        if isinstance(value, bool):
            text = str(value).lower()
        else:
            text = "null" if value is None else double_text(value) if isinstance(value, float) else str(value)
        text = text if precision is None else text[: int(precision)]
        return text.upper() if kind == "S" else text
    if value is None:
        return "null" if precision is None else "null"[: int(precision)]
    if kind == "b":
        return str(value if isinstance(value, bool) else True).lower()
    if kind == "c":
        return chr(value) if isinstance(value, int) else str(value)
    if kind in "xXo" and isinstance(value, int):
        text = f"{value & (2**bits - 1):{'x' if kind in 'xX' else 'o'}}" if value < 0 else f"{value:{kind.lower()}}"
        text = f"0x{text}" if "#" in flags and kind in "xX" else text
        text = text.upper() if kind == "X" else text
        return text.rjust(int(width), "0") if "0" in flags and width else text
    if kind == "d" and isinstance(value, int) and not isinstance(value, bool):
        return _add_sign(f"{abs(value):,}" if "," in flags else str(abs(value)), value < 0, flags, width)
    if kind in "feE" and isinstance(value, float | Decimal):
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        places = 6 if precision is None else int(precision)
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        if kind == "f":
            rounded = _round(exact.copy_abs(), places, ROUND_HALF_UP)
            return _add_sign(f"{rounded:,f}" if "," in flags else f"{rounded:f}", exact.is_signed(), flags, width)
        text = f"{exact.copy_abs():.{places}e}"
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}e{exponent[0]}{exponent[1:].rjust(2, '0')}"
        return _add_sign(text.upper() if kind == "E" else text, exact.is_signed(), flags, width)
    raise FailedValue(f"the format {form!r} does not fit the value {value!r}")


def _add_sign(digits: str, negative: bool, flags: str, width: str | None) -> str:
    if negative and "(" in flags:
        return f"({digits})"
    sign = "-" if negative else "+" if "+" in flags else " " if " " in flags else ""
    if "0" in flags and width:
        digits = digits.rjust(int(width) - len(sign), "0")
    return sign + digits


@type_factory
def nested_as_text(kinds: Sequence[t.Type], result: t.Type) -> Callable[[Any], str]:
    """Return the function of values for the cast of a list, map or struct to a string: `[1, 2]`, `{a -> 1}`, `{1, a}`.

    `kinds` has the type of the value.
    """
    return writer_of(kinds[0])


def writer_of(kind: t.Type) -> Callable[[Any], str]:
    """Return a function that formats non-null values of a type as Spark's cast to string does."""
    match kind:
        case t.ListOf():
            element = writer_of(kind.element.type)
            return lambda value: f"[{', '.join('null' if each is None else element(each) for each in value)}]"
        case t.MapOf():
            key, item = writer_of(kind.key.type), writer_of(kind.value.type)

            def write_map(value: list[tuple[Any, Any]]) -> str:
                listed = (f"{key(k)} -> {'null' if v is None else item(v)}" for k, v in value)
                return f"{{{', '.join(listed)}}}"

            return write_map
        case t.Struct():
            named = zip(member_names(kind), kind.fields, strict=True)
            members = [(name, writer_of(each.type)) for name, each in named]

            def write_struct(value: dict[str, Any]) -> str:
                listed = ("null" if value[name] is None else write(value[name]) for name, write in members)
                return f"{{{', '.join(listed)}}}"

            return write_struct
        case t.Timestamp():
            return casts.timestamp_as_text
        case t.Decimal():
            return casts.decimal_as_text
        case t.DATE:
            return casts.date_as_text
        case t.BINARY:
            return casts.binary_as_text
        case t.DOUBLE:
            return double_text
        case t.FLOAT:
            return float_text
        case t.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Interval():
            return _interval_writer(kind)
    return str


@type_factory
def interval_as_text(kinds: Sequence[t.Type], result: t.Type) -> Callable[[int], str]:
    """Return the function of values for the cast of an interval to a string: `INTERVAL '1-2' YEAR TO MONTH`.

    `kinds` has the interval type.
    """
    return writer_of(kinds[0])


def _interval_writer(kind: Interval) -> Callable[[int], str]:
    first, last = kind.first.upper(), kind.last.upper()
    name = first if first == last else f"{first} TO {last}"

    def write_months(value: int) -> str:
        sign, rest = ("-", -value) if value < 0 else ("", value)
        text = f"{rest // 12}" if last == "YEAR" else f"{rest}" if first == "MONTH" else f"{rest // 12}-{rest % 12}"
        return f"INTERVAL '{sign}{text}' {name}"

    def write_times(value: int) -> str:
        sign, rest = ("-", -value) if value < 0 else ("", value)
        seconds, fraction = divmod(rest, 1_000_000)
        sizes = {"DAY": 86_400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1}
        units = list(sizes)[list(sizes).index(first) : list(sizes).index(last) + 1]
        parts = []
        for n, unit in enumerate(units):
            number, seconds = divmod(seconds, sizes[unit])
            parts.append(f"{number:02}" if n or unit != "DAY" else str(number))
        text = f"{parts[0]} {':'.join(parts[1:])}" if first == "DAY" and len(parts) > 1 else ":".join(parts)
        if last == "SECOND" and fraction:
            text = f"{text}.{fraction:06}".rstrip("0")
        return f"INTERVAL '{sign}{text}' {name}"

    return write_months if kind.has_months else write_times
