"""The examples of the docstrings."""

import doctest
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unikv
import unikv.plyvel
from conftest import HANGS


def documented():
    yield "unikv", unikv
    yield "unikv.plyvel", unikv.plyvel
    for name in sorted(set(unikv.__all__)):
        thing = getattr(unikv, name)
        yield name, thing
        if inspect.isclass(thing):
            for member, value in sorted(vars(thing).items()):
                if not member.startswith("_") and not inspect.ismemberdescriptor(value):
                    yield f"{name}.{member}", value


ALL = {name: inspect.getdoc(thing) or "" for name, thing in documented()}


@pytest.mark.parametrize("name", sorted(name for name, text in ALL.items() if ">>>" in text))
def test_examples(name, db, tmp_path):
    names = {"unikv": unikv, "db": db, "path": tmp_path}
    test = doctest.DocTestParser().get_doctest(ALL[name], names, name, None, 0)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.DocTestRunner(optionflags=flags).run(test)
    assert failed == 0


def test_everything_is_documented():
    assert [name for name, text in ALL.items() if not text] == []
    assert sum(text.count(">>>") for text in ALL.values()) > 40


@pytest.mark.parametrize("example, says", [("web_cache.py", "servers were asked 3 times"), ("measure.py", "")])
def test_programs(example, says, tmp_path):
    source = Path(__file__).parent.parent / "examples" / example
    small = {**os.environ, "STEPS": "2", "RECORDS": "2000"}
    command = [sys.executable, str(source)]
    done = subprocess.run(command, cwd=tmp_path, env=small, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout and done.stdout


EXAMPLES = Path(__file__).parent.parent / "examples"
# Those beside the ones for a newcomer, which have tests of their own.
OTHERS = {"web_cache", "measure"}
SHORT = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in OTHERS)


# What lies beside a program is imported in the place of a module of Python.
RENAMED = {"queue": "task_queue", "statistics": "show_statistics"}


def test_the_short_examples_are_those_of_rust():
    rust = Path(__file__).parents[2] / "unikv" / "examples"
    names = {path.stem for path in rust.glob("*.rs")} - {"quickstart"}
    assert SHORT == sorted(RENAMED.get(name, name) for name in names)
    assert not sys.stdlib_module_names & set(SHORT)
    assert len(SHORT) == 20


@pytest.mark.parametrize("example", SHORT)
def test_short_examples_run_twice(example, tmp_path):
    """What the first time has left must not be in the way of the second."""
    source = EXAMPLES / f"{example}.py"
    assert len(source.read_text().splitlines()) < 40
    for time in ("first", "second"):
        command = [sys.executable, "-W", "error", str(source)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANGS)
        assert done.returncode == 0, f"the {time} time: {done.stderr}"
        assert done.stdout


def test_the_readme(tmp_path, capsys, monkeypatch):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(text.split("```python\n")[1].split("```")[0], {})
    assert "b'banana' b'yellow'" in capsys.readouterr().out
