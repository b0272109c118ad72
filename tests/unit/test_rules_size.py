"""What is too large for one message or one reply, and what is kept of it."""

from termal.rules.size import KEPT_CHARACTERS, OUTPUT_CHARACTERS, REPLY_BYTES, fitting, shortened


def test_output_keeps_its_start_and_its_end() -> None:
    assert shortened("x" * OUTPUT_CHARACTERS) == "x" * OUTPUT_CHARACTERS
    cut = shortened("a" * KEPT_CHARACTERS + "b" * OUTPUT_CHARACTERS + "c" * KEPT_CHARACTERS)
    assert cut.startswith("a" * KEPT_CHARACTERS)
    assert cut.endswith("c" * KEPT_CHARACTERS)
    assert f"{OUTPUT_CHARACTERS} characters left out" in cut


def test_a_reply_carries_what_fits_from_the_side_that_is_asked_for() -> None:
    third = REPLY_BYTES // 3
    assert fitting([third, third, third], "end") == slice(0, 3)
    assert fitting([third, third, third, third], "end") == slice(1, 4)
    assert fitting([third, third, third, third], "start") == slice(0, 3)
    assert fitting([1, REPLY_BYTES + 1], "end") == slice(1, 2)
    assert fitting([REPLY_BYTES + 1, 1], "start") == slice(0, 1)
    assert fitting([], "start") == slice(0, 0)
