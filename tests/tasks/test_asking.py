"""What a notification may ask for, read from a text."""

from datetime import timedelta

import pytest

from schedules.tasks.asking import Ask, read_ask

TEN = timedelta(minutes=10)


def test_text_is_read():
    for text, ask in [
        ("yes", Ask()),
        ("Yes", Ask()),
        ("every 10m", Ask(TEN, 10)),
        ("every 10 minutes", Ask(TEN, 10)),
        ("Every 10m, at most 5 times", Ask(TEN, 5)),
        ("every ten minutes 1 time", Ask(TEN, 1)),
        ("every hour", Ask(timedelta(hours=1), 10)),
        ("every 1h30m 3 times, then boss-phone", Ask(timedelta(minutes=90), 3, "boss-phone")),
        ("every half an hour then x", Ask(timedelta(minutes=30), 10, "x")),
        ("every 10m then channel:phone", Ask(TEN, 10, "channel:phone")),
        ("every  10  minutes 5 times, then channel:My Phone", Ask(TEN, 5, "channel:My Phone")),
    ]:
        assert read_ask(text) == ask


def test_refusal_names_the_reason():
    for text, reason in [
        ("", "not understood"),
        ("no", "not understood"),
        ("every", "not understood"),
        ("every blue moon", "interval is not understood"),
        ("every 10s", "from one minute to seven days"),
        ("every 8d", "from one minute to seven days"),
        ("every 10m 0 times", "1 to 100 reminders"),
        ("every 10m 101 times", "1 to 100 reminders"),
        ("every 10m then a/b", "topic"),
        ("every 10m then my phone", "topic"),
        ("every 10m then channel:", "name of a channel"),
        ("every 10m then channel:a/b", "name of a channel"),
        ("every " + "9" * 5000, "not understood"),
    ]:
        with pytest.raises(ValueError, match=reason):
            read_ask(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("yes", "once"),
        ("every 10m 1 time", "every 10 minutes, at most 1 time"),
        ("every 1h 3 times then boss", "every 1 hour, at most 3 times, then boss"),
        ("every 1h 3 times then channel:fax", "every 1 hour, at most 3 times, then the channel fax"),
    ],
)
def test_ask_in_words(text, words):
    assert read_ask(text).words == words


def test_last_step_goes_to_the_other_topic():
    steps = [read_ask(text).steps for text in ("yes", "every 10m 5 times", "every 10m 5 times then boss")]

    assert steps == [0, 5, 6]
