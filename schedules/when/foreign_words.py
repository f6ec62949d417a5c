"""German and Spanish words for times, with their English translations: phrases are parsed in English only."""

import re
import unicodedata

# Replaced first, because their words mean something else on their own.
_PHRASES = {
    "pasado manana": "the day after tomorrow",
    "dentro de": "in",
    "por la manana": "in the morning",
    "de la manana": "in the morning",
    "por la tarde": "in the afternoon",
    "de la tarde": "in the afternoon",
    "por la noche": "in the evening",
    "de la noche": "in the evening",
    "esta noche": "tonight",
    "heute abend": "today evening",
    "heute nacht": "tonight",
    "morgen frueh": "tomorrow morning",
    "morgen fruh": "tomorrow morning",
    "jeden morgen": "every morning",
    "jeden abend": "every evening",
    "am morgen": "in the morning",
    "am abend": "in the evening",
    "cada manana": "every morning",
    "cada noche": "every evening",
    "todos los dias": "every day",
    "todos los": "every",
    "todas las": "every",
    "dias laborables": "weekday",
    "a las": "at",
    "a la": "at",
    "el proximo": "next",
    "la proxima": "next",
}
_TEXT = """
    uhr: um:at am: im:in der: den: alle:every jede:every jeden:every jedes:every jeder:every taglich:daily taeglich:daily
    stundlich:hourly stuendlich:hourly wochentlich:weekly woechentlich:weekly monatlich:monthly heute:today
    morgen:tomorrow ubermorgen:the_day_after_tomorrow uebermorgen:the_day_after_tomorrow gestern:yesterday
    morgens:in_the_morning abends:in_the_evening nachmittags:in_the_afternoon mittags:at_noon mitternacht:midnight
    sekunden:seconds sekunde:second minuten:minutes minute:minute stunde:hour stunden:hours tag:day tage:days tagen:days
    woche:week wochen:weeks monat:month monate:months monaten:months jahr:year jahre:years jahren:years
    werktag:weekday werktags:every_weekday wochentag:weekday wochenende:weekend und:and von:from bis:to nachsten:next
    naechsten:next nachste:next montag:monday dienstag:tuesday mittwoch:wednesday donnerstag:thursday freitag:friday
    samstag:saturday sonntag:sunday montags:mondays dienstags:tuesdays mittwochs:wednesdays donnerstags:thursdays
    freitags:fridays samstags:saturdays sonntags:sundays januar:january februar:february marz:march maerz:march mai:may
    juni:june juli:july oktober:october dezember:december eine:a einer:a einem:a ein:a zwei:two drei:three vier:four
    funf:five fuenf:five sechs:six sieben:seven acht:eight neun:nine zehn:ten zwanzig:twenty dreissig:thirty

    en:in el: los: las: de: del: cada:every hoy:today manana:tomorrow ayer:yesterday diario:daily diariamente:daily
    mediodia:noon medianoche:midnight segundo:second segundos:seconds minuto:minute minutos:minutes hora:hour horas:hours
    dia:day dias:days semana:week semanas:weeks mes:month meses:months ano:year anos:years y:and lunes:monday
    martes:tuesday miercoles:wednesday jueves:thursday viernes:friday sabado:saturday sabados:saturday domingo:sunday
    domingos:sunday enero:january febrero:february marzo:march abril:april mayo:may junio:june julio:july agosto:august
    septiembre:september octubre:october noviembre:november diciembre:december una:a un:a dos:two tres:three cuatro:four
    cinco:five seis:six siete:seven ocho:eight nueve:nine diez:ten veinte:twenty treinta:thirty
"""
_WORDS = {
    foreign: english.replace("_", " ")
    for foreign, english in (entry.split(":") for entry in " ".join(_TEXT.split()).split(" "))
}


# The words of these phrases, except single letters, which other languages have, too.
_IN_PHRASES = {word for phrase in _PHRASES for word in phrase.split() if len(word) > 1}


def has_known_words(text: str) -> bool:
    """Return whether every word with non-English letters is a known German or Spanish word."""
    foreign = [word for word in re.findall(r"[^\W\d_]+", text) if not word.isascii()]
    return all(_plain(word) in _WORDS.keys() | _IN_PHRASES for word in foreign)


def _plain(text: str) -> str:
    """Return a text in lower case without accents."""
    letters = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(each for each in letters if not unicodedata.combining(each))


def in_english(text: str) -> str:
    """Return a text with its German and Spanish words in English; the others stay as they are."""
    phrase = " ".join(_plain(text).split())
    for foreign, english in _PHRASES.items():
        phrase = re.sub(rf"\b{foreign}\b", english, phrase)
    # "24. dezember"
    phrase = re.sub(r"(\d)\. (?=[a-z])", r"\1 ", phrase)
    translated = [_WORDS.get(word, word) for word in re.findall(r"[a-z]+|[^a-z\s]+", phrase)]
    return re.sub(r"(?<=\d) ?([:.,/-]) ?(?=\d)", r"\1", " ".join(filter(None, translated)))
