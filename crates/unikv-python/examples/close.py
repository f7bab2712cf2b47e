"""Closes a database, and hears of what was still open."""

import unikv

db = unikv.open("close.db")
db[b"apple"] = b"red"
forgotten = db.snapshot()

# Syncs the log and stops the background, whatever is still open.
for left in db.close():
    print(f"a {left['kind']} was open for {left['age']:.3f} s")
    assert left["kind"] == "snapshot"

try:
    forgotten[b"apple"]
    raise SystemExit("the database is closed")
except unikv.ClosedError as error:
    print(error)
assert db.close() == []  # Closing again does nothing.
