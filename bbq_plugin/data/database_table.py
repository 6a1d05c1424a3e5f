"""A table of PostgreSQL as a source of votes; all SQL for it is here.

Rows come out as JSON lines, so that a table is read as a file of it would be. Everything is read in
one snapshot of a transaction that may not write. The password is libpq's business: PGPASSWORD, or
a password file (PGPASSFILE, ~/.pgpass); an address that holds one is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from bbq_plugin.errors import FormatError, RemoteError, UnsupportedError, UsageError, did_you_mean
from bbq_plugin.text import listed, plain

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection, sql

SCHEMES = ("postgresql://", "postgres://")
#: The field of a JSON line that names the row.
ROW = "bbq row"
#: A transaction may commit so long after the change time that it wrote, and is still seen by a
#: poll; what comes later is found by reconciling.
OVERLAP_S = 60
_CONNECT_S = 10
_SPOOLED = 64 * 1024 * 1024
_SECRETS = ("password", "sslpassword")


def is_database(name: object) -> bool:
    """Whether this is the address of a database, and not a file or a folder."""
    return isinstance(name, str) and name.startswith(SCHEMES)


def checked_address(address: str) -> str:
    """The address, if it holds no password; it is not repeated in what is said."""
    try:
        parts = urlsplit(address)
        told = [unquote(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        secret = parts.password is not None or any(name in _SECRETS for name in told)
        _ = parts.port
    except ValueError:
        raise UsageError(
            "the address of the database cannot be understood; expected "
            "postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    if secret:
        raise UsageError(
            "the address of the database holds a password, which others on this machine can see; "
            "leave it out, and give it as PGPASSWORD in the environment or in a password file "
            "(PGPASSFILE, or ~/.pgpass)"
        )
    return address


@dataclass(frozen=True)
class TableShape:
    """What the database says about a table."""

    database: str
    schema: str
    table: str
    #: Columns and their types.
    columns: Mapping[str, str]
    primary_key: tuple[str, ...]

    @property
    def name(self) -> str:
        """How it is called on the record, wherever the server is."""
        return f"{self.database}/{self.schema}.{self.table}"

    def checked(self, column: str, what: str) -> str:
        """A column that was named, if there is one."""
        if column not in self.columns:
            known = f"there are: {listed(self.columns)}"
            raise FormatError(
                f"{what}={column}: there is no such column"
                f"{did_you_mean(column, self.columns, known)}", self.name,
            )  # fmt: skip
        return column


@dataclass(frozen=True)
class Selection:
    """Which rows and columns are read."""

    #: What the name of each row begins with, and the columns that make it up.
    prefix: str = ""
    key: tuple[str, ...] = ()
    changed: str | None = None
    #: Columns that are left out.
    hidden: frozenset[str] = frozenset()


class DatabaseTable:
    """One table, through one connection that is opened again when it is lost."""

    def __init__(self, address: str, table: str | None) -> None:
        self.address = checked_address(address)
        self.table = table
        self._connection: Connection[Any] | None = None

    def close(self) -> None:
        """Leave the server."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The table at one moment. What goes wrong is an error that says what to do."""
        try:
            import psycopg
        except ImportError as error:
            raise UnsupportedError(
                f"a database needs {error.name}, which is not installed; run: pip install "
                "'bbq-plugin[postgres]'"
            ) from None
        try:
            connection = self._connected()
            with connection.transaction():
                # Times as text are the same wherever the server is.
                connection.execute("SET LOCAL TimeZone = 'UTC'")
                connection.execute("SET LOCAL DateStyle = 'ISO'")
                yield Snapshot(connection, self.table)
        except psycopg.errors.InsufficientPrivilege as error:
            self.close()
            raise FormatError(
                f"may not be read ({_said(error)})", self.table,
                remedy="let an owner run: GRANT SELECT ON the table TO your user",
            ) from error  # fmt: skip
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise RemoteError(
                f"the database cannot be reached ({_said(error)}); check address, password "
                "(PGPASSWORD or a password file) and server"
            ) from error
        except psycopg.Error as error:
            self.close()
            raise FormatError(f"cannot be read ({_said(error)})", self.table) from error

    def _connected(self) -> Connection[Any]:
        import psycopg

        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(
                self.address, connect_timeout=_CONNECT_S, application_name="bbq",
                client_encoding="utf8",
                # Poolers between here and the server do not know prepared statements.
                prepare_threshold=None,
            )  # fmt: skip
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            # A transaction is begun where it is wanted.
            connection.autocommit = True
            self._connection = connection
        return self._connection


class Snapshot:
    """What a table holds at one moment."""

    def __init__(self, connection: Connection[Any], table: str | None) -> None:
        self._db = connection
        self.shape = self._shape(table)

    def _shape(self, table: str | None) -> TableShape:
        found = (
            table
            and self._db.execute(
                "SELECT c.oid, n.nspname, c.relname, current_database() FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
                (table,),
            ).fetchone()
        )
        if not found:
            known = [row[0] for row in self._db.execute(
                "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN quote_ident(relname) "
                "ELSE quote_ident(nspname) || '.' || quote_ident(relname) END FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r','v','m','p','f')"
                " AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1")]  # fmt: skip
            there = f"there are: {listed(known)}" if known else "there are no tables"
            if not table:
                raise UsageError(f"which table of the database? Name it with --table ({there})")
            raise UsageError(
                f"--table {table}: there is no such table{did_you_mean(table, known, there)}"
            )
        oid, schema, name, database = found
        columns = self._db.execute(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (oid,),
        ).fetchall()
        key = self._db.execute(
            "SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey) "
            "WITH ORDINALITY AS k(n, place) JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = k.n "
            "WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place",
            (oid,),
        ).fetchall()
        return TableShape(database, schema, name, dict(columns), tuple(row[0] for row in key))

    def check_key(self, key: Sequence[str]) -> None:
        """Refuse a key that does not name one row each."""
        from psycopg import sql

        if tuple(key) == self.shape.primary_key:
            return
        columns = sql.SQL(", ").join(map(sql.Identifier, key))
        empty = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(sql.Identifier(k)) for k in key)
        found = self._db.execute(
            sql.SQL(
                "SELECT {columns}, count(*) FROM {table} GROUP BY {columns} "
                "HAVING count(*) > 1 OR {empty} LIMIT 1"
            ).format(columns=columns, table=self._table(), empty=empty)
        ).fetchone()
        if found:
            *values, n = found
            said = ", ".join(f"{k}={v}" for k, v in zip(key, values, strict=True))
            raise FormatError(
                f"the key does not name one row: {said} stands in {n:,}", self.shape.name,
                remedy="name the columns of a key with -O key=COLUMN",
            )  # fmt: skip

    def _table(self) -> sql.Composable:
        from psycopg import sql

        return sql.Identifier(self.shape.schema, self.shape.table)

    def _rows(self, chosen: Selection, since: str | None = None) -> sql.Composed:
        """The rows as one column of JSON without line feeds."""
        from psycopg import sql

        columns: list[sql.Composable] = [
            sql.Identifier(name) for name in self.shape.columns if name not in chosen.hidden
        ]
        if chosen.key:
            # "/" and "," set the parts of a name apart.
            parts = [
                sql.SQL(
                    "replace(replace(replace({}::text, '%', '%25'), '/', '%2F'), ',', '%2C')"
                ).format(sql.Identifier(name)) for name in chosen.key
            ]  # fmt: skip
            name = sql.SQL("concat({}, concat_ws(',', {}))").format(
                sql.Literal(chosen.prefix), sql.SQL(", ").join(parts)
            )
            columns.insert(0, sql.SQL("{} AS {}").format(name, sql.Identifier(ROW)))
        where: sql.Composable = sql.SQL("")
        if since is not None and chosen.changed is not None:
            kind = self.shape.columns[chosen.changed]
            where = sql.SQL("WHERE {} >= CAST({} AS {})").format(
                sql.Identifier(chosen.changed),
                sql.Literal(since),
                sql.SQL(kind),
            )
        inner = sql.SQL("SELECT {} FROM {} {}").format(
            sql.SQL(", ").join(columns), self._table(), where
        )
        return sql.SQL(
            "SELECT replace(row_to_json(r)::text, chr(10), ' ') AS line FROM ({}) AS r"
        ).format(inner)

    def lines(self, chosen: Selection, since: str | None = None) -> SpooledTemporaryFile[bytes]:
        """All rows, or those changed since, one a line: in memory, or on disk if they are many."""
        from psycopg import sql

        # JSON holds no control characters: none of these two ever stands in a line.
        statement = sql.SQL(
            "COPY ({}) TO STDOUT (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02')"
        ).format(self._rows(chosen, since))
        found: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(_SPOOLED)  # noqa: SIM115 (given away)
        try:
            with self._db.cursor() as cursor, cursor.copy(statement) as copy:
                for block in copy:
                    found.write(block)
        except BaseException:
            found.close()
            raise
        found.seek(0)
        return found

    def digest(self, chosen: Selection) -> str:
        """The number of rows and a sum of their hashes: another one where anything differs."""
        from psycopg import sql

        row = self._db.execute(
            sql.SQL(
                "SELECT count(*)::text || ':' || "
                "coalesce(sum(hashtextextended(line, 0)::numeric), 0)::text FROM ({}) AS l"
            ).format(self._rows(chosen))
        ).fetchone()
        return str(row and row[0])

    def newest(self, changed: str, since: str | None) -> str | None:
        """From which change time on the next poll looks: a while before the newest."""
        from psycopg import sql

        kind = self.shape.columns[changed]
        if not kind.startswith("timestamp"):
            raise FormatError(
                f"changed={changed} is of type {kind}", self.shape.name,
                remedy="name a column of type timestamp or timestamptz, or none",
            )  # fmt: skip
        column, cast = sql.Identifier(changed), sql.SQL(kind)
        after: sql.Composable = sql.SQL("")
        if since is not None:
            after = sql.SQL("AND {} >= CAST({} AS {})").format(column, sql.Literal(since), cast)
        row = self._db.execute(
            sql.SQL(
                "SELECT (least(max({column}), CAST(now() AS {cast})) "
                "- {overlap} * interval '1 second')::text "
                "FROM {table} WHERE isfinite({column}) {after}"
            ).format(
                column=column, cast=cast, overlap=sql.Literal(OVERLAP_S), table=self._table(),
                after=after,
            )
        ).fetchone()  # fmt: skip
        return since if row is None or row[0] is None else str(row[0])

    def write_csv(self, path: Path, columns: Sequence[str]) -> None:
        """Some columns of all rows as a CSV file with a header."""
        from psycopg import sql

        chosen = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
        statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT csv, HEADER)").format(
            chosen, self._table()
        )
        with path.open("wb") as file, self._db.cursor() as cursor, cursor.copy(statement) as copy:
            for block in copy:
                file.write(block)


def _said(error: Exception) -> str:
    """What the server or libpq says, in one line; libpq names no passwords."""
    return plain(" ".join(str(error).split())) or type(error).__name__


@contextmanager
def opened_table(address: str, table: str | None) -> Iterator[SpooledTemporaryFile[bytes]]:
    """All rows of a table as JSON lines, read once."""
    source = DatabaseTable(address, table)
    try:
        with source.snapshot() as found:
            lines = found.lines(Selection())
    finally:
        source.close()
    with lines:
        yield lines


def export_csv(address: str, table: str | None, path: Path, wanted: Mapping[str, str]) -> str:
    """The columns that are ``wanted``, by what they are, into a CSV file; the table's name."""
    source = DatabaseTable(address, table)
    try:
        with source.snapshot() as found:
            columns = [found.shape.checked(column, what) for what, column in wanted.items()]
            found.write_csv(path, list(dict.fromkeys(columns)))
            return found.shape.name
    finally:
        source.close()
