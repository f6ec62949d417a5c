"""Random ranges such as 0~30 of some cron programs: one value is chosen when a crontab is imported."""

import hashlib

from schedules.when.cron import FIELDS, CronError, Field


def choose_values(expression: str, seed: str) -> str:
    """Replace each random range such as 0~30 by one of its values, always the same for the same seed.

    Raises CronError for a range that is wrong.
    """
    values = expression.split(" ")
    if "~" not in expression or len(values) != len(FIELDS):
        return expression
    return " ".join(
        ",".join(_choose(field, term, f"{field.name} {expression} {seed}") for term in value.split(","))
        for field, value in zip(FIELDS, values, strict=True)
    )


def _choose(field: Field, term: str, seed: str) -> str:
    low, separator, high = term.upper().partition("~")
    if not separator:
        return term
    # A missing end is the end of the field, without 7, which is Sunday again.
    first = field.number(low) if low else field.low
    last = field.number(high) if high else field.low + field.size - 1
    if first > last:
        raise CronError(f'the range "{term}" runs backwards: write the smaller value first')
    digest = hashlib.sha256(seed.encode()).digest()
    return str(first + int.from_bytes(digest[:8]) % (last - first + 1))
