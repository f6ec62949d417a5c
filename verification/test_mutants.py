"""Every planted bug still fits today's source; `make mutants` shows that the campaign catches them."""

import shutil
from pathlib import Path

import pytest

from verification.mutants import MUTANTS, PROJECT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_applies_to_the_source_and_compiles(mutant: Mutant, tmp_path: Path):
    copy = tmp_path / mutant.path
    copy.parent.mkdir(parents=True)
    shutil.copy(PROJECT / mutant.path, copy)

    mutant.plant(tmp_path)

    assert copy.read_text() != (PROJECT / mutant.path).read_text()


def test_mutant_whose_text_is_gone_is_refused(tmp_path: Path):
    (tmp_path / "file.py").write_text("one = 1\n")

    with pytest.raises(LookupError, match="has 0 times"):
        Mutant("gone", "file.py", [("two", "three")]).plant(tmp_path)
