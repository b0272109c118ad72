"""What a rule says of a request that it does not allow. A worker turns these into the errors of the wire.

::

    Refused
    ├── Bad        the value can never be accepted
    ├── Malformed  it does not even have the form of one
    ├── Unbuilt    well-formed, and not built yet
    ├── Barred     a guard or a policy says no
    ├── Stale      the world moved
    └── Missing    there is no such thing
"""


class Refused(Exception):
    """``reason`` is the exact rule's word where one is needed."""

    def __init__(self, text: str, *, reason: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.reason = reason


class Bad(Refused):
    pass


class Stale(Refused):
    pass


class Missing(Refused):
    pass


class Malformed(Refused):
    pass


class Unbuilt(Refused):
    pass


class Barred(Refused):
    pass
