"""Handles errors: by their class, which says what the caller can do."""

import unikv

try:
    db = unikv.open("errors.db", memory_budget="64MB")
except unikv.LockedError as error:
    raise SystemExit(f"another process has it: {error}")

with db:
    try:
        db[b"k" * 100_000] = b"value"
    except unikv.InvalidArgumentError as error:
        print("what:", error)
        print("what to do:", error.remedy)
        assert error.kind == "invalid_argument" and isinstance(error, ValueError)

    try:
        db.put(b"apple", b"red", no_wait=True)
    except unikv.WouldBlockError:
        print("later, then")

    try:
        value = db.get(b"apple", timeout=10)
    except unikv.TimedOutError:
        print("the device is slow")
    except unikv.CorruptionError as error:
        print(error.file, error.offset)

try:
    db[b"apple"]
except unikv.ClosedError as error:
    print(error)
