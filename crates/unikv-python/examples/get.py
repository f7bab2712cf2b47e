"""Reads values: one, several at once, a part of one, or only whether it is there."""

import unikv

with unikv.open("get.db") as db:
    db.update({b"apple": b"red", b"banana": b"yellow"})

    print("an apple is", db[b"apple"].decode())
    assert db.get(b"cherry") is None and db.get(b"cherry", b"red") == b"red"
    try:
        db[b"cherry"]
    except KeyError as error:
        print("there is no", error)
    assert b"banana" in db and b"cherry" not in db
    assert db.multi_get([b"apple", b"cherry"]) == [b"red", None]
    assert db.get_range(b"banana", 0, 3) == b"yel"
    assert db.value_len(b"banana") == 6
    # A read that gives up after half a second, and displaces nothing in the read cache.
    assert db.get(b"apple", timeout=0.5, fill_cache=False) == b"red"
