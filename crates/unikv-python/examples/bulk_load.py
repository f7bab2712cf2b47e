"""Loads many records: some thousand in each batch, which costs the log one write."""

from itertools import islice

import unikv

records = ((b"key%08d" % number, b"value %d" % number) for number in range(100_000))

with unikv.open("bulk.db", memory_budget="64MB") as db:
    while chunk := list(islice(records, 5_000)):
        db.update(chunk)
    db.sync()
    print(db.count(), "records")
    assert db.count() == 100_000
    assert db.last_key_value() == (b"key00099999", b"value 99999")

    # A pass over everything, which displaces nothing in the read cache.
    assert sum(len(value) for value in db.values(fill_cache=False)) == 1_088_890
