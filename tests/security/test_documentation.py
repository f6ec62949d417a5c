"""Claims of docs/explanation/security.md: the tests it names exist, dependencies are pinned, suppressions have reasons."""

import re

from tests.clusters import PROJECT

DOCUMENT = PROJECT / "docs/explanation/security.md"


def test_every_test_that_the_document_names_exists():
    named = re.findall(r"`((?:tests|verification)/[\w/]+\.py)::(test_\w+)`", DOCUMENT.read_text())

    assert len(named) > 30
    for path, name in named:
        assert re.search(rf"^(async )?def {name}\(", (PROJECT / path).read_text(), re.MULTILINE), (
            f"{path}::{name}"
        )


def test_every_threat_has_a_test():
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")][2:]

    assert len(rows) > 13
    assert [row.split("|")[1] for row in rows if "::test_" not in row] == []


def test_every_dependency_is_pinned_with_a_hash():
    for name in ("requirements.txt", "requirements-dev.txt"):
        entries = re.split(r"\n(?=\S)", (PROJECT / name).read_text().strip())

        assert len(entries) > 20
        for entry in entries:
            assert re.match(r"[\w.\[\],-]+==\S+", entry), entry[:80]
            assert "--hash=sha256:" in entry, entry[:80]


def test_every_suppressed_finding_has_a_reason_beside_it():
    files = [*PROJECT.glob("schedules/**/*.py"), *PROJECT.glob("cronty_site/**/*.py")]
    bare, count = [], 0
    for file in files:
        comment_before = False
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if found := re.search(r"# (?:noqa|nosec)\b", line):
                count += 1
                codes = re.sub(r"# (?:noqa|nosec):?|[A-Z]+[0-9]+|[\s,]", "", line[found.start() :])
                if not codes and not comment_before:
                    bare.append(f"{file.relative_to(PROJECT)}:{number}")
            else:
                comment_before = line.lstrip().startswith("#")

    assert count > 30
    assert bare == []
