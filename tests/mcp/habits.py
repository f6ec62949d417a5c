"""How people of five languages write times, as an agent passes them on, and when each is meant.

It is Wednesday, 4 February 2026, 12:00 in Berlin. The agent sees nothing but the list of tools: it sends what it was
told, and if that is refused, once more with what the error proposes.
"""

from typing import NamedTuple


class Habit(NamedTuple):
    """What a person says, the time in it as they write it, and the moment or the cron expression that it means."""

    language: str
    says: str
    text: str
    means: str
    is_cured: bool = False
    """Whether the first call is refused, and the second one right."""

    @property
    def repeats(self) -> bool:
        return self.means.count(" ") == 4


def _habits(language: str, *rows: tuple[str, str, str], cured: bool = False) -> tuple[Habit, ...]:
    return tuple(Habit(language, *row, is_cured=cured) for row in rows)


HABITS = (
    *_habits(
        "English",
        ("Remind me tomorrow at 3 p.m.", "tomorrow at 3 p.m.", "2026-02-05T15:00"),
        ("Remind me on the 24th of December at 6 pm.", "24th of December at 6 pm", "2026-12-24T18:00"),
        ("Remind me tomorrow evening.", "tomorrow evening", "2026-02-05T18:00"),
        ("Remind me in an hour and a half.", "in an hour and a half", "2026-02-04T13:30"),
        ("Tonight, remind me of the keys.", "tonight", "2026-02-04T20:00"),
    ),
    *_habits(
        "English",
        ("Remind me on 12/24/2026 at 6pm.", "12/24/2026 6pm", "2026-12-24T18:00"),
        ("Remind me on 24/12/2026 at 18:00.", "24/12/2026 18:00", "2026-12-24T18:00"),
        ("Remind me in 20 minuts.", "in 20 minuts", "2026-02-04T12:20"),
        ("Every weekday at 8:30 am, remind me of the stand-up.", "every weekday at 8:30 am", "30 8 * * 1-5"),
        cured=True,
    ),
    *_habits(
        "German",
        ("Erinnere mich am 24.12.2026 um 18:00.", "24.12.2026 18:00", "2026-12-24T18:00"),
        ("Erinnere mich morgen um 9.30.", "tomorrow 9.30", "2026-02-05T09:30"),
    ),
    *_habits(
        "French",
        ("Rappelle-moi demain à 9 h.", "tomorrow at 9am", "2026-02-05T09:00"),
        ("Rappelle-moi dans une demi-heure.", "in half an hour", "2026-02-04T12:30"),
    ),
    *_habits(
        "French",
        ("Rappelle-moi demain à 15h30.", "tomorrow 15h30", "2026-02-05T15:30"),
        ("Rappelle-moi le 13/2/2026 à 9:00.", "13/2/2026 9:00", "2026-02-13T09:00"),
        cured=True,
    ),
    *_habits(
        "Japanese",
        ("明日の9時に知らせて。", "2026-02-05 09:00", "2026-02-05T09:00"),
    ),
    *_habits(
        "Japanese",
        ("2026/02/05 9:00 に知らせて。", "2026/02/05 9:00", "2026-02-05T09:00"),
        cured=True,
    ),
    *_habits(
        "Swedish",
        ("Påminn mig 2026-02-05 kl. 9.", "2026-02-05 09:00", "2026-02-05T09:00"),
        ("Påminn mig 2026-02-06 kl. 18.30.", "2026-02-06 18.30", "2026-02-06T18:30"),
    ),
)
