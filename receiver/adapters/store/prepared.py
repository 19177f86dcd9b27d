"""Statements that are compiled once and run by the driver itself: what is written for every delivery.

SQLAlchemy's way through a statement takes several times the processor time of the statement. What is compiled, and how
each value becomes what the driver takes, is SQLAlchemy's all the same: one schema and one spelling for both engines.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Insert

Values = Mapping[str, Any]


class Prepared:
    """An INSERT of rows that all have the same columns."""

    def __init__(self, dialect: Dialect, statement: Insert, columns: Sequence[str]) -> None:
        """Compile *statement* for values of *columns* of its table."""
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        self._sql = str(compiled)
        self._by_name = compiled.positiontup is None  # how the driver binds
        types = {name: statement.table.columns[name].type.dialect_impl(dialect) for name in columns}
        self._made = [(name, types[name].bind_processor(dialect)) for name in compiled.positiontup or columns]

    def run(self, connection: Connection, values: Iterable[Values]) -> None:
        """Insert a row for each of *values*. Raises what the driver raises."""
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(self._sql, self._rows(values))
        finally:
            cursor.close()

    def numbered(self, connection: Connection, values: Iterable[Values]) -> list[int]:
        """Do the same with a statement that returns the new row's number; return the numbers, in the same order."""
        cursor: Any = connection.connection.cursor()
        try:
            if self._by_name:  # psycopg: one round trip for all
                cursor.executemany(self._sql, self._rows(values), returning=True)
                return list(_numbers(cursor))
            return [cursor.execute(self._sql, row).fetchone()[0] for row in self._rows(values)]
        finally:
            cursor.close()

    def _rows(self, values: Iterable[Values]) -> list[Any]:
        """*values* as the driver binds them."""
        made = self._made
        rows = ([v[name] if make is None else make(v[name]) for name, make in made] for v in values)
        if self._by_name:
            names = [name for name, _ in made]
            return [dict(zip(names, row, strict=True)) for row in rows]
        return list(rows)


def _numbers(cursor: Any) -> Iterator[int]:
    """The one number of each result."""
    more = True
    while more:
        yield cursor.fetchone()[0]
        more = cursor.nextset()
