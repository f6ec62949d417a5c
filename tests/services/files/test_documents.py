"""YAML with places: what is read, and what is refused with its line and column."""

import pytest

from schedules.services.files import documents
from schedules.services.files.documents import DocumentError, parse_document


def value_of(text: str) -> object:
    node = parse_document(text, "x.yaml")
    return node.plain() if node else None


def test_plain_values_are_read_as_json_has_them():
    for text, value in [
        ("", None),
        ("# nothing\n", None),
        ("a: 1\nb: [x, 2.5, true, null, ~, '3']", {"a": 1, "b": ["x", 2.5, True, None, None, "3"]}),
        (
            "a: on\nb: no\nc: 8:30\nd: 012\ne: 1e3\nf: 0x1F",
            {"a": "on", "b": "no", "c": "8:30", "d": "012", "e": "1e3", "f": "0x1F"},
        ),
        ("a: 2026-12-24T18:00", {"a": "2026-12-24T18:00"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("1: x", {"1": "x"}),
        ("\ufeffa: 1", {"a": 1}),
        ("a: " + "9" * 40, {"a": "9" * 40}),
    ]:
        assert value_of(text) == value


def test_everything_else_is_refused_with_its_place():
    for text, complaint in [
        ("a: &x [1]\nb: *x", "x.yaml:1:4: anchors (&x)"),
        ("b: *x", "x.yaml:1:4: aliases (*x)"),
        ("<<: {a: 1}\n<<: {b: 2}", "x.yaml:2:1: '<<' is given twice; the first is in line 1"),
        ("a:\n  b: 1\n  b: 2", "x.yaml:3:3: 'b' is given twice; the first is in line 2"),
        ("a: !!python/object/apply:os.system [id]", "x.yaml:1:4: tags"),
        ("a: !secret x", "x.yaml:1:4: tags"),
        ("a: 1\n---\nb: 2", "x.yaml:2:1: write one document per file"),
        ("a: [1, 2", "x.yaml:2:1: this is not YAML"),
        ("a: b: c", "x.yaml:1:5: this is not YAML"),
        ("a: 1\n\tb: 2", "x.yaml:2:1: this is not YAML"),
        ("[a, b]: 1", "x.yaml:1:1: a key must be a text"),
        ("ab: x\x07y", "x.yaml:1:"),
        ("a: " + "[" * 21 + "]" * 21, "x.yaml:1:23: nested too deeply"),
        ("[" * 100_000, "x.yaml:1:21: nested too deeply"),
    ]:
        with pytest.raises(DocumentError) as refused:
            parse_document(text, "x.yaml")

        assert str(refused.value).startswith(complaint)


def test_bomb_is_refused_before_it_grows():
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )

    with pytest.raises(DocumentError, match="anchors"):
        parse_document(bomb, "x.yaml")


def test_large_file_is_refused(monkeypatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 100)

    with pytest.raises(DocumentError, match="larger than 100 bytes"):
        parse_document("a: " + "x" * 100, "x.yaml")
