import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import unikv

# Whoever started the tests may have them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[unikv.Database]:
    with unikv.open(tmp_path / "db", memory_budget="16MiB") as db:
        yield db
