"""Follows what changes, write by write, and goes on where it stopped."""

import unikv


def show(db, since):
    """Shows what has changed since the token; returns the token to go on from."""
    shown, changes = 0, db.changes_since(since, timeout=0)
    for change in changes:
        for operation in change.operations:
            if isinstance(operation, unikv.Put):
                print(operation.key, "=", operation.value)
                shown += 1
    return changes.token, shown


with unikv.open("changes.db", change_window_bytes="16MiB") as db:
    token = db.change_token
    db[b"apple"] = b"red"
    db.sync()  # What a power cut could take is not shown.
    token, shown = show(db, token)
    assert shown == 1
    db.update({b"apple": b"green", b"banana": b"yellow"})
    db.sync()
    token, shown = show(db, token)
    assert shown == 2
