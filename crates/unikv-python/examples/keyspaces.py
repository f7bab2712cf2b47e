"""Keeps several spaces of keys in one database, and writes to two of them at once."""

import unikv

with unikv.open("keyspaces.db") as db:
    users = db.keyspace("users", key=unikv.Str, value=unikv.Json)
    pages = db.keyspace("pages", compression="zstd:3")
    users["ada"] = {"born": 1815}
    pages[b"ada"] = b"<html>"
    with db.write_batch() as both:
        both.put(b"bob", b'{"born":1916}', keyspace=users)
        both.put(b"bob", b"<html>", keyspace=pages)

    print(db.keyspaces())
    assert users["bob"] == {"born": 1916} and pages.count() == 2
    assert list(users) == ["ada", "bob"]

    # Many at once take about as long as one.
    days = db.create_keyspaces(f"day{number}" for number in range(100))
    days[7][b"visits"] = b"3"
    db.drop_keyspaces([*days, pages])
    assert db.keyspaces() == ["default", "users"]
