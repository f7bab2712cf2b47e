"""What `Database.changes_since` yields."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Put:
    """A key has got a value. `expires` is when it will, in seconds since 1970."""

    keyspace: int
    key: bytes
    value: bytes
    expires: float | None


@dataclass(frozen=True, slots=True)
class Delete:
    """A key was removed."""

    keyspace: int
    key: bytes


@dataclass(frozen=True, slots=True)
class DeleteRange:
    """The keys from `start` to before `stop` were removed; without an end if that is None."""

    keyspace: int
    start: bytes
    stop: bytes | None


@dataclass(frozen=True, slots=True)
class Ingest:
    """Sorted keys were stored: all from `first` to `last` may be others. Read them again."""

    keyspace: int
    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class KeyspaceChange:
    """A keyspace was "made", "renamed", "emptied" or "dropped", or has other "options".

    `name` is the one that it has got; `now` its number from now on, after it was emptied.
    """

    keyspace: int
    event: str
    name: str | None
    now: int | None


Operation = Put | Delete | DeleteRange | Ingest | KeyspaceChange


@dataclass(frozen=True, slots=True)
class Change:
    """A batch with all that it has done, or something else that happened at once.

    Everything up to `token` has been seen. Keyspaces are numbers: see `Keyspace.number`.
    """

    token: str
    commit_tag: bytes | None
    operations: tuple[Operation, ...]
