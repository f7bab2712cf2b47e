"""UniKV beside plyvel and rocksdict: the same loops, in one run.

    pip install plyvel rocksdict && python beside.py [--records N] [--rounds N] [--dir DIR]

Each database is opened as its users would: plyvel and UniKV without compression, rocksdict with raw
bytes and its defaults; each has 256 MiB to cache. Each loop runs `--rounds` times on a new database,
in turn for all of them, and the shortest time counts, as other programs only ever add to it. Beside
the time on the wall stands the CPU time of the whole process, background threads included, which
other programs disturb less. Values are random bytes, and all that is read is compared.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH = 1000


class Unikv:
    name = "unikv"

    def __init__(self, path: Path) -> None:
        import unikv

        self.db = unikv.open(path, memory_budget="256MiB")

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        put = self.db.put
        for key, value in rows:
            put(key, value)

    def batches(self, rows: list[tuple[bytes, bytes]]) -> None:
        for first in range(0, len(rows), BATCH):
            with self.db.write_batch() as batch:
                for key, value in rows[first : first + BATCH]:
                    batch.put(key, value)

    def get(self, keys: list[bytes]) -> list[Any]:
        get = self.db.get
        return [get(key) for key in keys]

    def scan(self) -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value in self.db.items()]

    def settle(self) -> None:
        self.db.compact()

    def close(self) -> None:
        self.db.close()


class UnikvPlyvel(Unikv):
    """The loops of plyvel, with `unikv.plyvel`."""

    name = "unikv.plyvel"
    module = "unikv.plyvel"

    def __init__(self, path: Path) -> None:
        import importlib

        plyvel = importlib.import_module(self.module)
        self.db = plyvel.DB(
            str(path), create_if_missing=True, compression=None, lru_cache_size=256 << 20
        )

    def scan(self) -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value in self.db]

    def settle(self) -> None:
        self.db.compact_range()


class Plyvel(UnikvPlyvel):
    name = module = "plyvel"

    def settle(self) -> None:
        self.db.compact_range(start=b"", stop=b"\xff" * 20)


class Rocksdict:
    name = "rocksdict"

    def __init__(self, path: Path) -> None:
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(256 << 20))
        options.set_block_based_table_factory(table)
        self.rocksdict = rocksdict
        self.db = rocksdict.Rdict(str(path), options)

    def put(self, rows: list[tuple[bytes, bytes]]) -> None:
        db = self.db
        for key, value in rows:
            db[key] = value

    def batches(self, rows: list[tuple[bytes, bytes]]) -> None:
        for first in range(0, len(rows), BATCH):
            batch = self.rocksdict.WriteBatch(raw_mode=True)
            for key, value in rows[first : first + BATCH]:
                batch.put(key, value)
            self.db.write(batch)

    def get(self, keys: list[bytes]) -> list[Any]:
        get = self.db.get
        return [get(key) for key in keys]

    def scan(self) -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value in self.db.items()]

    def settle(self) -> None:
        self.db.compact_range(None, None)

    def close(self) -> None:
        self.db.close()


ENGINES: list[Any] = [Unikv, UnikvPlyvel, Plyvel, Rocksdict]
LOOPS = ["single puts", "batches", "gets", "gets again", "compacted: gets", "compacted: gets again", "iteration"]


Times = tuple[float, float]
"""On the wall, and of the process's CPU."""


def timed(call: Callable[[], Any]) -> tuple[Times, Any]:
    gc.collect()
    gc.disable()
    began, began_cpu = time.perf_counter(), time.process_time()
    result = call()
    times = time.perf_counter() - began, time.process_time() - began_cpu
    gc.enable()
    return times, result


def check(right: bool, what: str) -> None:
    if not right:
        sys.exit(f"{what} returned something else than was written")


def one_round(engine: Any, rows: list[tuple[bytes, bytes]], wanted: list[bytes], where: Path) -> dict[str, Times]:
    times: dict[str, Times] = {}
    there = dict(rows)
    expected = [there.get(key) for key in wanted]
    in_order = sorted(there.items())

    db = engine(where / "single")
    times["single puts"], _ = timed(lambda: db.put(rows))
    for loop in ("gets", "gets again"):
        times[loop], found = timed(lambda: db.get(wanted))
        check(found == expected, f"{engine.name}: get")
    db.close()

    db = engine(where / "batches")
    times["batches"], _ = timed(lambda: db.batches(rows))
    db.settle()
    for loop in ("compacted: gets", "compacted: gets again"):
        times[loop], found = timed(lambda: db.get(wanted))
        check(found == expected, f"{engine.name}: get")
    db.scan()
    times["iteration"], found = timed(db.scan)
    check(found == in_order, f"{engine.name}: iteration")
    db.close()
    return times


def version(name: str) -> str:
    return "" if "." in name else f" {importlib.metadata.version(name)}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--records", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--dir", type=Path, help="where the databases are made")
    given = arguments.parse_args()

    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    print(", ".join(f"{engine.name}{version(engine.name)}" for engine in ENGINES))
    names = [engine.name for engine in ENGINES]
    for length in (100, 1000):
        rng = random.Random(7)
        keys = [b"key-%012d" % n for n in rng.sample(range(10 * given.records), given.records)]
        rows = [(key, rng.randbytes(length)) for key in keys]
        wanted = rng.sample(keys, len(keys) * 9 // 10) + [b"none-%d" % n for n in range(len(keys) // 10)]
        best: dict[tuple[str, str], Times] = {}
        for _ in range(given.rounds):
            for engine in ENGINES:
                where = Path(tempfile.mkdtemp(prefix="beside-", dir=given.dir))
                for loop, took in one_round(engine, rows, wanted, where).items():
                    before = best.get((engine.name, loop), took)
                    best[engine.name, loop] = min(took[0], before[0]), min(took[1], before[1])
                shutil.rmtree(where)
        for which, what in enumerate(("on the wall", "of CPU")):
            print(f"\n{given.records} records of {length} bytes, µs {what} each (and times unikv's)")
            print(f"{'':24}" + "".join(f"{name:>18}" for name in names))
            for loop in LOOPS:
                ours = best["unikv", loop][which]
                cells = [best[name, loop][which] for name in names]
                each = [f"{t / given.records * 1e6:9.2f} ({t / ours:5.2f}) " for t in cells]
                print(f"{loop:24}" + "".join(each))
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
