"""How people of six languages write times, as an agent passes them on, and when each is meant.

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
        ("Remind me Friday, 6 PM.", "Friday, 6 PM", "2026-02-06T18:00"),
        ("Remind me on Feb 5 at 9 AM.", "Feb 5 at 9 AM", "2026-02-05T09:00"),
        ("Remind me on the 24th of December at 6 pm.", "24th of December at 6 pm", "2026-12-24T18:00"),
        ("Remind me tomorrow evening.", "tomorrow evening", "2026-02-05T18:00"),
        ("Remind me in an hour and a half.", "in an hour and a half", "2026-02-04T13:30"),
        ("Remind me tomorrow at noon.", "tomorrow at noon", "2026-02-05T12:00"),
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
        ("Erinnere mich am 5.2. um 9:00.", "5.2. 9:00", "2026-02-05T09:00"),
        ("Erinnere mich morgen um 9.30.", "tomorrow 9.30", "2026-02-05T09:30"),
    ),
    *_habits(
        "German",
        ("Erinnere mich morgen um 9 Uhr.", "morgen um 9 Uhr", "2026-02-05T09:00"),
        ("Erinnere mich übermorgen um 8:00.", "übermorgen um 8:00", "2026-02-06T08:00"),
        ("Erinnere mich in 20 Minuten.", "in 20 Minuten", "2026-02-04T12:20"),
        ("Erinnere mich heute um 18 Uhr.", "heute um 18 Uhr", "2026-02-04T18:00"),
        ("Erinnere mich am Freitag um 10 Uhr.", "am Freitag um 10 Uhr", "2026-02-06T10:00"),
        ("Erinnere mich am 5. Februar um 9 Uhr.", "5. Februar 2026 um 9 Uhr", "2026-02-05T09:00"),
        ("Erinnere mich jeden Tag um 8 Uhr.", "jeden Tag um 8 Uhr", "0 8 * * *"),
        ("Erinnere mich montags um 7:15.", "montags um 7:15", "15 7 * * 1"),
        cured=True,
    ),
    *_habits(
        "Spanish",
        ("Recuérdame mañana a las 9.", "mañana a las 9", "2026-02-05T09:00"),
        ("Recuérdame el viernes a las 10.", "el viernes a las 10", "2026-02-06T10:00"),
        ("Recuérdame el jueves a las 18:00.", "jueves a las 18:00", "2026-02-05T18:00"),
        ("Recuérdame dentro de 2 horas.", "dentro de 2 horas", "2026-02-04T14:00"),
        ("Recuérdame en 20 minutos.", "en 20 minutos", "2026-02-04T12:20"),
        ("Recuérdame el 5 de febrero a las 9.", "5 de febrero a las 9", "2026-02-05T09:00"),
        ("Recuérdame el viernes a las 8 de la tarde.", "viernes a las 8 de la tarde", "2026-02-06T20:00"),
        ("Recuérdame el 24/12/2026 a las 18:00.", "24/12/2026 18:00", "2026-12-24T18:00"),
        ("Recuérdame todos los días a las 7.", "todos los días a las 7", "0 7 * * *"),
        cured=True,
    ),
    *_habits(
        "French",
        ("Rappelle-moi demain à 9 h.", "tomorrow at 9am", "2026-02-05T09:00"),
        ("Rappelle-moi le 5 février à 9 h.", "5 February 9:00", "2026-02-05T09:00"),
        ("Rappelle-moi dans une demi-heure.", "in half an hour", "2026-02-04T12:30"),
    ),
    *_habits(
        "French",
        ("Rappelle-moi demain à 15h30.", "tomorrow 15h30", "2026-02-05T15:30"),
        ("Rappelle-moi vendredi à 10h.", "friday at 10h", "2026-02-06T10:00"),
        ("Rappelle-moi le 13/2/2026 à 9:00.", "13/2/2026 9:00", "2026-02-13T09:00"),
        cured=True,
    ),
    *_habits(
        "Japanese",
        ("明日の9時に知らせて。", "2026-02-05 09:00", "2026-02-05T09:00"),
        ("今夜9時に知らせて。", "today at 21:00", "2026-02-04T21:00"),
        ("30分後に知らせて。", "in 30 minutes", "2026-02-04T12:30"),
    ),
    *_habits(
        "Japanese",
        ("2026/02/05 9:00 に知らせて。", "2026/02/05 9:00", "2026-02-05T09:00"),
        ("2026/2/6 18:30 に知らせて。", "2026/2/6 18:30", "2026-02-06T18:30"),
        cured=True,
    ),
    *_habits(
        "Swedish",
        ("Påminn mig 2026-02-05 kl. 9.", "2026-02-05 09:00", "2026-02-05T09:00"),
        ("Påminn mig 2026-02-06 kl. 18.30.", "2026-02-06 18.30", "2026-02-06T18:30"),
        ("Påminn mig imorgon kl. 21.", "tomorrow at 21:00", "2026-02-05T21:00"),
        ("Påminn mig om en timme.", "in an hour", "2026-02-04T13:00"),
    ),
)
