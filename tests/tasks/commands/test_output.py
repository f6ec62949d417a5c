"""The output of a command: whole characters, no secrets, beginning and end."""

import json
from functools import partial

import pytest

from schedules.limits import clean_output
from schedules.secrets.masking import MASK
from schedules.tasks.commands.output import MAX_HEAD, MAX_TAIL, KeptOutput

RED, END = b"\x1b[31m", b"\x1b[0m"
SECRET = "s3cret/Wört+er"


def kept(*pieces: bytes, characters: int = 1000, secrets: tuple[str, ...] = ()) -> KeptOutput:
    output = KeptOutput(characters, secrets)
    for piece in pieces:
        output.add(1, piece)
    output.finish()
    return output


def test_characters_may_come_in_pieces_and_need_not_be_text():
    output = kept("Grüße".encode()[:3], "Grüße".encode()[3:], b"\xff\x00\x1b[31mred\x1b[0m\r\nend\r")

    assert output.text.head == "Grüße\ufffdred\nend\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_sequences_and_line_ends_may_come_in_pieces(size):
    data = b"\x1b[31mred\x1b[0m one\r\n\x1b]0;title\x07two\r\n50 %\r100 %"

    output = kept(*(data[start : start + size] for start in range(0, len(data), size)))

    assert output.text.head == "red one\ntwo\n50 %\n100 %"


def test_sequence_that_never_ends_is_not_held_back_for_ever():
    output = KeptOutput(1000)

    output.add(1, b"\x1b]0;" + b"x" * 400)

    assert output.text.position > 0


def test_long_output_keeps_its_beginning_and_its_end():
    output = kept(*(f"{number:04}\n".encode() for number in range(1000)), characters=100)

    text = output.text
    assert text.head == "0000\n0001\n0002\n0003\n0004\n"
    assert text.tail.endswith("0998\n0999\n")
    assert len(text.tail) == 75
    assert text.position == 5000


def test_what_the_guard_left_out_counts_and_ends_the_beginning():
    output = KeptOutput(1000)
    output.add(1, b"begin\n")
    output.skip(1, 1_000_000)
    output.add(2, b"end\n")
    output.finish()

    assert output.text == ("begin\n", "end\n", 1_000_010, ())
    assert output.last_lines == "end"


@pytest.mark.parametrize("size", [1, 3, 5, 100])
def test_secret_is_masked_however_it_is_cut_into_pieces(size):
    data = f"before {SECRET} after {SECRET}{SECRET}!".encode()

    output = kept(*(data[at : at + size] for at in range(0, len(data), size)), secrets=(SECRET,))

    assert output.text.head == f"before {MASK} after {MASK}{MASK}!"


def test_secret_that_begins_like_another_is_masked_however_it_is_cut():
    for text, shown in [
        ("key=prod-production end", f"key={MASK} end"),
        ("key=prod end", f"key={MASK} end"),
        ("abcababcabx", f"{MASK}{MASK}x"),
    ]:
        for size in [1, 3, 4, 100]:
            data = text.encode()

            output = kept(
                *(data[start : start + size] for start in range(0, len(data), size)),
                secrets=("prod", "prod-production", "abcab"),
            )

            assert output.text.head == shown


def test_secret_is_masked_as_part_of_an_address_and_line_by_line():
    key = "first line of it\nsecond line"

    output = kept(b"s3cret%2FW%C3%B6rt%2Ber second line, first line of it", secrets=(SECRET, key))

    assert output.text.head == f"{MASK} {MASK}, {MASK}"


@pytest.mark.parametrize(
    "dumps", [json.dumps, partial(json.dumps, ensure_ascii=False)], ids=["ascii", "utf-8"]
)
@pytest.mark.parametrize("slash", ["/", r"\/"])
def test_secret_is_masked_as_part_of_json(dumps, slash):
    secret = 'pa"ss\\wörd/9\n'

    output = kept(dumps({"key": secret}).replace("/", slash).encode(), secrets=(secret,))

    assert output.text.head == f'{{"key": "{MASK}"}}'


def test_halves_of_a_secret_beside_a_gap_are_not_kept():
    output = KeptOutput(1000, [SECRET])
    output.add(1, b"begin " + SECRET.encode()[:6])
    output.skip(1, 50)
    output.add(1, SECRET.encode()[6:] + b" and very much more text")
    output.finish()

    assert output.text.head == "begin "
    assert "rt+er" not in output.text.tail
    assert output.text.tail.endswith("more text")


def test_gap_in_the_output_takes_nothing_from_the_error_output():
    output = KeptOutput(1000, [SECRET])
    output.add(2, b"fatal: ")
    output.skip(1, 50)
    output.add(2, b"disk full")
    output.finish()

    assert output.last_lines == "fatal: disk full"


def test_secret_is_masked_without_what_is_removed_within_it():
    for hidden in [b"\x1b[01;31m\x1b[K", b"\x1b]0;title\x07", b"\0", "\u200b".encode()]:
        for size in [1, 3, 5, 100]:
            data = b"conf: pass" + hidden + b"word123\n"

            output = kept(
                *(data[at : at + size] for at in range(0, len(data), size)), secrets=("password123",)
            )

            assert output.text.head == f"conf: {MASK}\n"


def test_secret_with_characters_that_are_removed_is_masked():
    output = kept(b"pass\x07word-9 and first\r\nsecond", secrets=("pass\x07word-9", "first\r\nsecond"))

    assert output.text.head == f"{MASK} and {MASK}"


@pytest.mark.parametrize(
    "secret", ["a\u200bbcd", " abcd ", "a\x1b[31mbcd", '"\u200b\\ab', "first\u200b\nline"]
)
def test_short_secret_is_masked_without_its_invisible_characters(secret):
    plain, as_json = (
        clean_output(secret).strip(),
        json.dumps(clean_output(secret).strip(), ensure_ascii=False),
    )

    output = kept(f"token={plain}; {as_json}".encode(), secrets=(secret,))

    assert output.text.head == f'token={MASK}; "{MASK}"'


def test_line_of_a_secret_is_masked_without_its_invisible_characters():
    output = kept("first\u200b-line".encode(), secrets=("first\u200b-line\nsecond",))

    assert output.text.head == MASK


def test_colour_within_a_secret_beside_a_gap_keeps_nothing_of_it():
    output = KeptOutput(1000, ["password123"])
    output.skip(1, 50)
    output.add(1, b"\x1b[31mword\x1b[0m123 and more text")
    output.finish()

    assert output.text.tail == "d more text"


def test_text_that_cannot_be_a_secret_is_not_held_back():
    output = KeptOutput(1000, [SECRET])
    output.add(1, b"Password: ")

    assert output.text.head == "Password: "


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
    assert len(positions) == MAX_HEAD + MAX_TAIL


def test_other_sequences_are_no_colours():
    assert kept(b"\x1b[2K\x1b[1Aup\x1b]0;title\x07").text.colours == ()
