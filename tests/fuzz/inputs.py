"""Generators of valid, broken and hostile schedule inputs; the same seed gives the same inputs."""

import json
import math
import random
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

VECTORS = Path(__file__).parent.parent / "when" / "data" / "cron_vectors.jsonl"
EXPRESSIONS = [json.loads(line)["cron"] for line in VECTORS.read_text().splitlines()]
EXPRESSIONS += ["@daily", "@HOURLY", "0 9 L * *", "0 17 * * 5L", "0 10 * * 1#2", "0 0 29 2 *", "0 0 29 2 */2"]
ZONES = sorted(available_timezones() - {"Factory", "localtime"})

MOMENTS = [
    "tomorrow at 9am",
    "in 20 minutes",
    "next friday 17:30",
    "friday at noon",
    "2026-12-24 18:00",
    "2027-03-28 02:30",
    "2026-12-24T18:00:00.5+02:00",
    "dec 24 6pm",
    "tonight at 8",
    "in 3 days at 14:00",
    "the day after tomorrow at noon",
    "24.12.2026 18:00",
    "in an hour and a half",
    "9 a.m. tomorrow",
    "december 24, 2027 at 6pm",
    "the 24th of december at 6pm",
    "in 1 day, 2 hours and 5 minutes",
    "yesterday at 9:00",
    "2 days and 3 hours ago",
    "last sunday 18:00",
]
RHYTHMS = [
    "every weekday at 8:30",
    "every 15 minutes",
    "every 2h30m",
    "hourly",
    "mondays and thursdays at 7pm",
    "first of every month at 6am",
    "every month on the 15th at 10:00",
    "every year on december 24 at 18:00",
    "last friday of the month at 17:00",
    "first monday of the month at 10:00",
    "on the last day of each month at 9am",
    "every day at 9am and 5pm",
    "every monday, wednesday and friday at 9, 13 and 17",
    "weekends at 10am",
    "every half hour",
    "twice a day",
    "every other day at 8am",
]
PHRASES = MOMENTS + RHYTHMS + EXPRESSIONS[-20:]
# As much as any interface accepts: the web takes a megabyte, the tools a quarter of it.
MOST_CHARACTERS = 1_000_000
DELAYS = ["1d2h30m10s", "2h30m", "90m", "45s", "365d", "1830d", "1831d", "01:30:00", "P1DT2H", "3 days"]
WORDS = sorted({word for phrase in MOMENTS + RHYTHMS for word in phrase.split()} | {"half", "second", "each"})

NUMBERS = [
    "0",
    "00",
    "1",
    "7",
    "23",
    "24",
    "31",
    "59",
    "60",
    "99999999999999999999",
    "9" * 4400,
    "-1",
    "1e3",
    "0x1F",
]
# Digits of other scripts, look-alikes, joiners, writing direction, NUL, half a surrogate pair, emoji.
ODD = "٢५９²½①Οоеаｅ‐–—⁄∕、，：\u200b\u200d\u202e\u2066\ufeff\u00a0\u2028\x00\x07\x1b\ud800\U0001f600\U0001f1e9ßİıſ"
SIGNS = "*/,-#LW?@:;+.!'\"()[]{}\\|&%$~^_= \t\n\r"
LETTERS = "abcdeghimnoprstuvwyz0123456789"
JUNK: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    900,
    2**31,
    10**18,
    10**400,
    0.5,
    1e308,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    b"0 9 * * *",
    [],
    ["0 9 * * *"],
    {},
    {"minutes": 15},
]


def text(dice: random.Random, valid: list[str]) -> str:
    """Return a valid text, a slightly changed one, or something quite different."""
    match dice.randrange(12):
        case 0:
            return shuffled(dice)
        case 1:
            return long(dice)
        case 2:
            return "".join(dice.choices(ODD + SIGNS + LETTERS, k=dice.randrange(30)))
        case 3:
            return fields(dice)
        case 4 | 5 | 6:
            return dice.choice(valid)
        case _:
            return mutated(dice, dice.choice(valid))


def anything(dice: random.Random, valid: list[str]) -> Any:
    """Return a text, or sometimes another JSON value, because agents can send any JSON."""
    return dice.choice(JUNK) if dice.random() < 0.1 else text(dice, valid)


def zone(dice: random.Random) -> Any:
    """Return a real zone in most cases, else something that looks like one."""
    return (
        dice.choice(ZONES)
        if dice.random() < 0.8
        else anything(dice, [*ZONES, "../../etc/passwd", "posix/UTC"])
    )


def number(dice: random.Random) -> Any:
    """Return an amount as JSON can carry it."""
    if dice.random() < 0.3:
        return dice.choice(JUNK)
    return dice.choice([dice.randrange(-5, 100), dice.uniform(-1, 100), 10 ** dice.randrange(1, 330)])


def fields(dice: random.Random) -> str:
    """Return about five cron fields by the grammar, with values in range and slightly out of range."""
    return " ".join(
        ",".join(term(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
        for _ in range(dice.choice([4, 5, 5, 5, 5, 6]))
    )


def term(dice: random.Random) -> str:
    low, high = dice.randrange(62), dice.randrange(62)
    return dice.choice(
        [
            *(
                "*",
                "*",
                "*",
                f"*/{low}",
                f"{low}",
                f"{min(low, 12)}",
                f"{low}-{high}",
                f"{low}-{high}/{dice.randrange(9)}",
            ),
            *(
                f"{low % 8}#{high % 7}",
                "L",
                f"{low % 8}L",
                "MON-FRI",
                "jan",
                f"{low}/{high}",
                dice.choice(NUMBERS),
            ),
        ]
    )


def shuffled(dice: random.Random) -> str:
    return dice.choice([" ", " ", ", ", "  "]).join(
        dice.choices(WORDS + NUMBERS[:9], k=dice.randrange(1, 12))
    )


def long(dice: random.Random) -> str:
    """Return a text that repeats one piece many times, which makes careless patterns slow."""
    piece = dice.choice(
        [*WORDS, *NUMBERS, *EXPRESSIONS[:50], "*/5,", "1-", " ,", "1d", "1 a ", "at 9am and ", "#", "/", ODD]
    )
    text = (piece + dice.choice(["", " ", ","])) * dice.choice([3, 10, 50, 1000, 20_000])
    return text[:MOST_CHARACTERS]


def mutated(dice: random.Random, text: str) -> str:
    """Return the text with a few places changed."""
    for _ in range(dice.choice([1, 1, 2, 3])):
        place = dice.randrange(len(text) + 1)
        piece = dice.choice(
            [
                dice.choice(ODD),
                dice.choice(SIGNS),
                dice.choice(LETTERS),
                dice.choice(NUMBERS),
                dice.choice(WORDS),
                " ",
            ]
        )
        match dice.randrange(6):
            case 0:
                text = text[:place] + piece + text[place:]
            case 1:
                text = text[:place] + piece + text[place + 1 :]
            case 2:
                text = text[:place] + text[place + dice.randrange(1, 4) :]
            case 3:
                parts = text.split(" ")
                dice.shuffle(parts)
                text = " ".join(parts)
            case 4:
                text = text.swapcase() if dice.random() < 0.5 else text.replace(" ", piece)
            case _:
                text = (
                    f"{text}{dice.choice([' ', ' and ', ', ', ''])}{dice.choice(MOMENTS + RHYTHMS + DELAYS)}"
                )
    return text


def configuration(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a trigger type and its configuration as an agent sends them."""
    kind = dice.choice(["once", "interval", "cron", text(dice, ["once"])])
    fitting = {
        "once": {"run_at": anything(dice, MOMENTS)},
        "cron": {"expression": anything(dice, EXPRESSIONS)},
        "interval": {
            unit: number(dice)
            for unit in dice.sample(["seconds", "minutes", "hours", "days"], dice.randrange(3))
        },
    }
    config = dict(fitting.get(kind, {}))
    if dice.random() < 0.1:
        config[text(dice, ["weeks", "cron"])] = dice.choice(JUNK)
    return kind, config


def notification(dice: random.Random) -> dict[str, str]:
    """Return the time fields of a notification: usually one valid combination, sometimes two that clash."""
    ways: list[dict[str, str]] = [
        {"datetime": text(dice, MOMENTS)},
        {"delay": text(dice, DELAYS)},
        {"time": text(dice, ["09:00", "9am", "noon", "23:59:59"]), "timezone": ""},
        {"date": text(dice, ["2027-01-31", "24.12.2026", "tomorrow"]), "time": "18:00", "timezone": ""},
    ]
    return dice.choice(ways) | (dice.choice(ways) if dice.random() < 0.1 else {})


def form(dice: random.Random) -> dict[str, str]:
    """Return data as the schedule form posts it."""
    return {
        "when": dice.choice(["phrase", "phrase", "every", "once", "", "never"]),
        "phrase": text(dice, PHRASES),
        "every_count": str(dice.randrange(100)) if dice.random() < 0.5 else text(dice, NUMBERS),
        "every_unit": dice.choice(["seconds", "minutes", "days", "", "years"]),
        "run_at": text(dice, MOMENTS),
        "timezone": str(zone(dice)),
        "ends_at": text(dice, MOMENTS) if dice.random() < 0.2 else "",
    }
