"""Format numbers, durations, counts and texts for people."""

import math
from collections.abc import Iterable
from typing import Any


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """Format a measured number briefly; None and NaN are a dash, and zero has no sign.

    >>> (
    ...     number(0.123456),
    ...     number(231.44),
    ...     number(12345.6),
    ...     number(3e-05),
    ...     number(float("nan")),
    ...     number(9999.96),
    ...     number(2.0, sign="+"),
    ...     number(-0.0),
    ... )
    ('0.1235', '231.4', '12,346', '3e-05', '–', '10,000', '+2', '0')
    """
    if value is None or value != value:
        return "–"
    if not value:
        return "0"
    large = 10**digits - 0.5 <= abs(value) < 1e9  # Also what is rounded up to 10**digits.
    return f"{value:{sign},.0f}" if large else f"{value:{sign}.{digits}g}"


def rounded(value: float, digits: int = 9) -> float | None:
    """Round a number for a page; None if it is not finite, since JSON has no NaN.

    >>> rounded(0.123456789123), rounded(float("nan"))
    (0.123456789, None)
    """
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def setting(value: Any, length: int = 20) -> str:
    """Format a hyperparameter's value briefly, on one line.

    >>> setting(0.000312345), setting(16), setting("adam"), setting(None), setting("a\\nb"), setting("x" * 30)
    ('0.000312', '16', 'adam', 'None', 'a b', 'xxxxxxxxxxxxxxxxxxx…')
    """
    return first_line(printable(f"{value:.3g}" if isinstance(value, float) else str(value)), length)


def printable(text: str) -> str:
    """Replace control characters, such as line ends and escape codes, by spaces.

    >>> printable("a\\x1b[31mb")
    'a [31mb'
    """
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def visible(text: str) -> str:
    r"""Escape the characters that are not printable, except line ends and tabs.

    >>> visible("a\x1b[31mb\nc\udc80")
    'a\\x1b[31mb\nc\\udc80'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def duration(seconds: float) -> str:
    """Format a duration for reading.

    >>> duration(0.0213), duration(3.21), duration(45.3), duration(72)
    ('21 ms', '3.2 s', '45 s', '1:12')
    """
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.{1 if seconds < 9.95 else 0}f} s" if seconds < 59.5 else clock(seconds)


def clock(seconds: float) -> str:
    """Format a duration as a clock shows it.

    >>> clock(7.5), clock(72), clock(3720), clock(200_000)
    ('0:07', '1:12', '1:02:00', '2 d 7:33')
    """
    whole = int(seconds)
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if days:
        return f"{days} d {hours}:{minutes:02}"
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def age(seconds: float) -> str:
    """Format a duration roughly, in one unit.

    >>> age(3), age(600), age(7300), age(400_000)
    ('3 s', '10 min', '2 h', '5 d')
    """
    for unit, length, next_one in (("s", 1, 100), ("min", 60, 100 * 60), ("h", 3600, 48 * 3600)):
        if seconds < next_one:
            return f"{max(0.0, seconds) / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, singular or plural.

    >>> counted(1, "member"), counted(1000, "member"), counted(2, "is", "are")
    ('1 member', '1,000 members', '2 are')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def first_line(text: str, length: int = 200) -> str:
    """Return the first line of a text, shortened to `length` characters.

    >>> first_line("ValueError: bad\\nTraceback")
    'ValueError: bad'
    """
    line = printable((text.strip().splitlines() or [""])[0])
    return line if len(line) <= length else f"{line[: length - 1]}…"


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return the end of an error message that names the closest known name; empty if none is close.

    >>> suggestion("PB2Mix", ["pbt", "pb2-mix"]), suggestion("lr", ["LR", "epochs"]), suggestion("adam", ["pbt"])
    ("; did you mean 'pb2-mix'?", "; did you mean 'LR'?", '')
    """
    from difflib import get_close_matches

    names = {each.lower(): each for each in known}
    close = [names[each] for each in get_close_matches(str(name).lower(), list(names), n=1, cutoff=0.7)]
    return f"; did you mean {close[0]!r}?" if close else ""


def error_text(error: BaseException) -> str:
    """Return the message of an exception, even if its `__str__` raises.

    >>> error_text(ValueError("the loss exploded"))
    'the loss exploded'
    """
    try:
        return str(error)
    except BaseException as failure:
        return f"(its text cannot be read: {type(failure).__name__})"


def storable(text: str) -> str:
    r"""Return the text with lone surrogates escaped, so that UTF-8 can encode it.

    >>> storable("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
