"""Iterates over the keys with a prefix, the last one first."""

from itertools import islice

import unikv

with unikv.open("prefix.db") as db:
    for day in range(1, 10):
        db[b"visit/2026-11-0%d" % day] = b"%d" % day
    db[b"user/ada"] = b"first"

    newest = []
    for key, value in islice(db.items(prefix=b"visit/", reverse=True), 3):
        print(key.decode(), value.decode())
        newest.append(value)
    assert newest == [b"9", b"8", b"7"]
    assert list(db.keys(start=b"visit/2026-11-08")) == [b"visit/2026-11-08", b"visit/2026-11-09"]
    assert db.first_key_value() == (b"user/ada", b"first")
