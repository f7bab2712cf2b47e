"""The database beside a dict."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import unikv

KEYS = st.binary(max_size=3) | st.sampled_from([b"a", b"b", b"ab", b"\xff", b"\xff\xff", b"k" * 300])
VALUES = st.binary(max_size=20) | st.sampled_from([b"", b"v" * 5000])
BOUND = st.none() | KEYS


def select(model, start, stop, prefix=b""):
    return [
        (k, v)
        for k, v in sorted(model.items())
        if (start is None or k >= start) and (stop is None or k < stop) and k.startswith(prefix)
    ]


class Beside(RuleBasedStateMachine):
    in_memory = False
    # Of one run of steps, as each syncs files, which is slow on some disks.
    most_flushes = 3
    most_openings = 3

    @initialize()
    def begin(self):
        self.dir = TemporaryDirectory()
        self.model = {}
        self.flushes = self.openings = 0
        self.db = None
        self.open()

    def open(self):
        if self.db is not None:
            self.db.close()
        if self.in_memory:
            self.model = {}
        self.snapshots = []
        self.openings += 1
        path = Path(self.dir.name) / "db"
        options = {"memory_budget": "8MiB", "memtable_bytes": "16KiB"}
        self.db = unikv.in_memory(**options) if self.in_memory else unikv.open(path, **options)

    def teardown(self):
        if getattr(self, "db", None) is not None:
            self.db.close()
            self.dir.cleanup()

    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.db[key] = value
        self.model[key] = value

    @rule(key=KEYS)
    def delete(self, key):
        self.db.delete(key)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def pop(self, key):
        assert self.db.pop(key, None) == self.model.pop(key, None)

    @rule(start=BOUND, stop=BOUND)
    def delete_range(self, start, stop):
        self.db.delete_range(start, stop)
        for key, _ in select(self.model, start, stop):
            del self.model[key]

    @rule(prefix=KEYS)
    def delete_prefix(self, prefix):
        self.db.delete_prefix(prefix)
        for key, _ in select(self.model, None, None, prefix):
            del self.model[key]

    @rule(puts=st.dictionaries(KEYS, VALUES, max_size=5), deletes=st.lists(KEYS, max_size=3), fail=st.booleans())
    def batch(self, puts, deletes, fail):
        try:
            with self.db.write_batch() as batch:
                for key, value in puts.items():
                    batch.put(key, value)
                for key in deletes:
                    batch.delete(key)
                if fail:
                    raise InterruptedError
        except InterruptedError:
            return
        self.model.update(puts)
        for key in deletes:
            self.model.pop(key, None)

    @rule(puts=st.dictionaries(KEYS, VALUES, max_size=5), start=BOUND, stop=BOUND, commit=st.booleans())
    def transaction(self, puts, start, stop, commit):
        txn = self.db.transaction()
        seen = dict(self.model)
        for key, value in puts.items():
            txn[key] = value
            seen[key] = value
        assert list(txn.items(start, stop)) == select(seen, start, stop)
        if commit:
            txn.commit()
            self.model = seen
        else:
            txn.rollback()

    @rule(key=KEYS)
    def get(self, key):
        assert self.db.get(key) == self.model.get(key)
        assert (key in self.db) == (key in self.model)

    @rule(start=BOUND, stop=BOUND, prefix=st.just(b"") | KEYS, reverse=st.booleans())
    def scan(self, start, stop, prefix, reverse):
        expected = select(self.model, start, stop, prefix)
        if reverse:
            expected.reverse()
        assert list(self.db.items(start, stop, prefix, reverse)) == expected
        assert list(self.db.keys(start, stop, prefix, reverse)) == [k for k, _ in expected]

    @rule(
        start=BOUND,
        stop=BOUND,
        ends=st.tuples(st.booleans(), st.booleans()),
        reverse=st.booleans(),
        moves=st.lists(st.sampled_from(["next", "prev", "start", "stop"]) | KEYS, max_size=12),
    )
    def walk(self, start, stop, ends, reverse, moves):
        """The gap between two entries, in a list."""
        include_start, include_stop = ends
        rows = [
            (k, v)
            for k, v in sorted(self.model.items())
            if (start is None or k > start or (include_start and k == start))
            and (stop is None or k < stop or (include_stop and k == stop))
        ]
        at = len(rows) if reverse else 0
        it = self.db.iterator(
            start=start, stop=stop, include_start=include_start, include_stop=include_stop, reverse=reverse
        )
        for move in moves:
            if move in ("next", "prev"):
                forward = (move == "next") != reverse
                step = (lambda: next(it)) if move == "next" else it.prev
                expected = rows[at : at + 1] if forward else rows[max(at - 1, 0) : at]
                try:
                    assert [step()] == expected
                except StopIteration:
                    assert expected == []
                at += len(expected) if forward else -len(expected)
            elif move == "start":
                it.seek_to_start()
                at = 0
            elif move == "stop":
                it.seek_to_stop()
                at = len(rows)
            else:
                it.seek(move)
                at = sum(k < move for k, _ in rows)

    @rule(moves=st.lists(st.sampled_from(["next", "prev", "first", "last"]) | KEYS, max_size=8))
    def raw(self, moves):
        rows, at, it = sorted(self.model.items()), None, self.db.raw_iterator()
        for move in moves:
            if move in ("next", "prev"):
                if at is None:
                    continue
                getattr(it, move)()
                at += 1 if move == "next" else -1
            elif move in ("first", "last"):
                getattr(it, f"seek_to_{move}")()
                at = 0 if move == "first" else len(rows) - 1
            else:
                it.seek(move)
                at = sum(k < move for k, _ in rows)
            if not 0 <= at < len(rows):
                at = None
            assert it.valid() == (at is not None)
            if at is not None:
                assert it.item() == rows[at]

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def take_snapshot(self):
        self.snapshots.append((self.db.snapshot(), dict(self.model)))

    @precondition(lambda self: self.snapshots)
    @rule(start=BOUND, stop=BOUND, close=st.booleans())
    def read_snapshot(self, start, stop, close):
        snapshot, model = self.snapshots[0]
        assert list(snapshot.items(start, stop)) == select(model, start, stop)
        for key in list(model)[:3]:
            assert snapshot[key] == model[key]
        if close:
            snapshot.close()
            self.snapshots.pop(0)

    @precondition(lambda self: self.flushes < self.most_flushes)
    @rule(compact=st.booleans())
    def flush(self, compact):
        self.flushes += 1
        self.db.compact() if compact else self.db.flush()

    @precondition(lambda self: self.openings < self.most_openings)
    @rule()
    def close_and_open(self):
        self.open()
        assert list(self.db.items()) == select(self.model, None, None)

    @invariant()
    def same(self):
        if getattr(self, "db", None) is not None:
            assert self.db.count() == len(self.model)


class BesideInMemory(Beside):
    """Nothing is synced, so there may be more of everything; closing it removes all."""

    in_memory = True
    most_flushes = most_openings = 1000


def examples(number):
    return settings(
        max_examples=number,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


Beside.TestCase.settings = examples(15)
BesideInMemory.TestCase.settings = examples(50)
TestBeside = Beside.TestCase
TestBesideInMemory = BesideInMemory.TestCase
