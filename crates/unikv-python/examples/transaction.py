"""Moves money between accounts, from several threads at once: a transaction that conflicts with
another is run again."""

from concurrent.futures import ThreadPoolExecutor

import unikv


def move(txn, payer, payee, amount):
    txn[payer] = b"%d" % (int(txn[payer]) - amount)
    txn[payee] = b"%d" % (int(txn[payee]) + amount)


with unikv.open("transaction.db") as db:
    db.update({b"ada": b"100", b"bob": b"0"})
    with ThreadPoolExecutor(4) as threads:
        moves = [threads.submit(db.transact, move, b"ada", b"bob", 1) for _ in range(40)]
        for moved in moves:
            moved.result()
    print("ada", int(db[b"ada"]), "bob", int(db[b"bob"]))
    assert (db[b"ada"], db[b"bob"]) == (b"60", b"40")

    # By hand, where a conflict is to be seen.
    try:
        with db.transaction() as txn:
            move(txn, b"ada", b"bob", 10)
            db[b"ada"] = b"1000"
    except unikv.ConflictError as error:
        print(error)
    assert db[b"bob"] == b"40"
