"""Names that look like the name of another active job of the same owner, although they differ."""

# ruff: noqa: RUF001

import functools
import re
import unicodedata

from schedules import limits
from schedules.models import Job
from schedules.services.actors import Actor
from schedules.services.duplicates import SimilarJob

# The newest jobs are compared; more than the default quota of active jobs.
MOST_NAMES = 2000

# Small letters, because capital ones look alike too and are compared as small ones.
_ALIKE = {
    "a": "аαɑ",
    "b": "вβь",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еєεҽ",
    "g": "ɡց",
    "h": "нһηհ",
    "j": "јϳ",
    "k": "кκ",
    "l": "1i|ıіιӏ",
    "m": "мμ",
    "n": "νոп",
    "o": "0оοօ",
    "p": "рρ",
    "q": "ԛգ",
    "s": "ѕ",
    "t": "тτ",
    "u": "սυ",
    "w": "ԝω",
    "x": "хχ",
    "y": "уүγ",
    "z": "ζ",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "'": "\u2018\u2019\u02bc`´",
}
# The joiners and selectors that a name may contain.
_INVISIBLE = re.compile("[\u200c\u200d\ufe0e\ufe0f\u180b-\u180f]")
_LETTERS = str.maketrans({other: letter for letter, others in _ALIKE.items() for other in others})


def look_alike(actor: Actor, job: Job) -> SimilarJob | None:
    """Return an active job of the owner with another name that looks like this job's, or None."""
    wanted = skeleton(job.name)
    # Unordered, because the database would read every job of the owner to sort them.
    others = actor.jobs().filter(owner=job.owner_id, status__in=Job.ACTIVE).order_by()
    # Every create reads all names: nothing else, and no conditions that Python checks faster.
    for name in others.values_list("name", flat=True)[:MOST_NAMES]:
        if name != job.name and skeleton(name) == wanted:
            public_id = others.filter(name=name).values_list("public_id", flat=True).first()
            return SimilarJob(public_id, name) if public_id else None
    return None


@functools.lru_cache(maxsize=4096)
def skeleton(name: str) -> str:
    """Reduce a name to what it looks like: names with equal skeletons are easily taken for each other."""
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", limits.strip_unprintable(name)))
    words = " ".join(visible.casefold().translate(_LETTERS).split())
    return words.replace("rn", "m").replace("vv", "w")
