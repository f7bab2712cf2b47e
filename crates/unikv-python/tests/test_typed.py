import pytest

import unikv


def test_types(db):
    users = db.keyspace("users", key=unikv.Str, value=unikv.Json)
    users["ada"] = {"born": 1815, "names": ["Ada", "Ünï"]}
    users.put("bob", None, ttl=60)
    users.update({"cyd": 1, "dan": [2]})
    assert users["ada"]["born"] == 1815 and users["bob"] is None
    assert users.get("none") is None and users.get("none", 7) == 7
    assert list(users) == ["ada", "bob", "cyd", "dan"] == list(users.keys())
    assert list(users.items("b", "d")) == [("bob", None), ("cyd", 1)]
    assert list(users.values(prefix="d", reverse=True)) == [[2]]
    assert list(reversed(users)) == ["dan", "cyd", "bob", "ada"]
    assert users.count() == 4 and "cyd" in users and bool(users)
    assert users.multi_get(["cyd", "none"]) == [1, None]
    assert users.ttl("bob") <= 60 and users.clear_ttl("bob") and users.expire("bob", 5)
    assert users.compare_and_swap("cyd", 1, 2) and not users.compare_and_swap("cyd", 1, 3)
    users.delete("none")
    del users["cyd"]
    with pytest.raises(KeyError, match="cyd"):
        del users["cyd"]
    with pytest.raises(KeyError, match="cyd"):
        users["cyd"]
    users.delete_range("b")
    assert list(users) == ["ada"]
    with pytest.raises(TypeError):
        users[7] = 1
    with pytest.raises(TypeError, match="count"):
        len(users)
    with db.snapshot() as snapshot:
        users["ada"] = 0
        assert users.at(snapshot)["ada"]["born"] == 1815
    assert "Str" in repr(users) and users.untyped.name == "users"


def test_numbers_are_ordered(db):
    numbers = db.keyspace("numbers", key=unikv.Int)
    all = [0, 1, -1, 255, 256, -256, 2**63 - 1, -(2**63), 10**12]
    for number in all:
        numbers[number] = b"%d" % number
    assert list(numbers) == sorted(all)
    assert list(numbers.keys(start=-1, stop=256)) == [-1, 0, 1, 255]
    for wrong in (2**63, -(2**63) - 1):
        with pytest.raises(unikv.InvalidArgumentError):
            numbers[wrong] = b""
    with pytest.raises(TypeError, match="prefix"):
        numbers.items(prefix=1)
    with pytest.raises(TypeError):
        numbers["1"] = b""
    numbers.untyped[b"odd"] = b""
    with pytest.raises(unikv.InvalidArgumentError):
        list(numbers)


def test_a_codec_of_ones_own(db):
    class Upper:
        def encode(self, value):
            return value.upper().encode()

        def decode(self, data):
            return data.decode().lower()

    words = db.keyspace("words", value=Upper())
    words[b"a"] = "text"
    assert words.untyped[b"a"] == b"TEXT" and words[b"a"] == "text"
    with pytest.raises(TypeError, match="encode"):
        db.keyspace("words", value=json_by_mistake)


def json_by_mistake():
    pass


def test_bytes_are_bytes_and_no_numbers(db):
    named = db.keyspace("named", key=unikv.Str)
    for value in (7, [1, 2], "text", None, 10**10):
        with pytest.raises(TypeError):
            named["a"] = value
    named["a"] = memoryview(b"view")
    assert named["a"] == b"view"
    numbers = db.keyspace("numbers", value=unikv.Int)
    with pytest.raises(TypeError):
        numbers[5] = 1
    assert numbers.count() == 0


def test_a_transaction_puts_with_types(db):
    users = db.keyspace("users", key=unikv.Str, value=unikv.Int)
    with db.transaction() as txn:
        users.at(txn).put("ada", 1, ttl=60)
        users.at(txn).put("bob", 2)
    assert list(users.items()) == [("ada", 1), ("bob", 2)]
