"""Files taken away under an open database: noticed, and what it held is saved."""

from pathlib import Path

import pytest

from termal.store.connection import open_reader, open_writer
from termal.store.presence import Presence, put_back


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_missing_file_is_noticed_and_everything_committed_is_put_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "some.sqlite"
    writer = open_writer(path, durability="normal")
    writer.execute("CREATE TABLE items (number INTEGER)")
    presence = Presence(path)
    writer.execute("INSERT INTO items VALUES (7)")
    assert not presence.lost()
    path.with_name(path.name + suffix).unlink()
    assert presence.lost()
    assert not presence.replaced
    assert put_back(writer, path, replaced=False) == path
    writer.close()
    reader = open_reader(path)
    assert reader.execute("SELECT number FROM items").fetchall() == [(7,)]
    reader.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_stands_in_its_place_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite"
    writer = open_writer(path, durability="normal")
    writer.execute("CREATE TABLE items (number INTEGER)")
    presence = Presence(path)
    other = tmp_path / "other"
    other.write_text("somebody's")
    other.replace(path)
    assert presence.lost()
    assert presence.replaced
    saved = put_back(writer, path, replaced=True)
    writer.close()
    assert saved.name == "some.sqlite.replaced"
    assert path.read_text() == "somebody's"
