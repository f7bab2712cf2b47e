"""UniKV: an embedded, ordered key-value store. Like a dict, on disk.

>>> import unikv
>>> with unikv.open(path / "fruit", memory_budget="64MB") as db:
...     db[b"apple"] = b"red"
...     db[b"banana"] = b"yellow"
...     list(db.items(prefix=b"b"))
[(b'banana', b'yellow')]

`unikv.plyvel` is a module with plyvel's interface. Errors are `unikv.Error` and its subclasses.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TypedDict, Unpack

from . import _unikv
from ._changes import Change, Delete, DeleteRange, Ingest, KeyspaceChange, Operation, Put
from ._errors import (
    ClosedError,
    ConflictError,
    CorruptionError,
    DiskFullError,
    Error,
    ForkedError,
    HistoryGoneError,
    IncompatibleError,
    InternalError,
    InvalidArgumentError,
    IoError,
    IteratorInvalidError,
    LockedError,
    NoSuchKeyspaceError,
    NotFoundError,
    OutOfMemoryError,
    TimedOutError,
    WouldBlockError,
    WritesSuspendedError,
)
from ._typed import Bytes, Codec, Int, Json, Str, TypedKeyspace
from ._unikv import (
    Changes,
    Database,
    Entries,
    Secondary,
    Iterator,
    Keyspace,
    RawIterator,
    Readable,
    Snapshot,
    Transaction,
    TransactionKeyspace,
    Writable,
    WriteBatch,
    backup_points,
    check,
    check_export,
    destroy,
    repair,
    restore,
)

__version__: str = _unikv.VERSION

__all__ = [
    "Bytes",
    "Change",
    "Changes",
    "ClosedError",
    "Codec",
    "ConflictError",
    "CorruptionError",
    "Database",
    "Delete",
    "DeleteRange",
    "DiskFullError",
    "Entries",
    "Error",
    "Secondary",
    "ForkedError",
    "HistoryGoneError",
    "IncompatibleError",
    "Ingest",
    "Int",
    "InternalError",
    "InvalidArgumentError",
    "IoError",
    "Iterator",
    "IteratorInvalidError",
    "Json",
    "Keyspace",
    "KeyspaceChange",
    "LockedError",
    "NoSuchKeyspaceError",
    "NotFoundError",
    "Operation",
    "Options",
    "OutOfMemoryError",
    "Put",
    "RawIterator",
    "Readable",
    "Snapshot",
    "Str",
    "TimedOutError",
    "Transaction",
    "TransactionKeyspace",
    "TypedKeyspace",
    "WouldBlockError",
    "Writable",
    "WriteBatch",
    "WritesSuspendedError",
    "backup_points",
    "check",
    "check_export",
    "create_new",
    "destroy",
    "in_memory",
    "open",
    "open_existing",
    "open_secondary",
    "repair",
    "restore",
]


class Options(TypedDict, total=False):
    """The options of a database. Sizes are in bytes, or texts such as "512MB" and "64KiB"; times are
    in seconds, or `timedelta`. What they do is in the documentation of UniKV."""

    durability: str | float | timedelta
    memory_budget: int | str
    max_space_amp: float
    memtable_bytes: int | str
    unsorted_bytes: int | str
    partition_bytes: int | str
    inline_value_bytes: int | str
    compression: str | None
    default_ttl: float | timedelta
    clustering: str
    key_table_bytes: int | str
    block_bytes: int | str
    background_threads: int
    scan_merge_limit: int
    change_window_bytes: int | str
    latencies: bool
    slow_after: float | timedelta
    publish_stats: float | timedelta
    unset: list[str]
    """Options that the database has stored and is to forget: their defaults hold again."""


def open(path: str | os.PathLike[str], **options: Unpack[Options]) -> Database:
    """Opens the database in a directory, and makes it if there is none.

    What is given for some options is stored in the database, and holds at later openings, too, until
    it is unset:

    >>> with unikv.open(path / "blocks", block_bytes="16KiB"):
    ...     pass
    >>> with unikv.open(path / "blocks", unset=["block_bytes"]) as db:
    ...     db.options()["block_bytes"]
    4096
    """
    return Database(path, **options)


def open_existing(path: str | os.PathLike[str], **options: Unpack[Options]) -> Database:
    """Opens the database in a directory, which must be there.

    >>> with unikv.open_existing(path / "new") as db:
    ...     pass
    Traceback (most recent call last):
    ...
    unikv.NotFoundError: ...
    """
    return Database.open_existing(path, **options)


def create_new(path: str | os.PathLike[str], **options: Unpack[Options]) -> Database:
    """Creates a database in a directory, which must not hold one, and opens it."""
    return Database.create_new(path, **options)


def in_memory(**options: Unpack[Options]) -> Database:
    """Creates a database in the memory of the process, which is gone when it is closed. Nothing is
    read from or written to a disk; checkpoints, backups and exports copy it there.

    >>> with unikv.in_memory() as db:
    ...     db[b"apple"] = b"red"
    ...     db[b"apple"]
    b'red'
    """
    return Database.in_memory(**options)


def open_secondary(
    path: str | os.PathLike[str],
    *,
    memory_budget: int | str | None = None,
    refresh_every: float | timedelta | None = None,
) -> Secondary:
    """Opens a database for reading that another process may write at the same time.

    It shows a state of the database until `refresh()`, or for as long as `refresh_every` says.

    >>> with unikv.open(path / "shared") as db:
    ...     db.put(b"a", b"1")
    ...     with unikv.open_secondary(path / "shared") as secondary:
    ...         db.put(b"a", b"2")
    ...         before = secondary[b"a"]
    ...         secondary.refresh()
    ...         before, secondary[b"a"]
    (b'1', b'2')
    """
    return Secondary(path, memory_budget=memory_budget, refresh_every=refresh_every)


# In the child of a fork, what Python holds of a database refuses to be used.
os.register_at_fork(after_in_child=_unikv._note_fork)
