import os
import signal
import threading
import time

import pytest

import unikv


@pytest.fixture
def db(tmp_path):
    with unikv.open(tmp_path / "db", change_window_bytes="1MiB", memory_budget="16MiB") as db:
        yield db


def test_changes(db):
    token = db.change_token
    users = db.keyspace("users")
    users.put(b"u", b"1", ttl=60)
    with db.write_batch(sync=True) as batch:
        batch.put(b"a", b"1")
        batch.delete(b"b")
        batch.delete_range(b"c", None)
        batch.set_commit_tag(b"m")
    changes = list(db.changes_since(token, timeout=0))
    made, put, write = changes
    assert made.operations == (unikv.KeyspaceChange(users.number, "made", "users", None),)
    (op,) = put.operations
    assert (op.keyspace, op.key, op.value) == (users.number, b"u", b"1")
    assert 0 < op.expires - time.time() <= 60
    assert write.commit_tag == b"m"
    assert write.operations == (
        unikv.Put(0, b"a", b"1", None),
        unikv.Delete(0, b"b"),
        unikv.DeleteRange(0, b"c", None),
    )
    assert list(db.changes_since(put.token, timeout=0)) == [write]
    feed = db.changes_since(write.token, timeout=0)
    assert list(feed) == [] and feed.token == write.token
    users.truncate()
    users.drop()
    events = [change.operations[0].event for change in db.changes_since(write.token, timeout=0)]
    assert events == ["emptied", "dropped"]


def test_unsynced_and_waiting(db):
    token = db.change_token
    db[b"a"] = b"1"
    assert list(db.changes_since(token, timeout=0)) == []
    (change,) = db.changes_since(token, timeout=0, include_unsynced=True)
    feed = db.changes_since(change.token)
    thread = threading.Timer(0.1, lambda: db.put(b"b", b"2", sync=True))
    thread.start()
    assert next(feed).operations == (unikv.Put(0, b"b", b"2", None),)
    thread.join()
    began = time.monotonic()
    assert list(db.changes_since(feed.token, timeout=0.2)) == []
    assert time.monotonic() - began >= 0.2
    waiting = db.changes_since(feed.token)
    closing = threading.Timer(0.1, db.close)
    closing.start()
    with pytest.raises(unikv.ClosedError):
        next(waiting)
    closing.join()


def test_what_is_wrong(db, tmp_path):
    for token in ("", "x", "7"):
        with pytest.raises(unikv.InvalidArgumentError):
            db.changes_since(token)
    with pytest.raises(TypeError):
        db.changes_since(7)
    with pytest.raises(unikv.InvalidArgumentError):
        db.changes_since(db.change_token, timeout=-1)
    with unikv.open(tmp_path / "other") as other:
        with pytest.raises(unikv.InvalidArgumentError):
            other.change_token
    oldest = db.oldest_change_token
    with unikv.open(tmp_path / "other", change_window_bytes="1MiB") as other:
        other.put(b"a", b"1", sync=True)
        with pytest.raises(unikv.HistoryGoneError) as error:
            list(other.changes_since(oldest, timeout=0))
        assert error.value.remedy


def test_a_signal_takes_no_change(db):
    """A change is handed out, or the token does not say so."""

    def interrupt(round):
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        db.put(b"key", b"%d" % round, sync=True)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for round in range(30):
            feed = db.changes_since(db.change_token, timeout=5)
            other = threading.Thread(target=interrupt, args=(round,))
            found = []
            try:
                other.start()
                found.append(next(feed))
                other.join()
            except KeyboardInterrupt:
                other.join()
            rest = list(db.changes_since(feed.token, timeout=0))
            values = [op.value for change in found + rest for op in change.operations]
            assert values == [b"%d" % round]
    finally:
        signal.signal(signal.SIGINT, handler)
