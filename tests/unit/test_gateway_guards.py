"""What a request's head decides."""

import pytest

from termal.gateway.guards import BODY_BYTES, Guards, read_head, readable_query
from termal.wire.errors import InvalidRequest, TermalError

GUARDS = Guards("127.0.0.1", 8787)
JSON = {"content-type": "application/json", "content-length": "2"}


def outcome(method: str, headers: dict[str, str], guards: Guards = GUARDS) -> int:
    """The status that the head is refused with, 0 when it is admitted."""
    named = {"host": "127.0.0.1:8787", **headers}
    head = read_head(method, [(name.encode(), value.encode()) for name, value in named.items() if value])
    try:
        guards.admit(head)
    except TermalError as error:
        return error.status
    return 0


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8787", "localhost:8787", "LOCALHOST", "[::1]:8787", "127.0.0.1", "localhost:9000"]
)
def test_a_loopback_host_is_ours(host: str) -> None:
    assert outcome("GET", {"host": host}) == 0


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8787", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost:8787x"],
)
def test_any_other_host_is_refused(host: str) -> None:
    assert outcome("GET", {"host": host}) == 403


def test_the_host_and_port_that_the_daemon_is_bound_to_are_ours_and_other_ports_of_it_are_not() -> None:
    guards = Guards("192.0.2.7", 9000)
    assert outcome("GET", {"host": "192.0.2.7:9000"}, guards) == 0
    assert outcome("GET", {"host": "192.0.2.7:9001"}, guards) == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8787", 0),
        ("http://localhost:8787", 0),
        ("http://LOCALHOST:8787", 0),
        ("https://127.0.0.1:8787", 403),
        ("http://localhost:3000", 403),
        ("http://evil.example", 403),
        ("null", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_only_our_own_pages_may_ask(method: str, origin: str, status: int) -> None:
    assert outcome(method, {"origin": origin}) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 0, id="no body needs no type"),
        pytest.param({"content-length": "0"}, 0, id="an empty body needs no type"),
        pytest.param(JSON, 0, id="json"),
        pytest.param({**JSON, "content-type": "Application/JSON; charset=utf-8"}, 0, id="json with a parameter"),
        pytest.param({**JSON, "content-type": "text/plain"}, 415, id="text"),
        pytest.param({**JSON, "content-type": "application/jsonp"}, 415, id="a longer name"),
        pytest.param({**JSON, "content-type": ""}, 415, id="no type"),
        pytest.param({**JSON, "content-encoding": "gzip"}, 415, id="compressed"),
        pytest.param({"transfer-encoding": "chunked"}, 415, id="chunked without a type"),
        pytest.param({"transfer-encoding": "chunked", "content-type": "application/json"}, 0, id="chunked"),
        pytest.param({**JSON, "content-length": str(BODY_BYTES)}, 0, id="just short enough"),
        pytest.param({**JSON, "content-length": str(BODY_BYTES + 1)}, 413, id="too long"),
        pytest.param({**JSON, "content-length": "9" * 40}, 413, id="absurdly long"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_carries_json_of_a_limited_size_or_nothing(method: str, headers: dict[str, str], status: int) -> None:
    assert outcome(method, headers) == status


def test_a_method_nobody_knows_is_not_allowed() -> None:
    assert outcome("BREW", {}) == 405


def test_a_query_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        readable_query(b"before=\xff")
