"""Opens a database: whatever is there, only one that exists, or only a new one."""

import unikv

with unikv.open("open.db") as db:
    print(db.path, "is open")

try:
    unikv.create_new("open.db")
    raise SystemExit("it was there")
except unikv.InvalidArgumentError as error:
    print("not made again:", error)

try:
    unikv.open_existing("nowhere.db")
    raise SystemExit("nothing was there")
except unikv.NotFoundError as error:
    print("not there:", error.file)

with unikv.open_existing("open.db") as db:
    assert not db.closed
assert db.closed
