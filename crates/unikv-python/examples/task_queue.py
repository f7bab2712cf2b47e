"""A queue of tasks: several threads take them, each task once."""

from concurrent.futures import ThreadPoolExecutor

import unikv


def work(tasks):
    done = 0
    while tasks.pop_first() is not None:
        done += 1
    return done


with unikv.open("queue.db") as db:
    tasks = db.keyspace("tasks", key=unikv.Int, value=unikv.Json)
    tasks.update((number, {"what": "sweep"}) for number in range(100))
    assert tasks.first_key_value() == (0, {"what": "sweep"})
    with ThreadPoolExecutor(4) as threads:
        done = sum(threads.map(work, [tasks] * 4))
    print(done, "tasks done")
    assert done == 100 and tasks.count() == 0
