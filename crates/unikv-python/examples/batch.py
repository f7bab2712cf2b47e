"""Writes several keys at once: after a crash all of them are there, or none."""

import unikv

with unikv.open("batch.db") as db:
    with db.write_batch(sync=True) as batch:
        batch[b"account/ada"] = b"80"
        batch[b"account/bob"] = b"20"
        batch.delete(b"pending/transfer")

    # An exception drops the batch.
    try:
        with db.write_batch() as batch:
            batch[b"account/ada"] = b"0"
            raise RuntimeError("the bank is closed")
    except RuntimeError as error:
        print(error)
    assert db[b"account/ada"] == b"80"

    # A dict is written at once, too.
    db.update({b"color/apple": b"red", b"color/banana": b"yellow"})
    assert db.count(prefix=b"color/") == 2
