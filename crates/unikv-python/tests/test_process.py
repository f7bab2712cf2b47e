"""Forks, signals, and the end of the process."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import unikv
from conftest import HANGS


def in_child(call):
    """What `call` returns in a child of a fork, as text."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        text = "nothing"
        try:
            text = str(call())
        except BaseException as error:
            text = f"{type(error).__name__}"
        finally:
            os.write(into, text.encode())
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, text
    return text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork(db, tmp_path):
    db.update({b"%04d" % n: b"v" for n in range(2000)})
    snapshot, batch, txn = db.snapshot(), db.write_batch(), db.transaction()
    batch.put(b"a", b"1")
    items, it, raw = db.items(), db.iterator(), db.raw_iterator()
    next(items), next(it), raw.seek_to_first()
    calls = [
        lambda: db[b"0001"],
        lambda: db.put(b"a", b"1"),
        lambda: snapshot[b"0001"],
        lambda: db.items(),
        lambda: next(items),
        lambda: next(it),
        lambda: raw.key(),
        lambda: batch.write(),
        lambda: txn.commit(),
        lambda: db.flush(),
        lambda: db.compact(),
        lambda: db.snapshot(),
        lambda: db.keyspace("new"),
        lambda: db.transact(lambda txn: txn.put(b"a", b"1")),
    ]
    for number, call in enumerate(calls):
        assert in_child(call) == "ForkedError", number
    # Closing it there does no harm, nor does dropping everything; and a child may have its own.
    assert in_child(lambda: db.close()) in ("None", "ForkedError")

    def own():
        with unikv.open(tmp_path / "child") as mine:
            mine[b"a"] = b"1"
            return mine[b"a"]

    assert in_child(own) == "b'1'"
    assert len(list(items)) == 1999 and b"a" not in db
    db[b"a"] = b"2"
    assert db[b"a"] == b"2"
    txn.rollback()


@contextlib.contextmanager
def interrupts(every):
    """Presses Ctrl-C until the block has ended: one may come while Python ignores what is raised."""
    done = threading.Event()

    def press():
        while not done.wait(every):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        done.set()
        thread.join()


def test_ctrl_c_ends_what_waits(tmp_path):
    with unikv.open(tmp_path / "db", change_window_bytes="1MiB") as db:
        began = time.monotonic()
        with interrupts(0.5):
            for _ in db.changes_since(db.change_token):
                pass
        assert time.monotonic() - began < 60
        db[b"a"] = b"1"
        assert db[b"a"] == b"1"


# A signal may come while a callback of the garbage collector runs, which Python then only reports.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_long_walks(db):
    db.update({b"%06d" % n: b"v" for n in range(50_000)})
    for walk in (lambda: db.count(), lambda: list(db.items()), lambda: sum(1 for _ in db.values())):
        with interrupts(0.5):
            while True:
                walk()
        assert db.count() == 50_000


def test_ctrl_c_ends_compactions(tmp_path):
    """A signal while the engine is at work: it goes on without us."""
    script = """
    import os, signal, sys, threading, time, unikv
    db = unikv.open(sys.argv[1], memory_budget="32MiB")
    for n in range(30):
        db.update({os.urandom(8): os.urandom(500) for _ in range(1000)})
    try:
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        while True:
            db.compact()
            db.put(b"a", b"1")
    except KeyboardInterrupt:
        print("interrupted")
    db.close()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr
    with unikv.open_existing(tmp_path / "db") as db:
        assert db.count() >= 30_000


def test_a_program_that_ends_without_closing(tmp_path):
    """Neither a hang nor a crash, and nothing is lost."""
    script = """
    import sys, unikv
    db = unikv.open(sys.argv[1])
    db.update({b"%04d" % n: b"v" for n in range(1000)})
    items, it, txn, snapshot = db.items(), db.iterator(), db.transaction(), db.snapshot()
    next(items), next(it)
    cycle = [db]
    cycle.append(cycle)
    """
    for how in ("", "import os; os._exit(3)", "sys.exit(3)", "raise SystemExit(3)"):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script) + how, str(tmp_path / "db")],
            capture_output=True,
            text=True,
            timeout=HANGS,
        )
        assert (done.returncode, done.stderr) == (3 if how else 0, "")
        with unikv.open_existing(tmp_path / "db") as db:
            assert db.count() == 1000


def test_a_fork_while_others_work_and_its_end(tmp_path):
    """Locks that threads of the parent have are not waited for in the child, which ends as usual."""
    script = """
    import os, sys, threading, unikv
    db = unikv.open(sys.argv[1])
    for first in range(0, 50_000, 1000):
        db.update({b"%06d" % n: b"v" * 100 for n in range(first, first + 1000)})
    secondary, snapshot = unikv.open_secondary(sys.argv[1]), db.snapshot()
    items, it, txn, batch = db.items(), db.iterator(), db.transaction(), db.write_batch()
    next(items), next(it)
    batch.put(b"a", b"1")
    done = threading.Event()
    def work(call):
        while not done.is_set():
            call()
    calls = [lambda: txn.count(), lambda: db.items().close(), lambda: snapshot[b"000001"],
             lambda: (it.seek(b"0"), next(it)), lambda: secondary[b"000001"], lambda: batch.write(),
             lambda: txn.multi_get([b"000001"]), lambda: len(batch), lambda: batch.set_commit_tag(b"m")]
    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    ends = [items.close, it.close, snapshot.close, secondary.close, txn.rollback]
    for _ in range(20):
        child = os.fork()
        if child == 0:
            for call in calls:
                try:
                    call()
                    os._exit(7)
                except unikv.ForkedError:
                    pass
            for end in ends:
                end()
            sys.exit(5)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 5, status
    done.set()
    for thread in threads:
        thread.join()
    assert db.count() == 50_001
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script), str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_dropping_releases_the_directory(tmp_path):
    for _ in range(3):
        db = unikv.open(tmp_path / "db")
        items = db.items()
        del db
        assert list(items) == []
        del items
