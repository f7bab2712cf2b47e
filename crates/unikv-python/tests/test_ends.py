"""The first and the last entry, options of reads, keyspaces that are made together, openings by name."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import unikv


def test_ends(db):
    assert db.first_key_value() is None and db.last_key_value() is None
    assert db.pop_first() is None and db.pop_last() is None
    db.update({b"a": b"1", b"b": b"2", b"c": b""})
    users = db.keyspace("users")
    users[b"7"] = b"Ada"
    with db.snapshot() as snapshot, db.transaction() as txn:
        txn[b"A"] = b"0"
        assert db.pop_first() == (b"a", b"1")
        assert snapshot.first_key_value() == (b"a", b"1")
        assert snapshot.keyspace("users").last_key_value() == (b"7", b"Ada")
        assert txn.first_key_value() == (b"A", b"0") and txn.last_key_value() == (b"c", b"")
        assert txn.keyspace("users").first_key_value() == (b"7", b"Ada")
        with pytest.raises(AttributeError):
            snapshot.pop_first()
        txn.rollback()
    assert db.pop_last() == (b"c", b"")
    assert (db.pop_last(), db.pop_last()) == ((b"b", b"2"), None)
    assert (users.pop_last(), users.pop_first()) == ((b"7", b"Ada"), None)


def test_ends_of_ranges(db):
    db.update({b"%c" % letter: b"" for letter in b"abcdef"})
    assert db.pop_first(b"b") == (b"b", b"")
    assert db.pop_last(stop=b"e") == (b"d", b"")
    assert db.pop_first(prefix=b"c") == (b"c", b"") and db.pop_first(prefix=b"c") is None
    assert db.pop_first(b"z", b"a") is None and db.pop_last(b"z", b"a") is None
    assert list(db) == [b"a", b"e", b"f"]
    with pytest.raises(TypeError):
        db.pop_first("a")


def test_ends_of_types(db):
    tasks = db.keyspace("tasks", key=unikv.Int, value=unikv.Json)
    tasks.update({-1: "a", 7: [2], 9: None})
    assert tasks.first_key_value() == (-1, "a") and tasks.last_key_value() == (9, None)
    assert tasks.pop_first(0) == (7, [2]) and tasks.pop_last() == (9, None)
    assert tasks.pop_first() == (-1, "a") and tasks.pop_last() is None
    assert tasks.first_key_value() is None
    names = db.keyspace("names", key=unikv.Str, value=unikv.Str)
    names.update({"ada": "1815", "bob": "1916"})
    assert names.get("ada", fill_cache=False, timeout=60) == "1815"
    options = {"fill_cache": False, "timeout": 60}
    assert list(names.items(**options)) == [("ada", "1815"), ("bob", "1916")]
    assert list(names.keys(reverse=True, **options)) == ["bob", "ada"]
    assert list(names.values("b", **options)) == ["1916"]


def test_each_is_popped_once(db):
    db.update((b"%04d" % number, b"") for number in range(1000))

    def pop(first):
        popped = []
        while entry := db.pop_first() if first else db.pop_last():
            popped.append(entry[0])
        assert popped == sorted(popped, reverse=not first)
        return popped

    with ThreadPoolExecutor(4) as threads:
        popped = [key for keys in threads.map(pop, [True, False, True, False]) for key in keys]
    assert sorted(popped) == [b"%04d" % number for number in range(1000)]
    assert db.count() == 0


@pytest.fixture
def cold(tmp_path):
    """A database whose entries are all on disk."""
    with unikv.open(tmp_path / "cold", memory_budget="16MiB") as db:
        db.update((b"%06d" % number, b"v" * 600) for number in range(4000))
        db.compact()
    with unikv.open(tmp_path / "cold") as db:
        yield db


def test_timeouts(cold):
    """A time that has passed already lets nothing be read from the device."""
    reads = [
        lambda **options: cold.get(b"000007", **options),
        lambda **options: cold.snapshot().get(b"000007", **options),
        lambda **options: list(cold.items(**options)),
        lambda **options: list(cold.keys(reverse=True, **options)),
        lambda **options: list(cold.values(b"001", **options)),
        lambda **options: list(cold.iterator(**options)),
        lambda **options: next(cold.iterator(reverse=True, **options)),
        lambda **options: cold.raw_iterator(**options).seek_to_first(),
    ]
    for read in reads:
        with pytest.raises(unikv.TimedOutError) as error:
            read(timeout=0)
        assert error.value.kind == "timed_out" and error.value.remedy
        assert isinstance(error.value, TimeoutError) and "0" in str(error.value)
        copy = pickle.loads(pickle.dumps(error.value))
        assert type(copy) is unikv.TimedOutError and str(copy) == str(error.value)
        with pytest.raises(unikv.TimedOutError):
            read(timeout=timedelta())
    for read in reads:
        read(timeout=None)
        read(timeout=float("inf"))
        read(timeout=timedelta(hours=1), fill_cache=True)


def test_what_is_in_memory_is_found_in_any_case(db):
    db[b"a"] = b"1"
    assert db.get(b"a", timeout=0) == b"1"
    assert db.get(b"b", 7, timeout=0) == 7
    with db.transaction() as txn:
        txn[b"a"] = b"2"
        assert txn.get(b"a", timeout=0, fill_cache=False) == b"2"


def test_no_time(db):
    for timeout in (-1, float("nan"), timedelta(seconds=-1)):
        for call in (db.get, db.items, db.iterator):
            arguments = [b"a"] if call == db.get else []
            with pytest.raises(unikv.InvalidArgumentError):
                call(*arguments, timeout=timeout)
    with pytest.raises(TypeError):
        db.get(b"a", timeout="1s")
    with pytest.raises(TypeError):
        db.items(fill_cache=3)
    with pytest.raises(TypeError):
        db.get(b"a", None, False)


def test_the_cache_is_left_as_it_is(cold):
    def cached():
        return cold.stats()["cache_bytes"]

    # Lists of blocks stay in the cache in any case.
    assert len(list(cold.items(fill_cache=False))) == 4000
    cold.wait_until_idle()
    before = cached()
    some = [b"%06d" % number for number in range(0, 4000, 100)]
    assert all(cold.get(key, fill_cache=False) for key in some)
    it = cold.iterator(fill_cache=False)
    assert next(it)[0] == b"000000" and it.prev()[0] == b"000000"
    raw = cold.raw_iterator(fill_cache=False)
    raw.seek(b"003000")
    assert raw.value() == b"v" * 600
    assert cached() - before < 600
    assert all(cold.get(key) for key in some)
    assert cached() - before > 20 * 600


def test_many_keyspaces(db):
    made = db.create_keyspaces(["users", "mails", "visits"], default_ttl=60)
    assert [keyspace.name for keyspace in made] == ["users", "mails", "visits"]
    made[1][b"1"] = b"hello"
    assert 0 < made[1].ttl(b"1") <= 60
    again = db.create_keyspaces(f"{name}s" for name in ("user", "day"))
    assert again[0].number == made[0].number
    assert db.create_keyspaces([]) == []
    typed = db.keyspace("visits", key=unikv.Int)
    db.drop_keyspaces([made[0], typed, "mails"])
    assert db.keyspaces() == ["default", "days"]
    with pytest.raises(unikv.NoSuchKeyspaceError):
        made[1][b"1"]
    db.drop_keyspaces([])


def test_many_keyspaces_or_none(db, tmp_path):
    for wrong in ("users", b"users", 7, [7], [None]):
        with pytest.raises(TypeError):
            db.create_keyspaces(wrong)
        with pytest.raises(TypeError):
            db.drop_keyspaces(wrong)
    with pytest.raises(unikv.InvalidArgumentError):
        db.create_keyspaces(["users", "k" * 70_000])
    with pytest.raises(unikv.InvalidArgumentError):
        db.create_keyspaces(["users"], compression="snappy")
    assert db.keyspaces() == ["default"]
    users = db.keyspace("users")
    with pytest.raises(unikv.NoSuchKeyspaceError):
        db.drop_keyspaces([users, "nobody"])
    with unikv.in_memory() as other:
        with pytest.raises(unikv.InvalidArgumentError):
            db.drop_keyspaces([users, other.keyspace("users")])
    assert db.keyspaces() == ["default", "users"]
    db.close()
    for call in (db.create_keyspaces, db.drop_keyspaces):
        with pytest.raises(unikv.ClosedError):
            call([])


def test_openings(tmp_path):
    path = tmp_path / "db"
    with pytest.raises(unikv.NotFoundError):
        unikv.open_existing(path)
    with unikv.create_new(path, memory_budget="16MiB") as db:
        assert isinstance(db, unikv.Database) and db.path == path
        db[b"a"] = b"1"
        with pytest.raises(unikv.LockedError):
            unikv.open_existing(path)
    with pytest.raises(unikv.InvalidArgumentError):
        unikv.create_new(path)
    with unikv.open_existing(path) as db:
        assert db[b"a"] == b"1" and db.options()["memory_budget"] == 16 << 20
    for call in (unikv.open_existing, unikv.create_new):
        with pytest.raises(unikv.InvalidArgumentError, match="nosuch"):
            call(path, nosuch=1)
        with pytest.raises(TypeError):
            call(7)
    with pytest.raises(unikv.InvalidArgumentError, match="in_memory"):
        unikv.open(path, in_memory=True)
    with unikv.in_memory(memory_budget="16MiB") as db:
        db[b"a"] = b"2"
        db.checkpoint(tmp_path / "copy")
    with unikv.open_existing(tmp_path / "copy") as db:
        assert db[b"a"] == b"2"
