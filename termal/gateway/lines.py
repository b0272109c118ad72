"""Lines of JSON as they come in, in whatever pieces: whole lines out, none longer than a limit, nothing else kept."""

from termal.gateway.refusal import BodyTooLarge

NDJSON = "application/x-ndjson"
LINE_BYTES = 16 << 20


class Lines:
    """``ended``: what came last ended with a line."""

    def __init__(self, limit_bytes: int = LINE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()
        self.number = 0

    @property
    def ended(self) -> bool:
        return not self._rest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` ends, without their line ends. Raises `BodyTooLarge`."""
        first, *others = chunk.split(b"\n")
        self._rest += first
        self._check(len(self._rest))
        if not others:
            return []
        lines = [bytes(self._rest), *others[:-1]]
        for line in lines:
            self._check(len(line))
        self._rest = bytearray(others[-1])
        self.number += len(lines)
        return lines

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            raise BodyTooLarge(
                f"line {self.number + 1} is longer than {self._limit_bytes >> 20} MiB", reason="importLine"
            )
