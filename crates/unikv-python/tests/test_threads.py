"""Threads: they run beside each other, and nothing waits for ever."""

import threading
import time

import pytest

import unikv
from conftest import HANGS


def together(*calls):
    """Runs calls in threads; raises what they raise."""
    errors = []

    def run(call):
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def test_writers_and_readers(db):
    done = threading.Event()

    def write(name):
        for n in range(500):
            with db.write_batch() as batch:
                batch.put(b"%d/a" % name, b"%d" % n)
                batch.put(b"%d/b" % name, b"%d" % n)

    def read():
        while not done.is_set():
            with db.snapshot() as snapshot:
                rows = list(snapshot.values())
            # What a batch has written shows as a whole.
            assert rows[::2] == rows[1::2]

    def writers():
        try:
            together(*(lambda name=name: write(name) for name in range(4)))
        finally:
            done.set()

    together(writers, read, read)
    assert db.count() == 8 and set(db.values()) == {b"499"}


def test_one_iterator_by_many(db):
    db.update({b"%06d" % n: b"v%06d" % n for n in range(20_000)})
    for it in (db.items(), db.iterator()):
        taken = [[] for _ in range(4)]
        together(*(lambda mine=mine: mine.extend(it) for mine in taken))
        assert sorted(row for mine in taken for row in mine) == list(db.items())
        assert all(mine == sorted(mine) for mine in taken)


def test_one_batch_and_one_transaction_by_many(db):
    batch, txn = db.write_batch(), db.transaction()

    def add(name):
        for n in range(500):
            batch.put(b"b%d/%d" % (name, n), b"1")
            txn.put(b"t%d/%d" % (name, n), b"1")
            assert txn[b"t%d/%d" % (name, n)] == b"1"

    together(*(lambda name=name: add(name) for name in range(4)))
    batch.write()
    txn.commit()
    assert db.count() == 4000


def test_closing_under_others(tmp_path):
    for attempt in range(5):
        db = unikv.open(tmp_path / "db", memory_budget="16MiB")
        db.update({b"%06d" % n: b"v" * 100 for n in range(5000)})
        started = threading.Barrier(5)

        def use(call):
            started.wait()
            with pytest.raises(unikv.ClosedError):
                for n in range(10**9):
                    call(n)

        def close():
            started.wait()
            time.sleep(0.02)
            db.close()

        together(
            close,
            lambda: use(lambda n: db.put(b"%d" % n, b"v")),
            lambda: use(lambda n: list(db.items())),
            lambda: use(lambda n: db.get(b"%06d" % n)),
            lambda: use(lambda n: db.transact(lambda txn: txn.put(b"t", b"1"))),
        )


def test_python_runs_while_the_database_works(db):
    """The lock of the interpreter is released in what takes long."""
    for first in range(0, 100_000, 10_000):
        db.update({b"%06d" % n: b"v" * 100 for n in range(first, first + 10_000)})
    ticks, done = 0, threading.Event()

    def work():
        db.compact()
        for _ in range(3):
            db.count()
        done.set()

    thread = threading.Thread(target=work)
    began = time.monotonic()
    thread.start()
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    took = time.monotonic() - began
    thread.join()
    assert ticks >= min(20, took * 1000 / 20), f"{ticks} ticks in {took:.3f} s"
