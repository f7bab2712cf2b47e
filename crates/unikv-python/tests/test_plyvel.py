"""What plyvel's own tests, which `make python-check` runs, do not ask of `unikv.plyvel`."""

import functools
import os

import pytest

import unikv
import unikv.plyvel as plyvel


def test_exceptions(tmp_path):
    path = str(tmp_path / "db")
    with pytest.raises(plyvel.IOError):
        plyvel.DB(path)
    assert issubclass(plyvel.IOError, plyvel.Error) and issubclass(plyvel.IOError, OSError)
    with plyvel.DB(path.encode(), create_if_missing=True) as db:
        with pytest.raises(plyvel.IOError):
            plyvel.DB(path)
        for wrong in ("text", bytearray(b"a"), None):
            for call in (db.get, db.delete, lambda key: db.put(key, b""), db.iterator().seek):
                with pytest.raises(TypeError):
                    call(wrong)
        with pytest.raises(TypeError):
            db.iterator(start="a")
        raw = db.raw_iterator()
        for call in (raw.next, raw.prev, raw.key, raw.value, raw.item):
            with pytest.raises(plyvel.IteratorInvalidError):
                call()
        items = db.prefixed_db(b"p").iterator()
    for call in (lambda: db.get(b"a"), lambda: next(items), raw.valid, db.write_batch, db.compact_range):
        with pytest.raises(RuntimeError):
            call()
    plyvel.destroy_db(path)
    plyvel.destroy_db(path)


def bytewise(a, b):
    return (a > b) - (a < b)


def test_comparators(tmp_path):
    path = str(tmp_path / "db")

    def by_length(a, b):
        return bytewise((len(a), a), (len(b), b))

    with pytest.raises(ValueError, match="by their bytes"):
        plyvel.DB(path, create_if_missing=True, comparator=by_length, comparator_name=b"l")
    assert not os.path.exists(path)
    open_it = functools.partial(plyvel.DB, path, comparator=bytewise)
    with open_it(comparator_name=b"mine", create_if_missing=True) as db:
        db.put(b"a", b"1")
    with pytest.raises(plyvel.Error, match="mine"):
        open_it(comparator_name=b"other")
    with pytest.raises(plyvel.Error, match="mine"):
        plyvel.DB(path)
    with open_it(comparator_name=b"mine") as db:
        assert list(db) == [(b"a", b"1")]


def test_the_name_of_a_comparator_is_stored_after_a_kill(tmp_path):
    path = str(tmp_path / "db")
    # What is there when its first process dies before it has stored the name.
    with unikv.open(path) as db:
        db.keyspace(plyvel._NAME_SPACE)
    with plyvel.DB(path, comparator=bytewise, comparator_name=b"mine") as db:
        db.put(b"a", b"1")
    with pytest.raises(plyvel.Error, match="mine"):
        plyvel.DB(path)
    # With data, and without a name, it has the usual order.
    other = str(tmp_path / "other")
    with unikv.open(other) as db:
        db.keyspace(plyvel._NAME_SPACE)
        db.put(b"a", b"1")
    with pytest.raises(plyvel.Error, match="Bytewise"):
        plyvel.DB(other, comparator=bytewise, comparator_name=b"mine")


def make_damaged(path):
    """A database with a thousand records, one of which is damaged."""
    with plyvel.DB(str(path), create_if_missing=True, compression=None) as db:
        with db.write_batch() as batch:
            for n in range(1000):
                batch.put(b"%04d" % n, os.urandom(300))
        db.compact_range()
    plyvel.repair_db(str(path))
    assert os.listdir(path.parent) == [path.name], "there was no damage"
    file = max(path.iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize("exchanges", [True, False])
def test_repair_keeps_the_damaged_database(tmp_path, exchanges, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(plyvel._unikv, "_exchange", lambda path, other: False)
    path = tmp_path / "db"
    make_damaged(path)
    with plyvel.DB(str(path)) as db:
        with pytest.raises(plyvel.CorruptionError):
            list(db)
    plyvel.repair_db(str(path))
    assert sorted(os.listdir(tmp_path)) == ["db", "db.damaged"]
    assert unikv.check(path)["problems"] == []
    with plyvel.DB(str(path)) as db:
        assert len(list(db)) == 999


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_repair_that_fails_at_the_end_leaves_a_database_under_the_name(tmp_path, exchanges, monkeypatch):
    path = tmp_path / "db"
    make_damaged(path)
    rename, calls = os.rename, []

    def fails(source, to):
        calls.append(source)
        if len(calls) == (1 if exchanges else 2):
            raise OSError("no")
        rename(source, to)

    monkeypatch.setattr(os, "rename", fails)
    if not exchanges:
        monkeypatch.setattr(plyvel._unikv, "_exchange", lambda path, other: False)
    with pytest.raises(OSError, match="no"):
        plyvel.repair_db(str(path))
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["db", "db.repairing"]
    assert (unikv.check(path)["problems"] == []) == exchanges
    assert (unikv.check(str(path) + ".repairing")["problems"] == []) != exchanges
    # Whichever it is, and whatever it lacks, the next repair leaves it alone.
    (tmp_path / "db.repairing" / "CURRENT").unlink()
    left = sorted(os.listdir(tmp_path / "db.repairing"))
    (path / "CURRENT").unlink()
    plyvel.repair_db(str(path))
    assert sorted(os.listdir(tmp_path)) == ["db", "db.damaged", "db.repairing"]
    assert unikv.check(path)["problems"] == [] and sorted(os.listdir(tmp_path / "db.repairing")) == left
    with plyvel.DB(str(path)) as db:
        assert len(list(db)) == 999


def test_batches_are_written_in_spite_of_exceptions_unless_they_are_transactions(tmp_path):
    with plyvel.DB(str(tmp_path / "db"), create_if_missing=True) as db:
        for transaction in (False, True):
            with pytest.raises(ZeroDivisionError):
                with db.prefixed_db(b"p").write_batch(transaction=transaction) as batch:
                    batch.put(b"%d" % transaction, b"")
                    1 / 0
        assert list(db.iterator(include_value=False)) == [b"p0"]
        assert [key for key, _ in db.prefixed_db(b"p")] == [b"0"]
        assert list(db.prefixed_db(b"\xff").iterator(reverse=True)) == []
        assert int(db.get_property(b"leveldb.approximate-memory-usage")) > 0
        assert db.get_property(b"leveldb.num-files-at-level7") is None
