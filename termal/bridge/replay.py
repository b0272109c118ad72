"""When a request that is safe to repeat is sent again, and after how long. Pure: no clock, no randomness."""

ATTEMPTS = 5
BASE_MS = 200
"""Before the first repeat; doubled for each further one."""
SPARE_S = 2.0
"""A repeat needs more than this after its delay, or it would only be cut off."""
BUSY_CODES = frozenset({"no_write_committed", "no_mutation_attempted", "original_append_durable"})
"""Said by the daemon only where it is true by construction that a repeat of the identical request does no harm."""
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


def delay_ms(session_id: str, attempt: int) -> float:
    """The wait after failure number ``attempt`` (from 1), spread so that sessions do not come back in step."""
    return BASE_MS * (1 << (attempt - 1)) * percent(session_id, attempt) / 100


def percent(session_id: str, attempt: int) -> int:
    """75 to 125, the same for the same session and attempt."""
    return 75 + _fnv1a(session_id.encode() + attempt.to_bytes(4, "little")) % 51


def is_busy(status: int | None, code: str | None) -> bool:
    return status == 503 and code in BUSY_CODES


def may_repeat(attempt: int, left_s: float, delay_s: float) -> bool:
    """Whether there is a repeat after failure number ``attempt`` with ``left_s`` seconds of the whole time left."""
    return attempt < ATTEMPTS and left_s > delay_s + SPARE_S


def _fnv1a(data: bytes) -> int:
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value
