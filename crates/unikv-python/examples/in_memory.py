"""A database for tests: in memory, and gone when it is closed."""

import unikv


def names(source):
    """What is tested: it reads from a database, a keyspace, a snapshot or a transaction."""
    return [key.removeprefix(b"user/") for key in source.keys(prefix=b"user/")]


with unikv.in_memory() as db:
    db.update({b"user/ada": b"", b"user/bob": b"", b"visit/ada": b""})
    assert names(db) == [b"ada", b"bob"]
    with db.transaction() as txn:
        txn[b"user/eve"] = b""
        assert len(names(txn)) == 3
    print(names(db.snapshot()))
    assert not db.path.exists()
