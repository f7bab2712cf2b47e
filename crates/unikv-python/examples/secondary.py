"""Reads a database that another process has open. Here both are one process."""

import unikv

with unikv.open("secondary.db") as db:
    db[b"apple"] = b"red"
    with unikv.open_secondary("secondary.db") as secondary:
        db[b"apple"] = b"green"
        assert secondary[b"apple"] == b"red"
        secondary.refresh()
        assert secondary[b"apple"] == b"green"
        print(secondary.stats()["lag"], "operations behind")
