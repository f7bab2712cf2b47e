"""Stores, overwrites and removes a value, and stores one that survives a power cut when the call
returns."""

import unikv

with unikv.open("put.db") as db:
    db[b"apple"] = b"green"
    db[b"apple"] = b"red"
    db.put(b"balance", b"90", sync=True)
    db.delete(b"banana")  # No error, as it would be for `del db[...]`.
    assert db[b"apple"] == b"red"
    assert b"banana" not in db
    print(dict(db.items()))
