"""Statements that are made all the time: Django writes their SQL once, then they are only given other values.

The tables answer a look-up by key in the thirtieth part of the time that Django needs to put its SQL together, and an
agent waits for both. PostgreSQL plans them once, too: with the plan at hand, it answers in a quarter of the time.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg.adapt
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.models import Expression, Func, IntegerField, QuerySet, query
from django.db.models.sql import InsertQuery
from django.db.models.sql.compiler import SQLCompiler

PLANNED_AFTER = 5
Row = TypeVar("Row")
# What Django makes rows with; its types are published for a later release.
_django: Any = query


class Given(Expression):
    """A value that is known only when the query is asked, and never null; a moment or duration names its field."""

    def __init__(self, name: str, field: models.Field[Any, Any] | None = None) -> None:
        super().__init__(output_field=field)
        self.name = name
        self.stored_as = field

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]

    def stored(self, value: Any, connection: Any) -> Any:
        """Write the value as the database wants it."""
        return self.stored_as.get_db_prep_value(value, connection) if self.stored_as else value


class _Written(NamedTuple):
    """A query as SQL, and what makes of its rows what the queryset would."""

    sql: str
    parameters: tuple[Any, ...]
    converters: list[tuple[int, Callable[..., Any], Any]]
    make: Callable[[list[Any]], Any]


class Prepared(Generic[Row]):
    """A query with gaps, to be asked with a value for each."""

    def __init__(self, build: Callable[[], QuerySet[Any, Row]], *, keeps_plan: bool = True) -> None:
        # Not built yet: that would need every model, and this may be made while they are being loaded.
        self._build = build
        self._written: _Written | None = None
        self._keeps_plan = keeps_plan

    def all(self, **values: Any) -> list[Row]:
        written = self._written = self._written or _write(self._build())
        connection = connections[DEFAULT_DB_ALIAS]
        filled = [
            part.stored(values[part.name], connection) if isinstance(part, Given) else part
            for part in written.parameters
        ]
        rows = []
        for row in map(list, fetch(written.sql, filled, keeps_plan=self._keeps_plan)):
            for position, convert, expression in written.converters:
                row[position] = convert(row[position], expression, connection)
            rows.append(written.make(row))
        return rows

    def first(self, **values: Any) -> Row | None:
        return next(iter(self.all(**values)), None)


def counted() -> Func:
    """Count rows as a column, which unlike `count()` leaves the query open to be prepared."""
    return Func(template="COUNT(*)", output_field=IntegerField())


def insert(instance: models.Model) -> None:
    """Store a new row, as `save(force_insert=True)` would; there are no listeners to its signals."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields, sql = _insertion(type(instance))
    values = [field.get_db_prep_save(field.pre_save(instance, add=True), connection) for field in fields]
    [[instance.pk]] = fetch(sql, values)
    instance._state.adding, instance._state.db = False, DEFAULT_DB_ALIAS


def fetch(sql: str, values: Sequence[Any], *, keeps_plan: bool = True) -> list[Sequence[Any]]:
    """Make a statement and return its rows; PostgreSQL keeps its plan, which must suit whatever values are given."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    keeps_plan = keeps_plan and _can_keep_plans(connection)
    with _planning_cursor(connection) if keeps_plan else connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[Sequence[Any]] = cursor.fetchall()
    return rows


def _can_keep_plans(connection: Any) -> bool:
    # Server-side cursors are given up behind a pooler that hands connections round: plans would stay behind in each.
    # And whoever has statements logged wants to read them with their values.
    is_pooled = connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]
    return connection.vendor == "postgresql" and not is_pooled and not connection.queries_logged


def _planning_cursor(connection: Any) -> Any:
    """Open a cursor that sends the values beside the statement, as Django's never do."""
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    driver = connection.connection
    if driver.prepare_threshold is None:
        driver.prepare_threshold = PLANNED_AFTER
        driver.adapters.register_loader("timestamptz", _Moments)
    return connection.make_cursor(psycopg.Cursor(driver))


class _Moments(psycopg.adapt.Loader):
    """Reads moments from PostgreSQL's text, in UTC; Django's own loader takes ten times as long."""

    # Django looks whether it is the connection's.
    timezone = UTC

    def load(self, data: Any) -> datetime:
        return datetime.fromisoformat(str(data, "ascii"))


@cache
def _insertion(model: type[models.Model]) -> tuple[list[models.Field[Any, Any]], str]:
    fields = [field for field in model._meta.local_concrete_fields if not field.primary_key]
    insertion = InsertQuery(model)
    insertion.insert_values(fields, [model()])
    compiler: Any = insertion.get_compiler(DEFAULT_DB_ALIAS)
    compiler.returning_fields = [model._meta.pk]
    [(sql, _)] = compiler.as_sql()
    return fields, sql


def _write(queryset: QuerySet[Any, Any]) -> _Written:
    compiler: SQLCompiler = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
    sql, parameters = compiler.as_sql()
    columns: list[Any] = [column for column, *_ in compiler.select]
    converters = compiler.get_converters(columns)
    # SQLite keeps moments as text; elsewhere there is nothing to convert.
    slow = getattr(compiler.connection.ops, "convert_datetimefield_value", None)
    return _Written(
        sql,
        tuple(parameters),
        [
            (position, _moment if convert == slow else convert, expression)
            for position, (functions, expression) in converters.items()
            for convert in functions
        ],
        _maker(queryset, compiler),
    )


def _moment(value: str | None, expression: Any, connection: Any) -> datetime | None:
    """Read a moment as SQLite has it, in UTC; Django's own converter takes six times as long."""
    return None if value is None else datetime.fromisoformat(f"{value}+00:00")


def _maker(queryset: Any, compiler: Any) -> Any:
    """Return what turns a row into what the queryset yields."""
    if queryset._iterable_class is _django.FlatValuesListIterable:
        return itemgetter(0)
    if queryset._iterable_class is _django.NamedValuesListIterable:
        return _django.create_namedtuple_class(*queryset._fields)._make
    if queryset._iterable_class is _django.ValuesListIterable:
        return tuple
    assert queryset._iterable_class is _django.ModelIterable
    model, fields = compiler.klass_info["model"], compiler.klass_info["select_fields"]
    own = slice(fields[0], fields[-1] + 1)
    names = [column.target.attname for column, *_ in compiler.select[own]]
    related = _django.get_related_populators(compiler.klass_info, compiler.select, DEFAULT_DB_ALIAS)
    annotations = compiler.annotation_col_map or {}

    def make(row: list[Any]) -> Any:
        instance = model.from_db(DEFAULT_DB_ALIAS, names, row[own])
        for populator in related:
            populator.populate(row, instance)
        for name, position in annotations.items():
            setattr(instance, name, row[position])
        return instance

    return make
