"""Orderings name columns: Django replaces a bare relation by the ordering of its model, newest first or not."""

import ast
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps

PROJECT = Path(__file__).resolve().parents[2]
RELATIONS = {
    field.name
    for model in apps.get_app_config("schedules").get_models()
    for field in model._meta.get_fields()
    if field.related_model and field.related_model._meta.ordering
}


def test_no_ordering_follows_a_relation():
    files = sorted((PROJECT / "schedules").rglob("*.py"))

    followed = [
        f"{path.relative_to(PROJECT)}:{line}: {text}"
        for path in files
        for line, text in followed_in(path.read_text())
    ]

    assert len(files) > 300
    assert {"execution", "job"} <= RELATIONS
    assert followed == []


def followed_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the relations that the orderings of a file name, with their lines."""
    tree = ast.parse(source)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for part in _orderings(tree):
        names = [node.id for node in ast.walk(part) if isinstance(node, ast.Name)]
        for tree_part in (part, *(constants[name] for name in names if name in constants)):
            for node in ast.walk(tree_part):
                if (
                    isinstance(node, ast.Constant)
                    and str(node.value).lstrip("-").split("__")[-1] in RELATIONS
                ):
                    yield node.lineno, node.value


def _orderings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the arguments of calls that order rows, and the values of `ordering`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
            "order_by",
            "latest",
            "earliest",
        ):
            yield from node.args
        elif isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == [
            "ordering"
        ]:
            yield node.value
