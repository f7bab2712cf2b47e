# %% [markdown]
# How long do gets take while a database grows? Run this as a script, or cell by cell in an editor that
# knows `# %%`. With matplotlib it draws `measure.png`, else it prints.

# %%
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import unikv

STEPS = int(os.environ.get("STEPS", 20))
RECORDS = int(os.environ.get("RECORDS", 20_000))
rng = random.Random(7)

directory = tempfile.TemporaryDirectory()
db = unikv.open(Path(directory.name) / "db", memory_budget="64MB")

# %% Write in steps, and measure a sample of gets after each.
records: list[int] = []
median: list[float] = []
slowest: list[float] = []
on_disk: list[float] = []
for step in range(STEPS):
    for first in range(0, RECORDS, 1000):
        with db.write_batch() as batch:
            for n in range(first, first + 1000):
                batch.put(b"key-%09d" % (step * RECORDS + n), rng.randbytes(200))
    times = []
    for _ in range(2000):
        key = b"key-%09d" % rng.randrange((step + 1) * RECORDS)
        began = time.perf_counter_ns()
        value = db[key]
        times.append(time.perf_counter_ns() - began)
        assert len(value) == 200
    times.sort()
    records.append((step + 1) * RECORDS)
    median.append(times[len(times) // 2] / 1000)
    slowest.append(times[len(times) * 99 // 100] / 1000)
    on_disk.append(db.stats()["disk_bytes"] / 1e6)

db.close()
directory.cleanup()

# %% Show it.
try:
    import matplotlib

    if "ipykernel" not in sys.modules:
        matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    for row in zip(records, median, slowest, on_disk):
        print("%9d records: median %6.1f µs, 99 %% under %7.1f µs, %7.1f MB on disk" % row)
else:
    figure, left = plt.subplots(figsize=(8, 4.5))
    left.plot(records, median, label="median of gets")
    left.plot(records, slowest, label="99 % of gets are faster")
    left.set(xlabel="records", ylabel="µs", yscale="log", title="Gets while a database grows")
    right = left.twinx()
    right.plot(records, on_disk, "--", color="grey", label="on disk")
    right.set_ylabel("MB")
    figure.legend(loc="upper left", bbox_to_anchor=(0.12, 0.88))
    figure.tight_layout()
    figure.savefig("measure.png", dpi=120)
    print("measure.png")
