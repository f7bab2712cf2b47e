"""Shows figures of a database."""

import unikv

with unikv.open("statistics.db", latencies=True) as db:
    db.update((b"key%d" % number, b"value") for number in range(10_000))
    assert db[b"key7"] == b"value"
    db.flush()

    stats = db.stats()
    for name in ("puts", "gets", "flushes", "disk_bytes", "cache_bytes"):
        print(f"{name:12} {stats[name]:,}")
    assert stats["puts"] >= 10_000 and stats["gets"] == 1 and stats["flushes"] >= 1
    assert sum(stats["memory"][part] for part in ("memtables", "indexes", "cache")) > 0
    print("about", db.approximate_size(b"key1", b"key2"), "bytes on disk from key1 to key2")
