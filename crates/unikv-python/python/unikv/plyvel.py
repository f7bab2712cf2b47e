"""plyvel's interface, on UniKV.

Programs that were written for plyvel 1.5 run with `import unikv.plyvel as plyvel`: names, defaults,
exceptions and what iterators do are plyvel's. The files are UniKV's own.

- Options without a meaning here are accepted: `paranoid_checks`, `max_open_files`,
  `block_restart_interval`, `bloom_filter_bits`, and `verify_checksums` of reads. Checksums are
  always verified. In the place of Snappy, values are compressed with LZ4.
- `lru_cache_size`, with four write buffers, is the memory budget, of at least 32 MiB.
- Keys are ordered by their bytes. A comparator is asked for the order of fixed pairs of keys; one
  that orders them differently is refused with `ValueError`.

>>> import unikv.plyvel as plyvel
>>> db = plyvel.DB(str(path / "plyvel"), create_if_missing=True)
>>> db.put(b"key-1", b"value")
>>> [key for key, value in db.iterator(prefix=b"key-")]
[b'key-1']
>>> db.prefixed_db(b"key-").get(b"1")
b'value'
>>> db.close()
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _errors, _unikv

__version__ = "1.5.1"
__leveldb_version__ = "1.23"

__all__ = [
    "DB",
    "CorruptionError",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "destroy_db",
    "repair_db",
]


class Error(Exception):
    """What the database raises."""


class IOError(Error, builtins.IOError):  # noqa: A001
    """The operating system refused, or there is no database."""


class CorruptionError(Error):
    """Bytes on disk are not what was written."""


class IteratorInvalidError(Error):
    """The raw iterator is on no entry."""


_IO = (
    _errors.IoError,
    _errors.LockedError,
    _errors.NotFoundError,
    _errors.WritesSuspendedError,
)


def _raised(error: _errors.Error) -> Exception:
    """What plyvel raises in the place of an error."""
    message = str(error)
    if isinstance(error, (_errors.ClosedError, _errors.ForkedError)):
        return RuntimeError(message)
    if isinstance(error, _errors.CorruptionError):
        return CorruptionError(message)
    if isinstance(error, _errors.IteratorInvalidError):
        return IteratorInvalidError(message)
    if isinstance(error, _IO):
        return IOError(message)
    return Error(message)


class _Translated:
    """A `with` block that raises plyvel's exceptions. It has no state, so there is one."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, _errors.Error):
            raise _raised(error) from error


_translated = _Translated()


def _bytes(name: str, value: Any) -> bytes:
    if type(value) is not bytes and not isinstance(value, bytes):
        raise TypeError(f"Argument {name!r} has incorrect type (expected bytes, got {type(value).__name__})")
    return value


def _bytes_or_none(name: str, value: Any) -> bytes | None:
    return None if value is None else _bytes(name, value)


def _path(name: Any) -> str:
    if isinstance(name, bytes):
        return os.fsdecode(name)
    if not isinstance(name, str):
        raise TypeError("'name' arg must be a byte string or a unicode string")
    return name


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name!r} must be an integer")
    return value


def _probe_keys() -> list[bytes]:
    """Keys that usual orders other than that of bytes order differently."""
    words = ["", "\0", "\0a", "a", "aa", "ab", "b", "A", "B", "aB", "Ab", "z", "Z", "9", "10", "2", "-1", "-2", " a", "a "]
    keys = [word.encode() for word in words]
    keys += [b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\xff\x00", "ä".encode(), "\uffff".encode(), "\U00010000".encode()]
    for number in (1, 2, 255, 256, 257, 1 << 31, 1 << 63):
        keys += [number.to_bytes(8, "big"), number.to_bytes(8, "little")]
    keys += [b"x" * 300, b"x" * 301, b"x" * 300 + b"a"]
    return keys


def _check_comparator(comparator: Any, name: Any) -> None:
    if (comparator is None) != (name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is None:
        return
    if not callable(comparator):
        raise TypeError("custom comparator object must be callable")
    keys = _probe_keys()
    for a in keys:
        for b in keys:
            order = comparator(a, b)
            if (order > 0) - (order < 0) != (a > b) - (a < b):
                raise ValueError(
                    f"the comparator {name!r} does not order keys by their bytes: it says {order} for "
                    f"{a!r} and {b!r}. Store keys whose bytes have the order that you need."
                )


_NAME_SPACE, _NAME_KEY = "leveldb.comparator", b"name"
_BYTEWISE = b"leveldb.BytewiseComparator"


def _agree_on_comparator(db: _unikv.Database, name: bytes | None) -> None:
    """The name of a comparator is stored where the C library does, and must be the same again."""
    name = name or _BYTEWISE
    spaces = db.keyspaces()
    stored: bytes | None = None
    if _NAME_SPACE in spaces:
        stored = db.keyspace(_NAME_SPACE).get(_NAME_KEY)
    # The process that made the database may have been killed before it stored a name.
    is_new = set(spaces) <= {"default", _NAME_SPACE} and next(db.keys(), None) is None
    if stored is None and not is_new:
        stored = _BYTEWISE
    if stored is None:
        if name != _BYTEWISE:
            db.keyspace(_NAME_SPACE).put(_NAME_KEY, name, sync=True)
    elif stored != name:
        raise Error(f"the database was made with the comparator {stored!r}, not {name!r}")


def _open(path: str, create_if_missing: bool, error_if_exists: bool, options: Any) -> _unikv.Database:
    """Opens a database as plyvel's two flags say."""
    if error_if_exists and (create_if_missing or os.path.exists(os.path.join(path, "CURRENT"))):
        return _unikv.Database.create_new(path, **options)
    if create_if_missing:
        return _unikv.Database(path, **options)
    return _unikv.Database.open_existing(path, **options)


def _options(
    paranoid_checks: Any,
    write_buffer_size: Any,
    max_open_files: Any,
    lru_cache_size: Any,
    block_size: Any,
    block_restart_interval: Any,
    max_file_size: Any,
    compression: Any,
    bloom_filter_bits: Any,
    comparator: Any,
    comparator_name: Any,
) -> dict[str, Any]:
    """The options that plyvel's are here."""
    options: dict[str, Any] = {}
    buffer = 4 << 20
    if write_buffer_size is not None:
        buffer = max(_number("write_buffer_size", write_buffer_size), 64 << 10)
        options["memtable_bytes"] = buffer
    if lru_cache_size is not None:
        cache = _number("lru_cache_size", lru_cache_size)
        options["memory_budget"] = max(cache + 4 * buffer, 32 << 20)
    if block_size is not None:
        options["block_bytes"] = min(max(_number("block_size", block_size), 256), 1 << 20)
    if max_file_size is not None:
        options["key_table_bytes"] = max(_number("max_file_size", max_file_size), 64 << 10)
    for name, value in (
        ("max_open_files", max_open_files),
        ("block_restart_interval", block_restart_interval),
        ("bloom_filter_bits", bloom_filter_bits),
    ):
        if value is not None:
            _number(name, value)
    if isinstance(compression, bytes):
        compression = compression.decode()
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    options["compression"] = None if compression is None else "lz4"
    _bytes_or_none("comparator_name", comparator_name)
    _check_comparator(comparator, comparator_name)
    return options


class DB:
    """A database, as plyvel's `DB`."""

    __slots__ = ("_db", "_name", "__weakref__")

    def __init__(
        self,
        name: str | bytes,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: bool | None = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: str | bytes | None = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Callable[[bytes, bytes], int] | None = None,
        comparator_name: bytes | None = None,
    ) -> None:
        path = _path(name)
        options = _options(
            paranoid_checks,
            write_buffer_size,
            max_open_files,
            lru_cache_size,
            block_size,
            block_restart_interval,
            max_file_size,
            compression,
            bloom_filter_bits,
            comparator,
            comparator_name,
        )
        self._name = name
        with _translated:
            db = _open(path, bool(create_if_missing), bool(error_if_exists), options)
        try:
            with _translated:
                _agree_on_comparator(db, comparator_name)
        except BaseException:
            db.close()
            raise
        self._db = db

    @property
    def name(self) -> str | bytes:
        """The directory, as it was given."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._db.closed

    def close(self) -> None:
        """Closes the database; iterators and snapshots of it raise `RuntimeError` from now on."""
        with _translated:
            self._db.close()

    def __enter__(self) -> DB:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<unikv.plyvel.DB with name {self._name!r}{closed} at {hex(id(self))}>"

    def get(
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key, or `default`."""
        if type(key) is not bytes:
            _bytes("key", key)
        try:
            return self._db.get(key, default, fill_cache=bool(fill_cache))
        except _errors.Error as error:
            raise _raised(error) from error

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Stores a value: any bytes-like object."""
        if type(key) is not bytes:
            _bytes("key", key)
        try:
            self._db.put(key, value, sync=bool(sync))
        except _errors.Error as error:
            raise _raised(error) from error

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key."""
        if type(key) is not bytes:
            _bytes("key", key)
        try:
            self._db.delete(key, sync=bool(sync))
        except _errors.Error as error:
            raise _raised(error) from error

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Several writes at once. In a `with` statement they are written at its end, also if that is
        an exception, unless `transaction` is set."""
        return WriteBatch(self, None, transaction, sync)

    def __iter__(self) -> Any:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator:
        """An iterator over a range, which moves both ways."""
        bounds = (reverse, start, stop, include_start, include_stop, prefix)
        return Iterator(self._db, None, bounds, include_key, include_value, fill_cache)

    def raw_iterator(
        self, *, verify_checksums: bool | None = False, fill_cache: bool | None = True
    ) -> RawIterator:
        """A position that moves both ways, as LevelDB has it."""
        return RawIterator(self._db, fill_cache)

    def snapshot(self) -> Snapshot:
        """The database as it is now."""
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> bytes | None:
        """The value of a property of LevelDB, or None if there is none of that name."""
        text = _bytes("name", name).decode(errors="replace")
        with _translated:
            value = _property(self._db, text)
        return None if value is None else value.encode()

    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None:
        """Merges what has been written, for a range."""
        with _translated:
            self._db.compact(_bytes_or_none("start", start), _bytes_or_none("stop", stop))

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        """About how many bytes on disk a range takes."""
        return self.approximate_sizes((_bytes("start", start), _bytes("stop", stop)))[0]

    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]:
        """About how many bytes on disk each of the ranges takes."""
        sizes = []
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
            with _translated:
                sizes.append(self._db.approximate_size(start, stop))
        return sizes

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """The keys that begin with `prefix`, as a database of their own without it."""
        return PrefixedDB(db=self, prefix=prefix)


class PrefixedDB:
    """The keys of a database that begin with a prefix, without it."""

    __slots__ = ("_db", "_prefix", "__weakref__")

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(db, DB):
            raise TypeError("'db' must be a DB")
        self._db = db
        self._prefix = _bytes("prefix", prefix)

    @property
    def db(self) -> DB:
        """The database."""
        return self._db

    @property
    def prefix(self) -> bytes:
        """The prefix."""
        return self._prefix

    def __repr__(self) -> str:
        return f"<unikv.plyvel.PrefixedDB with prefix {self._prefix!r} at {hex(id(self))}>"

    def get(
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key, or `default`."""
        return self._db.get(self._prefix + _bytes("key", key), default, fill_cache=fill_cache)

    def put(self, key: bytes, value: Any, *, sync: bool = False) -> None:
        """Stores a value."""
        self._db.put(self._prefix + _bytes("key", key), value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        """Removes a key."""
        self._db.delete(self._prefix + _bytes("key", key), sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        """Several writes at once: see `DB.write_batch`."""
        return WriteBatch(self._db, self._prefix, transaction, sync)

    def __iter__(self) -> Any:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator:
        """An iterator over a range, which moves both ways."""
        bounds = (reverse, start, stop, include_start, include_stop, prefix)
        return Iterator(self._db._db, self._prefix, bounds, include_key, include_value, fill_cache)

    def snapshot(self) -> Snapshot:
        """The keys as they are now."""
        return Snapshot(db=self._db, prefix=self._prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        """A prefix after the prefix."""
        return PrefixedDB(db=self._db, prefix=self._prefix + _bytes("prefix", prefix))


class WriteBatch:
    """Several writes at once."""

    __slots__ = ("_batch", "_db", "_prefix", "_transaction", "__weakref__")

    def __init__(self, db: DB, prefix: bytes | None, transaction: bool, sync: bool | None) -> None:
        self._db = db
        self._prefix = prefix
        self._transaction = bool(transaction)
        with _translated:
            self._batch = db._db.write_batch(sync=bool(sync))

    def _key(self, key: bytes) -> bytes:
        _bytes("key", key)
        return key if self._prefix is None else self._prefix + key

    def put(self, key: bytes, value: Any) -> None:
        """Adds a put."""
        try:
            self._batch.put(self._key(key), value)
        except _errors.Error as error:
            raise _raised(error) from error

    def delete(self, key: bytes) -> None:
        """Adds a delete."""
        try:
            self._batch.delete(self._key(key))
        except _errors.Error as error:
            raise _raised(error) from error

    def clear(self) -> None:
        """Removes all writes from the batch."""
        with _translated:
            self._batch.clear()

    def write(self) -> None:
        """Applies all writes."""
        with _translated:
            self._batch.write()

    def approximate_size(self) -> int:
        """Bytes that the writes take."""
        with _translated:
            return self._batch.approximate_size()

    def append(self, source: WriteBatch) -> None:
        """Adds what another batch has."""
        if not isinstance(source, WriteBatch):
            raise TypeError("'source' must be a WriteBatch")
        with _translated:
            self._batch.append(source._batch)

    def __enter__(self) -> WriteBatch:
        if self._db.closed:
            raise RuntimeError("Database is closed")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._db.closed:
            raise RuntimeError("Database is closed")
        if kind is None or not self._transaction:
            self.write()
        self.clear()


class Iterator:
    """An iterator over a range, which moves both ways: made by `iterator()`."""

    __slots__ = ("_it", "_within", "__weakref__")

    def __init__(
        self,
        source: _unikv.Readable,
        within: bytes | None,
        bounds: tuple[Any, Any, Any, Any, Any, Any],
        include_key: bool,
        include_value: bool,
        fill_cache: bool | None,
    ) -> None:
        reverse, start, stop, include_start, include_stop, prefix = bounds
        for name, value in (("start", start), ("stop", stop), ("prefix", prefix)):
            _bytes_or_none(name, value)
        with _translated:
            self._it: Any = source.iterator(
                reverse=bool(reverse),
                start=start,
                stop=stop,
                include_start=bool(include_start),
                include_stop=bool(include_stop),
                prefix=prefix,
                include_key=bool(include_key),  # type: ignore[call-overload]
                include_value=bool(include_value),
                within=within,
                fill_cache=bool(fill_cache),
            )

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._it)
        except _errors.Error as error:
            raise _raised(error) from error

    def next(self) -> Any:
        """The next entry."""
        return self.__next__()

    def prev(self) -> Any:
        """The entry before."""
        try:
            return self._it.prev()
        except _errors.Error as error:
            raise _raised(error) from error

    def seek(self, target: bytes) -> None:
        """Moves to just before the first key at or after `target`."""
        with _translated:
            self._it.seek(_bytes("target", target))

    def seek_to_start(self) -> None:
        """Moves to the least key of the range."""
        with _translated:
            self._it.seek_to_start()

    def seek_to_stop(self) -> None:
        """Moves past the greatest key of the range."""
        with _translated:
            self._it.seek_to_stop()

    def close(self) -> None:
        """Ends the iterator."""
        self._it.close()

    def __enter__(self) -> Iterator:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()


class RawIterator:
    """A position that moves both ways: made by `raw_iterator()`."""

    __slots__ = ("_it", "__weakref__")

    def __init__(self, source: _unikv.Readable, fill_cache: bool | None) -> None:
        with _translated:
            self._it = source.raw_iterator(fill_cache=bool(fill_cache))

    def valid(self) -> bool:
        """Whether it is on an entry."""
        with _translated:
            return self._it.valid()

    def seek_to_first(self) -> None:
        """Moves to the first entry."""
        with _translated:
            self._it.seek_to_first()

    def seek_to_last(self) -> None:
        """Moves to the last entry."""
        with _translated:
            self._it.seek_to_last()

    def seek(self, target: bytes) -> None:
        """Moves to the first entry at or after `target`."""
        with _translated:
            self._it.seek(_bytes("target", target))

    def next(self) -> None:
        """Moves to the next entry."""
        with _translated:
            self._it.next()

    def prev(self) -> None:
        """Moves to the entry before."""
        with _translated:
            self._it.prev()

    def key(self) -> bytes:
        """The key of the entry."""
        with _translated:
            return self._it.key()

    def value(self) -> bytes:
        """The value of the entry."""
        with _translated:
            return self._it.value()

    def item(self) -> tuple[bytes, bytes]:
        """Key and value of the entry."""
        with _translated:
            return self._it.item()

    def close(self) -> None:
        """Ends the iterator."""
        self._it.close()

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()


class Snapshot:
    """The database as it was at one moment."""

    __slots__ = ("_db", "_prefix", "_snapshot", "__weakref__")

    def __init__(self, *, db: DB, prefix: bytes | None = None) -> None:
        self._db = db
        self._prefix = prefix
        with _translated:
            self._snapshot = db._db.snapshot()

    def close(self) -> None:
        """Ends the snapshot."""
        self._snapshot.close()

    release = close

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def get(
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Any:
        """The value of a key, or `default`."""
        key = _bytes("key", key)
        full = key if self._prefix is None else self._prefix + key
        with _translated:
            return self._snapshot.get(full, default, fill_cache=bool(fill_cache))

    def __iter__(self) -> Any:
        return self.iterator()

    def iterator(
        self,
        *,
        reverse: bool = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: bool = True,
        include_stop: bool = False,
        prefix: bytes | None = None,
        include_key: bool = True,
        include_value: bool = True,
        verify_checksums: bool | None = False,
        fill_cache: bool | None = True,
    ) -> Iterator:
        """An iterator over a range, which moves both ways."""
        bounds = (reverse, start, stop, include_start, include_stop, prefix)
        return Iterator(self._snapshot, self._prefix, bounds, include_key, include_value, fill_cache)

    def raw_iterator(
        self, *, verify_checksums: bool | None = False, fill_cache: bool | None = True
    ) -> RawIterator:
        """A position that moves both ways."""
        return RawIterator(self._snapshot, fill_cache)


def _property(db: _unikv.Database, name: str) -> str | None:
    """LevelDB's properties, with the UnsortedStore as level 0 and the SortedStore as level 1."""
    stats = db.stats()
    partitions = stats["partitions"]
    if name.startswith("leveldb.num-files-at-level"):
        level = name.removeprefix("leveldb.num-files-at-level")
        files = {"0": sum(part["tables"] for part in partitions), "1": stats["key_tables"]}
        return str(files.get(level, 0)) if level in "0123456" and len(level) == 1 else None
    if name == "leveldb.stats":
        return (
            f"UniKV: {len(partitions)} partitions, {stats['disk_bytes']} bytes on disk\n"
            f"UnsortedStore: {stats['unsorted_bytes']} bytes, {stats['unsorted_records']} records\n"
            f"SortedStore: {stats['key_tables']} key tables, {stats['key_table_bytes']} bytes\n"
            f"record files: {stats['record_files']}, {stats['record_file_bytes']} bytes\n"
        )
    if name == "leveldb.sstables":
        return "".join(
            f"partition {part['id']}: {part['tables']} tables, {part['key_tables']} key tables\n"
            for part in partitions
        )
    if name == "leveldb.approximate-memory-usage":
        parts = ("memtables", "indexes", "metadata", "jobs", "iterators", "transactions", "cache")
        return str(sum(stats["memory"][part] for part in parts))
    return None


def destroy_db(name: str | bytes) -> None:
    """Removes a database that nobody has open. Where there is none, nothing is done."""
    with _translated:
        _unikv.destroy(_path(name))


def repair_db(
    name: str | bytes,
    *,
    paranoid_checks: bool | None = None,
    write_buffer_size: int | None = None,
    max_open_files: int | None = None,
    lru_cache_size: int | None = None,
    block_size: int | None = None,
    block_restart_interval: int | None = None,
    max_file_size: int | None = None,
    compression: str | bytes | None = "snappy",
    bloom_filter_bits: int = 0,
    comparator: Callable[[bytes, bytes], int] | None = None,
    comparator_name: bytes | None = None,
) -> None:
    """Saves what is intact of a damaged database that nobody has open: into a new one beside it, which
    then takes its name. The damaged one is kept, with `.damaged` after its name. One without damage
    is left as it is. Until the end the new one has `.repairing` after its name."""
    path = _path(name)
    _options(
        paranoid_checks,
        write_buffer_size,
        max_open_files,
        lru_cache_size,
        block_size,
        block_restart_interval,
        max_file_size,
        compression,
        bloom_filter_bits,
        comparator,
        comparator_name,
    )
    with _translated:
        if not _unikv.check(path)["problems"]:
            return
        path = os.path.abspath(path)
        repaired = _free(path + ".repairing", _is_no_repair)
        _unikv.repair(path, repaired)
    kept = _free(path + ".damaged", os.path.lexists)
    if _unikv._exchange(path, repaired):
        # At each moment one of the two was there under the name.
        os.rename(repaired, kept)
    else:
        os.rename(path, kept)
        try:
            os.rename(repaired, path)
        except OSError:
            os.rename(kept, path)
            raise
    above = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)


def _is_no_repair(path: str) -> bool:
    """Whether something is there that a repair is not to go on in: it has no mark, so it is not of one
    that was interrupted. It may be the damaged database of one that ended after the exchange."""
    return os.path.lexists(path) and not os.path.lexists(os.path.join(path, "REPAIRING"))


def _free(path: str, is_taken: Callable[[str], bool]) -> str:
    """A path that is not taken: this, or with a number after it."""
    number, free = 0, path
    while is_taken(free):
        number += 1
        free = f"{path}-{number}"
    return free
