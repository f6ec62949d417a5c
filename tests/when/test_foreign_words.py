"""German and Spanish phrases are refused with the English one, which is then understood."""

import re
from datetime import UTC, datetime

import pytest

from schedules.when.phrases import PhraseError, parse_moment
from schedules.when.repeats import parse_trigger

NOW = datetime(2026, 2, 4, 11, tzinfo=UTC)
MOMENTS = {
    "morgen um 9": "tomorrow at 9",
    "übermorgen um 9 Uhr": "the day after tomorrow at 9",
    "in 20 Minuten": "in 20 minutes",
    "heute abend um 8": "today evening at 8",
    "am 24. Dezember um 18 Uhr": "24 december at 18",
    "mañana a las 9": "tomorrow at 9",
    "el lunes a las 9": "monday at 9",
    "en 20 minutos": "in 20 minutes",
    "mañana a las 9 de la noche": "tomorrow at 9 in the evening",
}
REPEATS = {
    "jeden Tag um 8": "every day at 8",
    "jeden Werktag um 8:30": "every weekday at 8:30",
    "täglich um 7": "daily at 7",
    "todos los días a las 9": "every day at 9",
    "cada 2 horas": "every 2 hours",
}


@pytest.mark.parametrize(("phrase", "english"), MOMENTS.items())
def test_moment_in_another_language_is_refused_with_the_english_one(phrase, english):
    assert refused(parse_moment, phrase) == english
    assert parse_moment(english, now=NOW, timezone="Europe/Berlin") > NOW


@pytest.mark.parametrize(("phrase", "english"), REPEATS.items())
def test_repeating_schedule_in_another_language_is_refused_with_the_english_one(phrase, english):
    assert refused(parse_trigger, phrase) == english
    assert parse_trigger(english, now=NOW, timezone="Europe/Berlin")


def refused(parse, phrase):
    with pytest.raises(PhraseError) as raised:
        parse(phrase, now=NOW, timezone="Europe/Berlin")
    found = re.search(r'write it in English: "(.+)"', str(raised.value))
    assert found, raised.value
    return found[1]


def test_other_letters_are_refused_without_a_guess():
    with pytest.raises(PhraseError, match="use English letters"):
        parse_moment("明日9時", now=NOW, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("phrase", "meant"),
    [("in 20 minuts", "in 20 minutes"), ("in 1 minuts", "in 1 minute"), ("in 3 wekes", "in 3 weeks")],
)
def test_corrected_unit_agrees_with_its_number(phrase, meant):
    with pytest.raises(PhraseError, match=f'Did you mean "{meant}"'):
        parse_moment(phrase, now=NOW, timezone="UTC")


def test_times_of_the_sun_are_refused_with_what_to_send_instead():
    with pytest.raises(
        PhraseError, match=r'clock times only: look up the time of sunset.*"tomorrow at 18:30"'
    ):
        parse_moment("today at sunset", now=NOW, timezone="UTC")


@pytest.mark.parametrize("text", ["demain à 9h", "amanhã às 9", "明日9時"])
def test_words_of_other_languages_get_examples_instead_of_a_wrong_translation(text):
    with pytest.raises(PhraseError, match=r'use English letters.*Try "tomorrow at 9am"'):
        parse_moment(text, now=NOW, timezone="Europe/Berlin")
