"""The exceptions of the package. What a caller can do decides of which class an error is."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """An error of UniKV.

    `kind` is what kind it is, as a word; `file` and `offset` are the place in a file that it
    concerns, or None; `remedy` says what remedies it.
    """

    kind = "error"
    file: str | None
    offset: int | None
    remedy: str

    def __init__(
        self,
        message: str = "",
        *,
        file: Any = None,
        offset: int | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.file = None if file is None else str(file)
        self.offset = offset
        self.remedy = remedy

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), str(self), self.file, self.offset, self.remedy))


def _rebuild(
    kind: type[Error], message: str, file: str | None, offset: int | None, remedy: str
) -> Error:
    return kind(message, file=file, offset=offset, remedy=remedy)


class InvalidArgumentError(Error, ValueError):
    """The call is wrong: a key too long, an option out of range. Nothing changed."""

    kind = "invalid_argument"


class CorruptionError(Error):
    """Bytes on disk are not what was written. Other data stay readable."""

    kind = "corruption"


class IoError(Error, OSError):
    """The operating system refused. From a write: the outcome is unknown."""

    kind = "io"


class DiskFullError(IoError):
    """The disk is full. Nothing of the write was stored; reads and deletes go on."""

    kind = "disk_full"


class LockedError(Error):
    """Another process has the database open."""

    kind = "locked"


class NotFoundError(Error):
    """There is no database, and none may be created."""

    kind = "not_found"


class IncompatibleError(Error):
    """The directory holds something else, or a format that this version does not know."""

    kind = "incompatible"


class WritesSuspendedError(Error):
    """Writing is suspended after a failure; the outcome of the write is unknown. Reads go on."""

    kind = "writes_suspended"


class ClosedError(Error):
    """The database, snapshot, iterator or transaction has ended."""

    kind = "closed"


class InternalError(Error):
    """A bug of UniKV: report it."""

    kind = "internal"


class OutOfMemoryError(Error, MemoryError):
    """It does not fit into the memory budget: close iterators, or allow more."""

    kind = "out_of_memory"


class ForkedError(Error):
    """The process that opened the database has forked, and this is the child."""

    kind = "forked"


class WouldBlockError(Error):
    """A write that may not wait would have to. Nothing changed."""

    kind = "would_block"


class NoSuchKeyspaceError(Error):
    """The keyspace has been dropped or emptied, or there never was one of this name."""

    kind = "no_such_keyspace"


class ConflictError(Error):
    """Another write came between: begin the transaction again. Nothing of it was written."""

    kind = "conflict"


class HistoryGoneError(Error):
    """The changes after this token are not there any more."""

    kind = "history_gone"


class TimedOutError(Error, TimeoutError):
    """The read has taken longer than its `timeout`. Nothing changed."""

    kind = "timed_out"


class IteratorInvalidError(Error):
    """The iterator is on no entry."""

    kind = "iterator_invalid"


# They are shown under the names by which they are used.
for _class in list(globals().values()):
    if isinstance(_class, type) and issubclass(_class, Error):
        _class.__module__ = "unikv"
del _class
