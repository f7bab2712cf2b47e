"""Stores values that expire."""

from datetime import timedelta

import unikv

with unikv.open("ttl.db") as db:
    db.put(b"session/ada", b"token", ttl=3600)
    print(f"{db.ttl(b'session/ada'):.0f} seconds left")
    db.expire(b"session/ada", timedelta(minutes=1))
    assert 0 < db.ttl(b"session/ada") <= 60
    db.clear_ttl(b"session/ada")
    assert db.ttl(b"session/ada") == float("inf")
    assert db.ttl(b"session/bob") is None

    cache = db.keyspace("cache", default_ttl=timedelta(days=7))
    cache[b"page"] = b"<html>"
    assert 0 < cache.ttl(b"page") <= 7 * 86400
