"""A search that takes too long ends by itself, and lines of an import have a limit."""

from pathlib import Path

import pytest

from termal.gateway.lines import Lines
from termal.gateway.refusal import BodyTooLarge
from termal.store.connection import open_reader, open_writer
from termal.store.time_limit import time_limit
from termal.wire.errors import Busy

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


def test_a_query_without_end_is_cut_off_and_the_connection_is_as_before(home_dir: Path) -> None:
    open_writer(home_dir / "x.sqlite", durability="normal").close()
    connection = open_reader(home_dir / "x.sqlite")
    with pytest.raises(Busy) as cut_off, time_limit(connection, 0.02):
        connection.execute(ENDLESS).fetchall()
    assert (cut_off.value.code, cut_off.value.reason) == ("no_mutation_attempted", "timeLimit")
    assert connection.execute("SELECT 1").get == 1
    connection.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_are_the_same_in_whatever_pieces_they_come(size: int) -> None:
    text = "one\n\U0001f600 two\n\nthree\nrest".encode()
    lines = Lines()
    found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]
    assert found == [b"one", "\U0001f600 two".encode(), b"", b"three"]
    assert (lines.number, lines.ended) == (4, False)
    assert lines.feed(b"\n") == [b"rest"]
    assert lines.ended


@pytest.mark.parametrize("pieces", [[b"123456"], [b"123", b"456"], [b"1\n123456\n"], [b"1\n12345", b"6\n"]])
def test_a_line_above_the_limit_is_refused_as_soon_as_it_is(pieces: list[bytes]) -> None:
    lines = Lines(5)
    for piece in pieces[:-1]:
        lines.feed(piece)
    with pytest.raises(BodyTooLarge):
        lines.feed(pieces[-1])
