import threading

import pytest

import unikv
from conftest import HANGS


def test_commit_and_rollback(db):
    with db.transaction() as txn:
        txn[b"a"] = b"1"
        txn.put(b"b", b"2", ttl=60)
        assert txn[b"a"] == b"1" and b"a" not in db
    assert (db[b"a"], db.ttl(b"b") <= 60) == (b"1", True)
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as txn:
            txn[b"never"] = b"1"
            1 / 0
    assert b"never" not in db
    txn = db.transaction("snapshot")
    del txn[b"a"]
    txn.delete_range(b"b", b"c")
    assert list(txn) == []
    txn.set_savepoint()
    txn[b"c"] = b"3"
    assert txn.rollback_to_savepoint() and not txn.rollback_to_savepoint()
    assert list(txn.items()) == []
    txn.commit(sync=True)
    assert list(db) == []
    with pytest.raises(unikv.InvalidArgumentError):
        db.transaction("none")


def test_conflicts(db):
    db[b"a"] = b"1"
    txn = db.transaction()
    txn[b"b"] = txn[b"a"]
    db[b"a"] = b"2"
    with pytest.raises(unikv.ConflictError) as error:
        txn.commit()
    assert error.value.kind == "conflict" and b"b" not in db
    txn = db.transaction("snapshot")
    txn[b"b"] = txn[b"a"]
    db[b"a"] = b"3"
    txn.commit()
    assert db[b"b"] == b"2"
    txn = db.transaction("snapshot")
    txn[b"b"] = txn.get_for_update(b"a")
    db[b"a"] = b"4"
    with pytest.raises(unikv.ConflictError):
        txn.commit()


def test_keyspaces(db):
    users = db.keyspace("users", key=unikv.Int, value=unikv.Json)
    raw = db.keyspace("raw")
    with db.transaction() as txn:
        mine = users.at(txn)
        mine[7] = {"name": "Ada"}
        assert mine[7] == {"name": "Ada"} and 7 not in users
        assert list(mine.items()) == [(7, {"name": "Ada"})]
        there = txn.keyspace("raw")
        there.put(b"k", b"v", ttl=60)
        there[b"l"] = b"w"
        assert list(there.items()) == [(b"k", b"v"), (b"l", b"w")]
        assert there.get_for_update(b"k") == b"v"
        del there[b"l"]
        assert txn.count() == 0
    assert users[7] == {"name": "Ada"} and list(raw) == [b"k"]


def test_transact_runs_again(db):
    db[b"n"] = b"0"
    calls = []

    def add(txn, by, *, name):
        calls.append(name)
        value = int(txn[b"n"]) + by
        if len(calls) == 1:
            db[b"n"] = b"100"
        txn[b"n"] = b"%d" % value
        return value

    assert db.transact(add, 5, name="x") == 105
    assert calls == ["x", "x"] and db[b"n"] == b"105"


def test_transact_with_errors(db):
    def fail(txn):
        txn[b"never"] = b"1"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        db.transact(fail)

    def conflict(txn):
        calls.append(1)
        txn[b"never"] = txn.get(b"a", b"")
        db[b"a"] = b"%d" % len(calls)

    calls = []
    with pytest.raises(unikv.ConflictError):
        db.transact(conflict)
    assert len(calls) == 20 and b"never" not in db
    with pytest.raises(TypeError):
        db.transact(lambda: None)
    with pytest.raises(TypeError):
        db.transact(7)

    def ends(txn):
        txn[b"kept"] = b"1"
        txn.commit()
        return txn

    txn = db.transact(ends)
    assert db[b"kept"] == b"1"

    def rolls_back(txn):
        txn[b"never"] = b"1"
        txn.rollback()

    db.transact(rolls_back)
    assert b"never" not in db
    with pytest.raises(unikv.ClosedError):
        txn[b"a"]


def test_transact_in_many_threads(db):
    @db.transactional
    def add(txn, by=1):
        """Adds."""
        value = int(txn.get(b"n", b"0")) + by
        txn[b"n"] = b"%d" % value
        return value

    assert add.__name__ == "add" and add.__doc__ == "Adds."
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.extend(add() for _ in range(50)), daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(1, 201)) and db[b"n"] == b"200"
