"""Pages, tools, API, admin and terminal ask the services for jobs, runs and events, and build no query of their own."""

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
DOORS = ("schedules/web", "schedules/mcp", "schedules/api", "schedules/admin", "cronty_site")
MODELS = ("Job", "Execution", "Event")
MANAGERS = ("objects", "_default_manager")
# What an actor sees: a door may look up one job by its id, or hand all of them to a service.
SEEN = ("jobs", "executions", "trash", "restorable")
ALLOWED = ("find",)
CONDITIONS = ("filter", "exclude", "order_by")


def test_doors_build_no_query_of_jobs_runs_or_events():
    files = [path for door in DOORS for path in sorted((PROJECT / door).rglob("*.py"))]

    queries = [
        f"{path.relative_to(PROJECT)}:{line}: {problem}"
        for path in files
        for line, problem in queries_in(path.read_text(), is_admin="admin" in path.parts)
    ]

    assert len(files) > 100
    assert queries == []


def queries_in(source: str, *, is_admin: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of every query of jobs, runs and events; the admin's own lists are filtered by Django."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own_lists = [node for node in functions if is_admin and node.name == "get_queryset"]
    allowed = {id(node) for function in own_lists for node in ast.walk(function)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in allowed:
            continue
        inner = node.value
        if node.attr in MANAGERS and (name := _last_name(inner)) in MODELS:
            yield node.lineno, f"{name}.{node.attr}"
        elif isinstance(inner, ast.Call) and _last_name(inner.func) in SEEN and node.attr not in ALLOWED:
            yield node.lineno, f"{_last_name(inner.func)}().{node.attr}"
        elif node.attr in CONDITIONS and not is_admin and not _has_manager(inner):
            yield node.lineno, f"{_last_name(inner)}.{node.attr}"


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=inner) | ast.Call(func=inner):
            return _last_name(inner)
    return ""


def _has_manager(node: ast.AST) -> bool:
    """Return whether a chain of calls begins at the manager of a model; those of jobs, runs and events are refused."""
    return any(isinstance(each, ast.Attribute) and each.attr in MANAGERS for each in ast.walk(node))
