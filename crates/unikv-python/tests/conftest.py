import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import unikv

# Seconds after which something hangs, however slow the machine is; less than `faulthandler_timeout`, so that
# what is checked here can say what hung.
HANGS = 500

# Whoever started the tests may have them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[unikv.Database]:
    with unikv.open(tmp_path / "db", memory_budget="16MiB") as db:
        yield db
