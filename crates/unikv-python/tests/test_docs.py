"""The examples of the docstrings."""

import doctest
import inspect

import pytest

import unikv


def documented():
    yield "unikv", unikv
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
