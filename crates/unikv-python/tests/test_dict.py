"""What a database has in common with a dict."""

import array
import mmap
from datetime import timedelta

import pytest

import unikv


def test_get_put_delete(db):
    assert db.get(b"a") is None
    assert db.get(b"a", 7) == 7
    db[b"a"] = b"1"
    db.put(b"b", b"2", sync=True)
    assert (db[b"a"], db.get(b"b"), b"a" in db, b"c" in db) == (b"1", b"2", True, False)
    del db[b"a"]
    db.delete(b"a")
    assert b"a" not in db
    with pytest.raises(KeyError) as missing:
        db[b"a"]
    assert missing.value.args == (b"a",)
    with pytest.raises(KeyError):
        del db[b"a"]


def test_empty_keys_and_values(db):
    db[b""] = b""
    assert db[b""] == b""
    assert list(db.items()) == [(b"", b"")]
    assert list(db.keys(prefix=b"")) == [b""]


def test_bytes_like(db, tmp_path):
    values = [b"x", bytearray(b"x"), memoryview(b"xyz")[:1], memoryview(b"x1y1")[::4], array.array("B", [120])]
    for number, value in enumerate(values):
        db[b"%d" % number] = value
        assert db[b"%d" % number] == b"x"
        assert type(db[b"%d" % number]) is bytes
        key = memoryview(b"key %d" % number)
        db[key] = b"y"
        assert db[bytes(key)] == b"y" == db[bytearray(key)]
    file = tmp_path / "file"
    file.write_bytes(b"z" * 10000)
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        db[b"mapped"] = mapped
    assert db[b"mapped"] == b"z" * 10000
    db[b"wide"] = array.array("i", [1, 2])
    assert db[b"wide"] == array.array("i", [1, 2]).tobytes()


def test_len_points_to_count(db):
    db.update({b"a": b"1", b"b": b"2"})
    with pytest.raises(TypeError, match="count"):
        len(db)
    assert bool(db)
    assert list(db) == [b"a", b"b"] == list(db.keys())
    assert list(reversed(db)) == [b"b", b"a"]
    assert (db.count(), db.count(start=b"b"), db.count(prefix=b"c")) == (2, 1, 0)
    assert dict(db) == {b"a": b"1", b"b": b"2"}


def test_ranges(db):
    keys = [b"a", b"aa", b"ab", b"b", b"b\xff", b"b\xff\xff", b"c", b"\xff", b"\xff\xff"]
    db.update([(key, key) for key in keys])
    keys.sort()

    def expected(start=None, stop=None, prefix=b""):
        return [
            k
            for k in keys
            if (start is None or k >= start) and (stop is None or k < stop) and k.startswith(prefix)
        ]

    bounds = [None, b"", b"a", b"aaa", b"b\xff", b"c", b"\xff", b"\xff\xff\xff"]
    for start in bounds:
        for stop in bounds:
            for prefix in (b"", b"a", b"b\xff", b"\xff", b"x"):
                want = expected(start, stop, prefix)
                assert list(db.keys(start, stop, prefix)) == want
                assert list(db.values(start, stop, prefix, reverse=True)) == want[::-1]
                assert list(db.items(start=start, stop=stop, prefix=prefix)) == [(k, k) for k in want]
                assert db.count(start, stop, prefix) == len(want)


def test_more_entries_than_a_block(db):
    entries = [(b"%06d" % n, b"v%d" % n) for n in range(5000)]
    db.update(entries)
    assert list(db.items()) == entries
    assert list(db.items(reverse=True)) == entries[::-1]
    db.flush()
    db.compact()
    assert list(db.items()) == entries
    iterator = db.items()
    first = [next(iterator) for _ in range(700)]
    db.delete_range()
    assert first + list(iterator) == entries, "it shows the moment of its beginning"
    assert list(db) == []


def test_batches(db):
    db[b"old"] = b"1"
    with db.write_batch() as batch:
        batch.put(b"a", b"1")
        batch[b"b"] = b"2"
        batch.delete(b"old")
        assert len(batch) == 3 and batch.approximate_size() > 0
        assert list(db) == [b"old"]
    assert list(db.items()) == [(b"a", b"1"), (b"b", b"2")]
    with pytest.raises(ZeroDivisionError):
        with db.write_batch() as batch:
            batch.put(b"never", b"")
            1 / 0
    assert b"never" not in db
    batch = db.write_batch(sync=True)
    other = db.write_batch()
    other.put(b"c", b"3")
    batch.append(other)
    batch.delete_range(b"a", b"b")
    batch.append(batch)
    batch.set_commit_tag(b"here")
    batch.write()
    assert list(db) == [b"b", b"c"]
    assert db.commit_tag == b"here"
    batch.clear()
    assert len(batch) == 0 and bool(batch)


def test_snapshots(db):
    db[b"a"] = b"1"
    users = db.keyspace("users")
    users[b"u"] = b"1"
    with db.snapshot() as snapshot:
        db[b"a"] = b"2"
        users[b"u"] = b"2"
        assert snapshot[b"a"] == b"1"
        assert list(snapshot.items()) == [(b"a", b"1")]
        assert snapshot.keyspace("users")[b"u"] == b"1" == snapshot.keyspace(users)[b"u"]
        with pytest.raises(TypeError):
            snapshot[b"a"] = b"3"
    with pytest.raises(unikv.ClosedError):
        snapshot[b"a"]
    snapshot.close()


def test_keyspaces(db):
    users = db.keyspace("users", compression="zstd:3", default_ttl=timedelta(days=1))
    users[b"7"] = b"Ada"
    assert b"7" not in db and db.keyspaces() == ["default", "users"]
    assert 0 < users.ttl(b"7") <= 86400
    with db.write_batch() as batch:
        batch.put(b"8", b"Bob", keyspace=users)
        batch.put(b"9", b"Cyd", keyspace="users", ttl=float("inf"))
        batch.put(b"x", b"y")
        batch.delete(b"7", keyspace=users)
    assert list(users) == [b"8", b"9"] and list(db) == [b"x"]
    assert users.ttl(b"9") == float("inf")
    with users.write_batch() as batch:
        batch.put(b"10", b"Dan")
    assert b"10" in users and b"10" not in db
    users.rename("people")
    assert users.name == "people" and users.number > 0
    users.truncate()
    assert list(users) == []
    users[b"7"] = b"again"
    users.drop()
    assert db.keyspaces() == ["default"]
    with pytest.raises(unikv.NoSuchKeyspaceError):
        users[b"7"]
    with pytest.raises(unikv.NoSuchKeyspaceError, match="people"):
        db.drop_keyspace("people")


def test_more_of_a_dict(db):
    assert db.setdefault(b"a", b"1") == b"1" == db.setdefault(b"a", b"2")
    assert db.pop(b"a") == b"1"
    assert db.pop(b"a", None) is None
    with pytest.raises(KeyError):
        db.pop(b"a")
    assert db.compare_and_swap(b"a", None, b"1")
    assert not db.compare_and_swap(b"a", None, b"2")
    assert db.compare_and_swap(b"a", b"1", None) and b"a" not in db
    assert [db.increment(b"n"), db.increment(b"n", -5)] == [1, -4]
    db[b"word"] = b"range"
    assert (db.value_len(b"word"), db.value_len(b"none")) == (5, None)
    assert db.get_range(b"word", 1, 3) == b"an" and db.get_range(b"none") is None
    assert db.get_range(b"word", 3, 1) == b"" and db.get_range(b"word", 9) == b""
    assert db.multi_get([b"word", b"none", bytearray(b"word")]) == [b"range", None, b"range"]
    assert db.multi_get(b for b in ()) == []


def test_expiry(db):
    db.put(b"a", b"1", ttl=0.05)
    db.put(b"b", b"1", ttl=timedelta(hours=1))
    db[b"c"] = b"1"
    assert 3000 < db.ttl(b"b") <= 3600
    assert db.ttl(b"c") == float("inf") and db.ttl(b"d") is None
    assert db.expire(b"c", 60) and db.ttl(b"c") <= 60
    assert db.clear_ttl(b"c") and not db.clear_ttl(b"c") and db.ttl(b"c") == float("inf")
    assert not db.expire(b"d", 60)
    with db.write_batch() as batch:
        batch.put(b"e", b"1", ttl=60)
    assert db.ttl(b"e") <= 60
    import time

    deadline = time.monotonic() + 10
    while b"a" in db and time.monotonic() < deadline:
        time.sleep(0.01)
    assert db.get(b"a") is None and list(db) == [b"b", b"c", b"e"]


def test_options(tmp_path):
    from typing import get_type_hints

    path = tmp_path / "db"
    options = {
        "memory_budget": "32MB",
        "max_space_amp": 1.25,
        "durability": 0.1,
        "compression": "zstd:7",
        "default_ttl": timedelta(days=7),
        "inline_value_bytes": "1KiB",
        "block_bytes": 8192,
        "clustering": "least_writing",
        "background_threads": 3,
        "latencies": True,
        "slow_after": 0.5,
        "change_window_bytes": "1MiB",
    }
    with unikv.open(path, **options) as db:
        shown = db.options()
        assert shown["memory_budget"] == 32_000_000
        assert shown["inline_value_bytes"] == 1024
        assert shown["default_ttl"] == 7 * 86400
        for name in ("max_space_amp", "durability", "compression", "clustering", "slow_after"):
            assert shown[name] == options[name]
    # All that an open database shows is an option here, and can be set to what is shown.
    hints = get_type_hints(unikv.Options)
    assert set(shown) | {"unset"} == set(hints)
    with unikv.open(path, **{name: value for name, value in shown.items() if value is not None}) as db:
        assert db.options() == shown
    with unikv.open(path, compression=None) as db:
        assert db.options()["compression"] is None and db.options()["durability"] == "buffered"


def test_reopen_checkpoint_backup(db, tmp_path):
    db.update({b"%d" % n: b"v" * 100 for n in range(1000)})
    db.checkpoint(tmp_path / "checkpoint")
    point = db.backup(tmp_path / "backups")
    db[b"later"] = b"1"
    second = db.backup(tmp_path / "backups")
    assert second["number"] > point["number"] and second["bytes"] > 0
    points = unikv.backup_points(tmp_path / "backups")
    assert [p["number"] for p in points] == [point["number"], second["number"]]
    unikv.restore(tmp_path / "backups", point["number"], tmp_path / "restored")
    for name in ("checkpoint", "restored"):
        assert unikv.check(tmp_path / name)["problems"] == []
        with unikv.open_existing(tmp_path / name) as other:
            assert other.count() == 1000 and b"later" not in other
    db.close()
    with unikv.open(tmp_path / "db") as again:
        assert again.count() == 1001


def test_follow(db, tmp_path):
    db[b"a"] = b"1"
    db.keyspace("users")[b"u"] = b"1"
    with unikv.open_secondary(tmp_path / "db", refresh_every=None) as secondary:
        db[b"a"] = b"2"
        assert secondary[b"a"] == b"1"
        before = secondary.snapshot()
        secondary.refresh()
        assert (secondary[b"a"], before[b"a"]) == (b"2", b"1")
        assert secondary.keyspaces() == ["default", "users"]
        assert secondary.keyspace("users")[b"u"] == b"1"
        assert secondary.snapshot().keyspace("users")[b"u"] == b"1"
        assert list(secondary.items()) == [(b"a", b"2")] == list(secondary.iterator())
        secondary.checkpoint(tmp_path / "copy")
        assert secondary.backup(tmp_path / "backups")["bytes"] > 0
        with unikv.open_existing(tmp_path / "copy") as copy:
            assert copy[b"a"] == b"2" and copy.keyspaces() == ["default", "users"]
        assert secondary.seq > 0 and secondary.stats()["has_writer"] is True
        with pytest.raises(unikv.NoSuchKeyspaceError):
            secondary.keyspace("none")
        with pytest.raises(TypeError):
            secondary[b"a"] = b"3"
    with pytest.raises(unikv.ClosedError):
        secondary[b"a"]
    secondary.close()


def test_stats(db):
    db[b"a"] = b"1"
    stats = db.stats()
    assert stats["puts"] == 1 and isinstance(stats["partitions"], list)
    assert db.approximate_size(b"a", b"z") >= 0 == db.keyspace("k").approximate_size()
    assert "db" in repr(db) and "closed" not in repr(db)


def test_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with unikv.in_memory(memory_budget="16MiB") as db:
        db.update({b"%04d" % n: b"v" * 100 for n in range(1000)})
        db.compact()
        assert db.count() == 1000 and list(tmp_path.iterdir()) == []
        db.checkpoint("kept")
    with unikv.open_existing("kept") as kept:
        assert kept.count() == 1000 and (str(db.path), str(kept.path)) == (":memory:", "kept")
