"""Statements that are compiled once and run by the driver itself: what a step and every delivery run.

SQLAlchemy's way through a statement takes several times the processor time of the statement. What is compiled, and how
each value becomes what the driver takes and is made of what it gives, is SQLAlchemy's all the same: one schema and one
spelling for both engines. The connection is in a transaction already (`receiver.adapters.store.database`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, RowMapping
from sqlalchemy.sql.selectable import TypedReturnsRows

Values = Mapping[str, Any]
Row = RowMapping | dict[str, Any]  # by the column's name, whoever read it


class Prepared:
    """A statement in one dialect."""

    def __init__(self, dialect: Dialect, statement: Any, columns: Sequence[str] = ()) -> None:
        """Compile *statement*; an INSERT of values of *columns* of its table."""
        compiled = statement.compile(dialect=dialect, column_keys=columns or None)
        assert not compiled.post_compile_params, "what is compiled once has no IN (...) that grows with its values"
        self.sql = str(compiled)
        self._by_name = compiled.positiontup is None  # how the driver binds
        self._bound: list[tuple[str, Callable[[Any], Any] | None]] = []
        self._fixed: dict[str, Any] = {}  # what the statement says itself
        for name in compiled.positiontup or compiled.params:
            bind = compiled.binds[name]
            make = bind.type.dialect_impl(dialect).bind_processor(dialect)
            self._bound.append((name, make))
            if not bind.required:
                self._fixed[name] = compiled.params[name]

    def bind(self, values: Values) -> Any:
        """*values* as the driver binds them."""
        given = {**self._fixed, **values} if self._fixed else values
        if self._by_name:
            return {name: given[name] if make is None else make(given[name]) for name, make in self._bound}
        return [given[name] if make is None else make(given[name]) for name, make in self._bound]

    def run(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it for each of *values*. Raises what the driver raises."""
        cursor = connection.connection.cursor()
        try:
            if len(values) == 1:
                cursor.execute(self.sql, self.bind(values[0]))
            else:
                cursor.executemany(self.sql, [self.bind(v) for v in values])
        finally:
            cursor.close()

    def numbered(self, connection: Connection, values: Iterable[Values]) -> list[int]:
        """Do the same with a statement that returns the new row's number; return the numbers, in the same order."""
        cursor: Any = connection.connection.cursor()
        try:
            if self._by_name:  # psycopg: one round trip for all
                cursor.executemany(self.sql, [self.bind(v) for v in values], returning=True)
                return list(_numbers(cursor))
            return [cursor.execute(self.sql, self.bind(v)).fetchone()[0] for v in values]
        finally:
            cursor.close()


class Write:
    """An INSERT, UPDATE or DELETE that *build* spells in the dialect of a name; of values of the same *columns*."""

    def __init__(self, build: Callable[[str], Any], columns: Sequence[str] = ()) -> None:
        self._build = build
        self._columns = columns
        self._compiled: dict[str, Prepared] = {}  # by dialect

    def run(self, connection: Connection, values: Sequence[Values]) -> None:
        """Run it for each of *values*, if there are any. Raises what the driver raises."""
        if values:
            self._prepared(connection.dialect).run(connection, values)

    def numbered(self, connection: Connection, values: Iterable[Values]) -> list[int]:
        """Do the same with a statement that returns the new row's number; return the numbers, in the same order."""
        return self._prepared(connection.dialect).numbered(connection, values)

    def _prepared(self, dialect: Dialect) -> Prepared:
        known = self._compiled.get(dialect.name)
        if known is None:
            known = self._compiled[dialect.name] = Prepared(dialect, self._build(dialect.name), self._columns)
        return known


class Query:
    """A SELECT, compiled when it is run first. Its values are given by the names of its parameters."""

    def __init__(self, statement: TypedReturnsRows[Any]) -> None:
        self._statement = statement
        self._names = tuple(statement.exported_columns.keys())
        self._compiled: dict[str, tuple[Prepared, list[tuple[int, Callable[[Any], Any]]]]] = {}  # by dialect

    def tuples(self, connection: Connection, **given: Any) -> list[Sequence[Any]]:
        """Return the rows, their values in the order of the columns. Raises what the driver raises."""
        cursor: Any = connection.connection.cursor()
        try:
            known = self._compiled.get(connection.dialect.name)
            prepared = Prepared(connection.dialect, self._statement) if known is None else known[0]
            cursor.execute(prepared.sql, prepared.bind(given))
            if known is None:
                known = self._compiled[connection.dialect.name] = prepared, self._made(connection.dialect, cursor)
            found: list[Sequence[Any]] = cursor.fetchall()
        finally:
            cursor.close()
        return [_made_of(row, known[1]) for row in found] if known[1] else found

    def rows(self, connection: Connection, **given: Any) -> list[dict[str, Any]]:
        """Return the rows, their values by the columns' names."""
        return [dict(zip(self._names, row, strict=True)) for row in self.tuples(connection, **given)]

    def first(self, connection: Connection, **given: Any) -> dict[str, Any] | None:
        """Return the first row of a few, or None."""
        return next(iter(self.rows(connection, **given)), None)

    def scalars(self, connection: Connection, **given: Any) -> list[Any]:
        """Return the first value of every row."""
        return [row[0] for row in self.tuples(connection, **given)]

    def scalar(self, connection: Connection, **given: Any) -> Any:
        """Return the first value of the first row of a few, or None."""
        return next(iter(self.scalars(connection, **given)), None)

    def _made(self, dialect: Dialect, cursor: Any) -> list[tuple[int, Callable[[Any], Any]]]:
        """Which of a row's values are made of others, by the column's place. The driver says what it gives."""
        columns = zip(self._statement.exported_columns, cursor.description, strict=True)
        made = (c.type.dialect_impl(dialect).result_processor(dialect, told[1]) for c, told in columns)
        return [(place, make) for place, make in enumerate(made) if make is not None]


def _made_of(row: Sequence[Any], made: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Any]:
    values = list(row)
    for place, make in made:
        values[place] = make(values[place])
    return values


def _numbers(cursor: Any) -> Iterator[int]:
    """The one number of each result."""
    more = True
    while more:
        yield cursor.fetchone()[0]
        more = cursor.nextset()
