"""Counts, from several threads at once."""

from concurrent.futures import ThreadPoolExecutor

import unikv

with unikv.open("counter.db") as db:
    db.pop(b"visits", None)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: db.increment(b"visits"), range(400)))
    visits = db.increment(b"visits", 0)
    print(visits, "visits")
    assert visits == 400

    # Other changes that depend on the value: once, whoever is first.
    db.pop(b"owner", None)
    assert db.compare_and_swap(b"owner", None, b"me")
    assert not db.compare_and_swap(b"owner", None, b"you")
    assert db.setdefault(b"owner", b"you") == b"me"
