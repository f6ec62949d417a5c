"""Queries that are asked all the time: Django writes them once, then they are only given other values."""

from collections.abc import Callable
from copy import copy
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Expression, Field, Func, IntegerField, QuerySet
from django.db.models.sql.compiler import SQLCompiler

Row = TypeVar("Row")


class Given(Expression):
    """A value that is known only when the query is asked, and never null; a moment or duration names its field."""

    def __init__(self, name: str, field: Field[Any, Any] | None = None) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.kept_as = field

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        return "%s", [self]

    def stored(self, value: Any, connection: Any) -> Any:
        """Write the value as the database wants it."""
        return self.kept_as.get_db_prep_value(value, connection) if self.kept_as else value


class Prepared(Generic[Row]):
    """A query with gaps.

    The tables answer a look-up by key in the thirtieth part of the time that Django needs to put its SQL together,
    and an agent waits for both.
    """

    def __init__(self, build: Callable[[], QuerySet[Any, Row]]) -> None:
        # Not built yet: that would need every model, and this is made while they are being loaded.
        self._build = build
        self._written: tuple[QuerySet[Any, Row], SQLCompiler, str, tuple[Any, ...]] | None = None

    def all(self, **values: Any) -> list[Row]:
        """Ask for the rows, with a value for every gap."""
        connection = connections[DEFAULT_DB_ALIAS]
        queryset, compiler, sql, parameters = self._written or self._write(connection)
        filled = tuple(
            part.stored(values[part.name], connection) if isinstance(part, Given) else part
            for part in parameters
        )
        # A compiler and a query of our own, because threads share the written ones.
        bound: Any = copy(compiler)
        bound.connection = connection
        bound.as_sql = lambda: (sql, filled)
        asked: Any = queryset.all()
        asked.query.get_compiler = lambda *args, **options: bound
        return list(asked)

    def first(self, **values: Any) -> Row | None:
        return next(iter(self.all(**values)), None)

    def _write(self, connection: Any) -> tuple[QuerySet[Any, Row], SQLCompiler, str, tuple[Any, ...]]:
        queryset = self._build()
        compiler = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
        sql, parameters = compiler.as_sql()
        self._written = queryset, compiler, sql, tuple(parameters)
        return self._written


def counted() -> Func:
    """Count rows as a column, which unlike `count()` leaves the query open to be prepared."""
    return Func(template="COUNT(*)", output_field=IntegerField())
