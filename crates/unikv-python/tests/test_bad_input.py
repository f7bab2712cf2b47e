"""What is wrong raises an exception of a class, with what to do, and changes nothing."""

import gc
import os
import pickle
import struct

import pytest

import unikv


@pytest.mark.parametrize("wrong", [1, "text", None, 1.5, [1], object()])
def test_wrong_types(db, wrong):
    calls = [
        lambda: db.get(wrong),
        lambda: db[wrong],
        lambda: wrong in db,
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.delete(wrong),
        lambda: db.__setitem__(b"", wrong),
        lambda: db.__delitem__(wrong),
        lambda: db.multi_get([wrong]),
        lambda: db.update({b"": wrong}),
        lambda: db.increment(wrong),
        lambda: db.write_batch().put(wrong, b""),
        lambda: db.raw_iterator().seek(wrong),
        lambda: db.iterator().seek(wrong),
        lambda: db.ttl(wrong),
    ]
    if wrong is not None:
        calls += [lambda: db.items(wrong), lambda: db.iterator(prefix=wrong), lambda: db.count(stop=wrong)]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert list(db) == []


def test_messages(db):
    with pytest.raises(TypeError, match="'str'.*encode"):
        db.get("text")
    with pytest.raises(TypeError):
        db.get(b"a", b"b", b"c")
    with pytest.raises(TypeError, match="keyspace"):
        db.write_batch().put(b"", b"", keyspace=7)


def test_too_long(db):
    for call in (lambda: db.put(b"k" * 70_000, b""), lambda: db.keyspace("k" * 70_000)):
        with pytest.raises(unikv.InvalidArgumentError) as error:
            call()
        assert isinstance(error.value, ValueError) and isinstance(error.value, unikv.Error)
        assert error.value.kind == "invalid_argument" and error.value.remedy
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.put(b"k" * 70_000, b"")
    with pytest.raises(unikv.InvalidArgumentError):
        batch.write()
    txn = db.transaction()
    with pytest.raises(unikv.InvalidArgumentError):
        txn[b"k" * 70_000] = b""
    with pytest.raises(unikv.InvalidArgumentError):
        db.get(b"k" * 70_000)
    assert list(db) == []


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("-inf")])
def test_no_time(db, ttl):
    with pytest.raises(unikv.InvalidArgumentError):
        db.put(b"a", b"1", ttl=ttl)
    assert b"a" not in db


def test_long_times(db):
    db.put(b"a", b"1", ttl=1e300)
    db.put(b"b", b"1", ttl=10**9)
    assert db.ttl(b"a") == float("inf") and db.ttl(b"b") > 10**8
    with pytest.raises(TypeError):
        db.put(b"a", b"1", ttl="soon")


@pytest.mark.parametrize(
    "options",
    [
        {"memory_budget": "much"},
        {"memory_budget": -1},
        {"memory_budget": 1.5},
        {"max_space_amp": "x"},
        {"max_space_amp": 0.1},
        {"durability": "always"},
        {"durability": None},
        {"compression": "snappy"},
        {"default_ttl": "7d"},
        {"block_bytes": "5GiB"},
        {"latencies": "yes"},
        {"clustering": ""},
        {"background_threads": 0},
        {"nosuch": 1},
        {"publish_stats": 0.0001},
    ],
)
def test_options(tmp_path, options):
    with pytest.raises(unikv.InvalidArgumentError) as error:
        unikv.open(tmp_path / "db", **options)
    (name,) = options
    assert name in str(error.value)
    assert not (tmp_path / "db" / "CURRENT").exists()


def test_opening(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(unikv.Error):
        unikv.open(file)
    with pytest.raises(unikv.NotFoundError) as error:
        unikv.open_existing(tmp_path / "none")
    assert error.value.file.endswith("none") and "create" in error.value.remedy
    with pytest.raises(unikv.NotFoundError):
        unikv.open_secondary(tmp_path / "none")
    with pytest.raises(unikv.IncompatibleError):
        unikv.open(tmp_path)
    with pytest.raises(TypeError):
        unikv.open(7)
    with pytest.raises(TypeError):
        unikv.open()
    with pytest.raises((ValueError, unikv.Error)):
        unikv.open("a\0b")
    with unikv.open(tmp_path / "db"):
        with pytest.raises(unikv.LockedError, match="in this process already"):
            unikv.open(tmp_path / "db")
        with pytest.raises(unikv.LockedError):
            unikv.destroy(tmp_path / "db")
    with pytest.raises(unikv.Error):
        unikv.create_new(tmp_path / "db")
    unikv.destroy(tmp_path / "db")
    assert not (tmp_path / "db").exists()


def make(path):
    with unikv.open(path, memory_budget="16MiB") as db:
        db.update({b"%05d" % n: os.urandom(500) for n in range(2000)})
        db.flush()


def largest(path):
    return max(path.iterdir(), key=lambda file: file.stat().st_size)


def test_damage(tmp_path):
    make(tmp_path / "db")
    file = largest(tmp_path / "db")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    assert unikv.check(tmp_path / "db")["problems"]
    with unikv.open(tmp_path / "db") as db:
        errors = 0
        for n in range(2000):
            try:
                assert len(db[b"%05d" % n]) == 500
            except unikv.CorruptionError as error:
                errors += 1
                assert error.kind == "corruption" and error.file.endswith(file.name)
                assert error.offset > 0 and "repair" in error.remedy
                assert str(error.offset) in str(error)
        assert errors == 1
        seen = []
        with pytest.raises(unikv.CorruptionError):
            seen.extend(key for key, _ in db.items())
        assert db.count() == 2000, "the keys are intact"
    report = unikv.repair(tmp_path / "db", tmp_path / "repaired")
    assert report["saved"] == 1999
    with unikv.open_existing(tmp_path / "repaired") as db:
        assert db.count() == 1999


def test_a_newer_format(tmp_path):
    make(tmp_path / "db")
    manifest = next(file for file in (tmp_path / "db").iterdir() if "MANIFEST" in file.name)
    data = bytearray(manifest.read_bytes())
    data[8:12] = struct.pack("<I", 999)
    manifest.write_bytes(data)
    with pytest.raises((unikv.IncompatibleError, unikv.CorruptionError)) as error:
        unikv.open(tmp_path / "db")
    assert error.value.file and error.value.remedy


def test_closed(db, tmp_path):
    db.update({b"%d" % n: b"v" for n in range(100)})
    users = db.keyspace("users")
    typed = db.keyspace("typed", key=unikv.Int)
    batch, txn, snapshot = db.write_batch(), db.transaction(), db.snapshot()
    iterators = [db.items(), db.keys(), snapshot.items(), db.iterator(), db.raw_iterator(), txn.items()]
    for iterator in iterators[:4]:
        next(iterator)
    iterators[4].seek_to_first()
    left = db.close()
    kinds = [open["kind"] for open in left]
    assert set(kinds) == {"snapshot", "transaction", "iterator"} and kinds.count("transaction") == 1
    assert all(0 <= open["age"] < 3600 for open in left)
    assert db.close() == []
    assert db.closed and "closed" in repr(db)
    calls = [
        lambda: db[b"1"],
        lambda: db.get(b"1"),
        lambda: db.put(b"1", b""),
        lambda: db.delete(b"1"),
        lambda: b"1" in db,
        lambda: list(db),
        lambda: db.count(),
        lambda: db.first_key_value(),
        lambda: db.last_key_value(),
        lambda: db.pop_first(),
        lambda: db.pop_last(),
        lambda: db.items(),
        lambda: db.multi_get([b"1"]),
        lambda: db.delete_range(),
        lambda: db.update({}),
        lambda: db.write_batch(),
        lambda: db.snapshot(),
        lambda: db.transaction(),
        lambda: db.transact(lambda txn: None),
        lambda: db.keyspace("users"),
        lambda: db.keyspaces(),
        lambda: db.stats(),
        lambda: db.options(),
        lambda: db.flush(),
        lambda: db.sync(),
        lambda: db.compact(),
        lambda: db.checkpoint(tmp_path / "c"),
        lambda: db.backup(tmp_path / "b"),
        lambda: db.change_token,
        lambda: db.commit_tag,
        lambda: db.__enter__(),
        lambda: db.iterator(),
        lambda: db.raw_iterator(),
        lambda: users[b"1"],
        lambda: users.put(b"1", b"1"),
        lambda: users.name,
        lambda: typed[1],
        lambda: batch.put(b"1", b"1"),
        lambda: batch.write(),
        lambda: snapshot[b"1"],
        lambda: snapshot.items(),
        lambda: txn[b"1"],
        lambda: txn.commit(),
        lambda: iterators[4].key(),
        lambda: iterators[4].next(),
        lambda: iterators[3].prev(),
        *(lambda it=it: next(it) for it in iterators[:4] + iterators[5:]),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(unikv.ClosedError):
            call()
            pytest.fail(f"call {number}")
    for iterator in iterators:
        iterator.close()
    snapshot.close()
    txn.rollback()


def test_with_closes_beside_what_is_open(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with unikv.open(tmp_path / "db") as db:
            db[b"a"] = b"1"
            snapshot, iterator = db.snapshot(), db.items()
            1 / 0
    assert db.closed
    with unikv.open(tmp_path / "db") as again:
        for call in (lambda: snapshot[b"a"], lambda: next(iterator)):
            with pytest.raises(unikv.ClosedError):
                call()
        del snapshot, iterator
        assert again[b"a"] == b"1"


@pytest.mark.parametrize("make", ["snapshot", "transaction", "items", "iterator"])
def test_what_outlives_the_database(make, tmp_path):
    def made():
        db = unikv.open(tmp_path / "db")
        db.update({b"%d" % n: b"v" for n in range(1000)})
        return getattr(db, make)()

    kept = made()
    gc.collect()
    with pytest.raises(unikv.LockedError):
        unikv.open(tmp_path / "db")
    if make == "transaction":
        kept[b"own"] = b"v"
        kept.commit()
    elif make == "snapshot":
        assert kept[b"1"] == b"v"
    else:
        assert sum(1 for _ in kept) == 1000
    del kept
    gc.collect()
    with unikv.open(tmp_path / "db") as db:
        assert db.count() == 1000 + (make == "transaction")


def test_ended_handles(db):
    db[b"a"] = b"1"
    for it in (db.items(), db.iterator(), db.raw_iterator()):
        with it:
            pass
        with pytest.raises(unikv.ClosedError, match="iterator"):
            it.valid() if hasattr(it, "valid") else next(it)
        it.close()
    txn = db.transaction()
    txn.commit()
    for call in (txn.commit, lambda: txn.get(b"a"), lambda: txn.put(b"a", b""), lambda: list(txn)):
        with pytest.raises(unikv.ClosedError, match="transaction"):
            call()


def test_keyspaces_that_are_gone(db):
    users = db.keyspace("users")
    users.update({b"%d" % n: b"v" for n in range(5000)})
    items = users.items()
    next(items)
    batch = users.write_batch()
    batch.put(b"new", b"1")
    users.drop()
    with pytest.raises(unikv.NoSuchKeyspaceError):
        batch.write()
    with pytest.raises(unikv.NoSuchKeyspaceError):
        list(items)
    with pytest.raises(unikv.InvalidArgumentError):
        db.drop_keyspace("default")
    assert db.keyspaces() == ["default"]


def test_keyspaces_of_others(db, tmp_path):
    with unikv.open(tmp_path / "other") as other:
        foreign = other.keyspace("foreign")
        foreign[b"a"] = b"1"
        batch = db.write_batch()
        batch.put(b"a", b"1", keyspace=foreign)
        with pytest.raises(unikv.Error):
            batch.write()
        with pytest.raises(unikv.InvalidArgumentError):
            db.drop_keyspace(foreign)
        assert foreign[b"a"] == b"1"
        with pytest.raises(unikv.Error):
            db.snapshot().keyspace(foreign)[b"a"]
        txn = db.transaction()
        with pytest.raises(unikv.Error):
            txn.keyspace(foreign)[b"a"]
            txn.keyspace(foreign)[b"b"] = b"1"
            txn.commit()


def test_exceptions_can_be_pickled():
    error = unikv.CorruptionError("what", file="f", offset=7, remedy="r")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is unikv.CorruptionError and str(again) == "what"
    assert (again.kind, again.file, again.offset, again.remedy) == ("corruption", "f", 7, "r")
    for name in unikv.__all__:
        kind = getattr(unikv, name)
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, unikv.Error)
            assert str(pickle.loads(pickle.dumps(kind("text", remedy="r")))) == "text"
            assert kind.__module__ == "unikv"


def test_handles_cannot_be_made_or_pickled(db):
    for kind in (unikv.Snapshot, unikv.Keyspace, unikv.Transaction, unikv.Entries, unikv.WriteBatch):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        pickle.dumps(db)
