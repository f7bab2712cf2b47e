"""Copies the database as it is now: into a database beside it, in milliseconds, and into a backup
that may be on another disk."""

import tempfile
from pathlib import Path

import unikv

with tempfile.TemporaryDirectory() as name, unikv.open("checkpoint.db") as db:
    copies = Path(name)
    db[b"apple"] = b"red"
    db.checkpoint(copies / "now")
    first = db.backup(copies / "backups")
    db[b"apple"] = b"green"
    db.backup(copies / "backups")
    print(len(unikv.backup_points(copies / "backups")), "backups")

    unikv.restore(copies / "backups", first["number"], copies / "restored")
    for copy in ("now", "restored"):
        with unikv.open_existing(copies / copy) as old:
            assert old[b"apple"] == b"red"
    assert db[b"apple"] == b"green"
