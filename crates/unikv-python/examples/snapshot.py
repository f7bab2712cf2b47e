"""Reads the database as it was at one moment, while it changes."""

import unikv

with unikv.open("snapshot.db") as db:
    db.pop(b"banana", None)
    db[b"apple"] = b"red"
    with db.snapshot() as before:
        db[b"apple"] = b"green"
        db[b"banana"] = b"yellow"
        assert before[b"apple"] == b"red" and b"banana" not in before
        print(before.count(), "then,", db.count(), "now")
    # What a snapshot shows stays on disk until it is closed.
    assert db[b"apple"] == b"green"
