"""Gives the database more memory, or less, and sizes of its own to its parts."""

import unikv

# One number for memtables, indexes, buffers and the read cache; the rest follows from it.
with unikv.open("tuning.db", memory_budget="64MiB", compression="lz4") as db:
    print("memtables of", db.options()["memtable_bytes"], "bytes")
    print(db.stats()["memory"])

# What was set is stored, and holds until it is set again or forgotten.
with unikv.open("tuning.db", background_threads=4) as db:
    assert db.options()["memory_budget"] == 64 << 20
with unikv.open("tuning.db", unset=["memory_budget"]) as db:
    assert db.options()["memory_budget"] == 256 << 20
    assert db.options()["compression"] == "lz4"
