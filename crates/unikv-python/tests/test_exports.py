"""Exports: what they hold, and what is refused."""

import array

import pytest

import unikv


def rows(count):
    return {b"%04d" % n: b"v%d" % n for n in range(count)}


def test_a_range_comes_back(db, tmp_path):
    db.update(rows(1000))
    db.put(b"0500", b"expires", ttl=1000)
    snapshot = db.snapshot()
    db.delete_range()
    made = snapshot.export(tmp_path / "some", start=b"0100", stop=b"0600")
    assert made["records"] == 500 and made["file_bytes"] == (tmp_path / "some").stat().st_size
    shown = unikv.check_export(tmp_path / "some")
    assert {**shown, **made} == shown and shown["keyspace"] == "default" and shown["time"] > 1.6e9

    copy = db.keyspace("copy")
    copy[b"0100"], copy[b"9"] = b"older", b"stays"
    assert copy.import_(tmp_path / "some") == made
    expected = {key: value for key, value in rows(600).items() if key >= b"0100"}
    assert dict(copy.items()) == {**expected, b"0500": b"expires", b"9": b"stays"}
    assert 0 < copy.ttl(b"0500") <= 1000 and copy.ttl(b"0501") == float("inf")

    assert copy.export(tmp_path / "prefix", prefix=b"02")["records"] == 100
    assert db.import_(tmp_path / "prefix")["records"] == 100
    assert list(db) == [b"%04d" % n for n in range(200, 300)]
    with unikv.open_secondary(db.path) as secondary:
        assert secondary.export(tmp_path / "followed")["records"] == 100
    assert unikv.check_export(tmp_path / "prefix")["keyspace"] == "copy"


def test_what_is_refused_changes_nothing(db, tmp_path):
    db.update(rows(1000))
    path = tmp_path / "all"
    db.export(path)
    with pytest.raises(unikv.InvalidArgumentError):
        db.export(path)
    with pytest.raises(unikv.InvalidArgumentError):
        db.export(db.path / "inside")
    with pytest.raises(unikv.InvalidArgumentError, match="a transaction cannot be exported"):
        db.transaction().export(tmp_path / "none")
    assert not (tmp_path / "none").exists()

    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    db.delete_range()
    with pytest.raises(unikv.CorruptionError) as raised:
        db.import_(path)
    assert str(path) in str(raised.value.file) and list(db) == []
    with pytest.raises(unikv.CorruptionError):
        unikv.check_export(path)
    (tmp_path / "other").write_bytes(b"something else")
    for call in (db.import_, unikv.check_export):
        with pytest.raises(unikv.IncompatibleError):
            call(tmp_path / "other")
    db.close()
    for call in (db.import_, db.export):
        with pytest.raises(unikv.ClosedError):
            call(tmp_path / "after")


def test_get_into(db):
    db[b"a"], db[b"empty"] = b"12345", b""
    for length in range(8):
        buffer = bytearray(b"x" * length)
        assert db.get_into(b"a", buffer) == 5
        assert buffer == b"12345"[:length] + b"x" * (length - 5)
        buffer.append(1)
    buffer = bytearray(b"xyz")
    assert db.get_into(b"none", buffer) is None and db.get_into(b"empty", buffer) == 0
    assert buffer == b"xyz"
    assert db.get_into(b"a", memoryview(buffer)[1:]) == 5 and buffer == b"x12"
    with db.transaction() as txn:
        txn[b"a"] = b"78"
        assert txn.get_into(b"a", buffer) == 2 and buffer == b"782"
    for wrong in (b"bytes", memoryview(buffer)[::2], array.array("i", [1]), "text", None):
        with pytest.raises(TypeError, match="a writable, contiguous buffer"):
            db.get_into(b"a", wrong)
    db.close()
    with pytest.raises(unikv.ClosedError):
        db.get_into(b"a", buffer)
    assert buffer == b"782"


def test_options_are_unset(tmp_path):
    path = tmp_path / "db"
    unikv.open(path, block_bytes="16KiB", default_ttl=60, compression=None).close()
    with unikv.open(path, unset=["block_bytes", "compression"], compression="zstd") as db:
        shown = db.options()
        assert (shown["block_bytes"], shown["default_ttl"], shown["compression"][:4]) == (4096, 60.0, "zstd")
    with unikv.open(path, unset=("default_ttl",)) as db:
        shown = db.options()
        assert (shown["block_bytes"], shown["default_ttl"], shown["compression"][:4]) == (4096, float("inf"), "zstd")
    for wrong in (["none"], ["durability"], "block_bytes", 7, [7]):
        with pytest.raises(unikv.InvalidArgumentError):
            unikv.open(path, unset=wrong)
