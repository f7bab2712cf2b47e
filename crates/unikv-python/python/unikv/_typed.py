"""Keyspaces whose keys and values are of a type, and the types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from ._errors import InvalidArgumentError

if TYPE_CHECKING:
    from ._unikv import Keyspace, Snapshot, Transaction, TransactionKeyspace

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
D = TypeVar("D")


class Codec(Protocol[T]):
    """How values of a type become bytes. For keys, the order of the bytes is that of the keys."""

    def encode(self, value: T, /) -> bytes:
        """The bytes of a value."""

    def decode(self, data: bytes, /) -> T:
        """The value of bytes."""


class _Bytes:
    """Bytes, as they are."""

    def encode(self, value: bytes, /) -> bytes:
        # Not bytes(value) of anything: that of a number is as many zeros.
        return value if isinstance(value, bytes) else bytes(memoryview(value))

    def decode(self, data: bytes, /) -> bytes:
        return data

    def encode_prefix(self, prefix: bytes, /) -> bytes:
        return self.encode(prefix)

    def __repr__(self) -> str:
        return "unikv.Bytes"


class _Str:
    """Text, as UTF-8; ordered by code points."""

    def encode(self, value: str, /) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"a str is needed, not {type(value).__name__!r}")
        return value.encode()

    def decode(self, data: bytes, /) -> str:
        return data.decode()

    def encode_prefix(self, prefix: str, /) -> bytes:
        return self.encode(prefix)

    def __repr__(self) -> str:
        return "unikv.Str"


class _Int:
    """Integers of 64 bits, in the order of numbers."""

    def encode(self, value: int, /) -> bytes:
        if not isinstance(value, int):
            raise TypeError(f"an int is needed, not {type(value).__name__!r}")
        try:
            return (value + (1 << 63)).to_bytes(8, "big")
        except OverflowError:
            remedy = "use numbers of 64 bits"
            raise InvalidArgumentError(f"{value} is too large ({remedy})", remedy=remedy) from None

    def decode(self, data: bytes, /) -> int:
        if len(data) != 8:
            raise InvalidArgumentError(f"{len(data)} bytes are no number", remedy="use 8")
        return int.from_bytes(data, "big") - (1 << 63)

    def __repr__(self) -> str:
        return "unikv.Int"


class _Json:
    """What JSON can say. For values: as keys it has no useful order."""

    def encode(self, value: Any, /) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, data: bytes, /) -> Any:
        return json.loads(data)

    def __repr__(self) -> str:
        return "unikv.Json"


Bytes = _Bytes()
Str = _Str()
Int = _Int()
Json = _Json()

Time = float | timedelta


class TypedKeyspace(Generic[K, V]):
    """A keyspace with keys and values of a type: made by `Database.keyspace(name, key=, value=)`.

    `untyped` is the keyspace itself, with all its methods. `at(transaction)` and `at(snapshot)` are
    the same keys and values as those see them.
    """

    __slots__ = ("untyped", "_key", "_value")

    untyped: Keyspace
    _key: Codec[K]
    _value: Codec[V]

    def __init__(
        self, untyped: Keyspace, key: Codec[K] | None = None, value: Codec[V] | None = None
    ) -> None:
        self.untyped = untyped
        self._key = Bytes if key is None else key  # type: ignore[assignment]
        self._value = Bytes if value is None else value  # type: ignore[assignment]
        for codec in (self._key, self._value):
            if not (hasattr(codec, "encode") and hasattr(codec, "decode")):
                raise TypeError(f"{codec!r} has no encode() and decode(): use unikv.Str or the like")

    def __repr__(self) -> str:
        return f"<unikv.TypedKeyspace of {self._key!r} and {self._value!r} in {self.untyped!r}>"

    def at(self, moment: Snapshot | Transaction) -> TypedKeyspace[K, V]:
        """The same keyspace as a snapshot or a transaction sees it."""
        seen: Any = moment.keyspace(self.untyped)
        return TypedKeyspace(seen, self._key, self._value)

    def _bound(self, key: K | None) -> bytes | None:
        return None if key is None else self._key.encode(key)

    def _entry(self, entry: tuple[bytes, bytes]) -> tuple[K, V]:
        return self._key.decode(entry[0]), self._value.decode(entry[1])

    def _prefix(self, prefix: Any) -> bytes | None:
        if prefix is None:
            return None
        encode = getattr(self._key, "encode_prefix", None)
        if encode is None:
            raise TypeError(f"keys of {self._key!r} have no prefixes")
        data: bytes = encode(prefix)
        return data

    @overload
    def get(self, key: K, *, fill_cache: bool = True, timeout: Time | None = None) -> V | None: ...
    @overload
    def get(
        self, key: K, default: D, *, fill_cache: bool = True, timeout: Time | None = None
    ) -> V | D: ...
    def get(
        self,
        key: K,
        default: Any = None,
        *,
        fill_cache: bool = True,
        timeout: Time | None = None,
    ) -> Any:
        """The value of a key, or `default` if it has none; see `Database.get`."""
        key_data = self._key.encode(key)
        data = self.untyped.get(key_data, fill_cache=fill_cache, timeout=timeout)
        return default if data is None else self._value.decode(data)

    def __getitem__(self, key: K) -> V:
        data = self.untyped.get(self._key.encode(key))
        if data is None:
            raise KeyError(key)
        return self._value.decode(data)

    def __contains__(self, key: K) -> bool:
        return self._key.encode(key) in self.untyped

    def __setitem__(self, key: K, value: V) -> None:
        self.untyped[self._key.encode(key)] = self._value.encode(value)

    def __delitem__(self, key: K) -> None:
        try:
            del self.untyped[self._key.encode(key)]
        except KeyError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def __reversed__(self) -> Iterator[K]:
        return self.keys(reverse=True)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.untyped)

    def put(
        self,
        key: K,
        value: V,
        *,
        ttl: Time | None = None,
        sync: bool = False,
        no_wait: bool = False,
    ) -> None:
        """Stores a value, as `Database.put`."""
        data = self._value.encode(value)
        # What a transaction writes is committed as its options say.
        options: dict[str, bool] = {"sync": True} if sync else {}
        if no_wait:
            options["no_wait"] = True
        self.untyped.put(self._key.encode(key), data, ttl=ttl, **options)

    def delete(self, key: K) -> None:
        """Removes a key; one that is not there is no error."""
        self.untyped.delete(self._key.encode(key))

    def update(self, other: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Stores what a mapping has, or pairs, all of it or nothing."""
        items = other.items() if isinstance(other, Mapping) else other
        self.untyped.update([(self._key.encode(k), self._value.encode(v)) for k, v in items])

    def multi_get(self, keys: Iterable[K]) -> list[V | None]:
        """The values of several keys as of one moment; None for those without."""
        found = self.untyped.multi_get([self._key.encode(key) for key in keys])
        return [None if data is None else self._value.decode(data) for data in found]

    def compare_and_swap(self, key: K, expected: V | None, new: V | None) -> bool:
        """Puts `new` in the place of `expected`; whether that was the value."""
        before, after = (None if v is None else self._value.encode(v) for v in (expected, new))
        return self.untyped.compare_and_swap(self._key.encode(key), before, after)

    def first_key_value(self) -> tuple[K, V] | None:
        """The entry with the least key, or None if there is none."""
        entry = self.untyped.first_key_value()
        return None if entry is None else self._entry(entry)

    def last_key_value(self) -> tuple[K, V] | None:
        """The entry with the greatest key, or None if there is none."""
        entry = self.untyped.last_key_value()
        return None if entry is None else self._entry(entry)

    def pop_first(
        self, start: K | None = None, stop: K | None = None, prefix: K | None = None
    ) -> tuple[K, V] | None:
        """Removes the entry with the least key, and returns it, as `Database.pop_first`."""
        bounds = (self._bound(start), self._bound(stop), self._prefix(prefix))
        entry = self.untyped.pop_first(*bounds)
        return None if entry is None else self._entry(entry)

    def pop_last(
        self, start: K | None = None, stop: K | None = None, prefix: K | None = None
    ) -> tuple[K, V] | None:
        """Removes the entry with the greatest key, and returns it, as `Database.pop_last`."""
        bounds = (self._bound(start), self._bound(stop), self._prefix(prefix))
        entry = self.untyped.pop_last(*bounds)
        return None if entry is None else self._entry(entry)

    def items(
        self,
        start: K | None = None,
        stop: K | None = None,
        prefix: K | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
        timeout: Time | None = None,
    ) -> Iterator[tuple[K, V]]:
        """The entries in the order of their keys, as `Database.items`."""
        bounds = (self._bound(start), self._bound(stop), self._prefix(prefix), reverse)
        entries = self.untyped.items(*bounds, fill_cache=fill_cache, timeout=timeout)
        return map(self._entry, entries)

    def keys(
        self,
        start: K | None = None,
        stop: K | None = None,
        prefix: K | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
        timeout: Time | None = None,
    ) -> Iterator[K]:
        """The keys in their order."""
        bounds = (self._bound(start), self._bound(stop), self._prefix(prefix), reverse)
        keys = self.untyped.keys(*bounds, fill_cache=fill_cache, timeout=timeout)
        return map(self._key.decode, keys)

    def values(
        self,
        start: K | None = None,
        stop: K | None = None,
        prefix: K | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
        timeout: Time | None = None,
    ) -> Iterator[V]:
        """The values in the order of their keys."""
        bounds = (self._bound(start), self._bound(stop), self._prefix(prefix), reverse)
        values = self.untyped.values(*bounds, fill_cache=fill_cache, timeout=timeout)
        return map(self._value.decode, values)

    def count(
        self, start: K | None = None, stop: K | None = None, prefix: K | None = None
    ) -> int:
        """How many keys there are; each is read for it."""
        return self.untyped.count(self._bound(start), self._bound(stop), self._prefix(prefix))

    def delete_range(self, start: K | None = None, stop: K | None = None) -> None:
        """Removes all keys from `start` to before `stop`."""
        self.untyped.delete_range(self._bound(start), self._bound(stop))

    def ttl(self, key: K) -> float | None:
        """For how many seconds the value of a key lives from now on, as `Database.ttl`."""
        return self.untyped.ttl(self._key.encode(key))

    def expire(self, key: K, ttl: Time) -> bool:
        """Has the value of a key expire after `ttl`; whether there is one."""
        return self.untyped.expire(self._key.encode(key), ttl)

    def clear_ttl(self, key: K) -> bool:
        """Has the value of a key never expire; whether it would have."""
        return self.untyped.clear_ttl(self._key.encode(key))
