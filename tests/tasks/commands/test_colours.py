"""The colours of an output: found, moved with what is masked, and bounded."""

import pytest

from schedules.secrets.masking import MASK
from schedules.tasks.commands import colours
from schedules.tasks.commands.output import KeptOutput

RED, END = b"\x1b[31m", b"\x1b[0m"


def kept(*pieces: bytes, characters: int = 1000, secrets: tuple[str, ...] = ()) -> KeptOutput:
    output = KeptOutput(characters, secrets)
    for piece in pieces:
        output.add(1, piece)
    output.finish()
    return output


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_colours_keep_their_place_whatever_the_pieces(size: int):
    data = b"ok " + RED + b"bad" + END + b"\r\nnext \x1b[1;32mgood\x1b[m"

    output = kept(*(data[start : start + size] for start in range(0, len(data), size)))

    assert output.text.head == "ok bad\nnext good"
    assert output.text.colours == ((3, "31"), (6, "0"), (12, "1;32"), (16, ""))


@pytest.mark.parametrize("size", [1, 4, 100])
def test_colours_around_and_within_a_secret_show_nothing_of_it(size: int):
    data = b"a " + RED + b"sec" + END + b"ret9 b" + RED + b"c"

    output = kept(*(data[start : start + size] for start in range(0, len(data), size)), secrets=("secret9",))

    assert output.text.head == f"a {MASK} bc"
    assert output.text.colours == ((2, "31"), (2, "0"), (4 + len(MASK), "31"))


def test_colours_of_a_second_stream_follow_what_was_printed_before():
    output = KeptOutput(1000)
    output.add(1, b"out\n")
    output.add(2, RED + b"error")

    assert output.text.colours == ((4, "31"),)


def test_number_of_colours_is_bounded():
    output = KeptOutput(100)
    output.add(1, b"".join(RED + b"x" for _ in range(5000)))

    positions = [position for position, _ in output.text.colours]
    assert positions[0] == 0
    assert positions[-1] == 4999
    assert len(positions) == colours.MAX_HEAD + colours.MAX_TAIL


def test_other_sequences_are_no_colours():
    assert kept(b"\x1b[2K\x1b[1Aup\x1b]0;title\x07").text.colours == ()
