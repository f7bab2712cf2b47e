"""The end of a process whose daemon threads are inside calls of this package."""

import subprocess
import sys
import textwrap

import pytest

import unikv

PROCESSES = 200
LONGEST = 60  # seconds, on a machine that is busy with other tests

# Threads run code of Python below calls of the package when the main thread ends. Each writes a number that
# the parent then finds, after it has been acknowledged.
PROGRAM = textwrap.dedent(
    """
    import os, sys, threading, time
    import unikv

    db = unikv.open(sys.argv[1])
    number, kind = int(sys.argv[2]), sys.argv[3]

    # The interpreter takes a while to free this, and threads that wake up meanwhile ask for its lock.
    keep = [{n: str(n)} for n in range(100_000)]

    def spin():
        time.sleep(0.0005)

    def slowly(items):
        for item in items:
            spin()
            yield item

    def write(key, n):
        def run(txn, *args):
            spin()
            txn[key] = b"%d" % n
            spin()
        if kind == "transact":
            db.transact(run)
        elif kind == "transactional":
            db.transactional(run)()
        elif kind == "update":
            db.update(slowly([(b"other", b"1"), (key, b"%d" % n)]))
        elif kind == "multi_get":
            db[key] = b"%d" % n
            db.multi_get(slowly([key, b"other"] * 5))
        else:
            db[key] = b"%d" % n
            for change in db.changes_since(db.oldest_change_token, timeout=0, include_unsynced=True):
                spin()
                break

    def work(thread):
        key, n = b"%d/%d" % (number, thread), 0
        while True:
            n += 1
            write(key, n)
            os.write(1, b"%s %d\\n" % (key, n))

    for thread in range(3):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    time.sleep(0.002 * (number % 20))
    """
)


def run(path, number, kind):
    command = [sys.executable, "-c", PROGRAM, str(path), str(number), kind]
    done = subprocess.run(command, capture_output=True, timeout=LONGEST)
    assert done.returncode == 0, (number, kind, done.returncode, done.stderr.decode()[-2000:])
    lines = [line.split() for line in done.stdout.splitlines() if line.count(b" ") == 1]
    return {key: int(n) for key, n in lines}


@pytest.mark.parametrize("kind", ["transact", "transactional", "update", "multi_get", "changes"])
def test_daemon_threads_in_callbacks_end_with_the_process(kind, tmp_path):
    path = tmp_path / "db"
    with unikv.open(path, change_window_bytes="1MB"):
        pass
    acknowledged = {}
    for number in range(PROCESSES // 5):
        acknowledged.update(run(path, number, kind))
    with unikv.open(path) as db:
        for key, n in acknowledged.items():
            assert int(db[key]) >= n, key


def test_an_async_function_is_refused(db):
    async def run(txn):
        txn[b"key"] = b"value"

    async def items(txn):
        yield txn[b"key"]

    for function in (run, items):
        for call in (db.transact, lambda function: db.transactional(function)()):
            with pytest.raises(unikv.InvalidArgumentError, match="async"):
                call(function)
    assert b"key" not in db
