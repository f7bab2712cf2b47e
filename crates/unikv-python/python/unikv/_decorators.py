"""Decorators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ._unikv import Database, Transaction

P = ParamSpec("P")
T = TypeVar("T")


def transactional(
    db: Database, function: Callable[Concatenate[Transaction, P], T]
) -> Callable[P, T]:
    """The function, run in a transaction of the database at each call."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> T:
        return db.transact(function, *args, **keywords)

    return call
