"""Numbers as people read them."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def as_size(size_bytes: float) -> str:
    """``1.5 MiB``."""
    value, unit = float(size_bytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def as_duration(seconds: float) -> str:
    """The two largest parts: ``3 d 4 h``, ``12 min 5 s``, ``0.4 s``."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next(index for index, part in enumerate(parts) if part[0])
    return " ".join(f"{value} {unit}" for value, unit in parts[first : first + 2] if value)


def as_count(number: int, one: str, many: str = "") -> str:
    """``1 session``, ``2 sessions``."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
