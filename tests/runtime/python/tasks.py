# SPDX-License-Identifier: LGPL-2.1-or-later
"""tasks.py OUT COUNT: tasks of two loops in many states. Writes what asyncio says of them to OUT (their chains of
awaits, innermost first, names, who awaits them), says `ready PID`; both threads block then. 3.11 on."""
import asyncio
import json
import os
import sys
import threading
import time
import types

found, awaiters = {}, {}


def chain_of(awaited):
    chain = []
    while awaited is not None and len(chain) < 100:
        for kind, following in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            if hasattr(awaited, f"{kind}_{following}"):
                frame = getattr(awaited, f"{kind}_frame")
                chain.append((getattr(awaited, f"{kind}_code").co_qualname, frame.f_lineno if frame else None))
                awaited = getattr(awaited, f"{kind}_{following}")
                break
        else:
            break
    return chain[::-1]


def make_task(loop, coroutine, **options):
    task = asyncio.Task(coroutine, loop=loop, **options)
    maker = asyncio.current_task()
    if maker.get_coro().__name__ != "main":  # nobody awaits what main() makes, unless it is shielded
        awaiters.setdefault(task, set()).add(maker)
    return task


def awaiters_of(task):
    """As this program makes them; from 3.14 on asyncio has to say the same."""
    made = awaiters.get(task, set())
    noted = getattr(task, "_asyncio_awaited_by", made)
    noted = set(noted) if isinstance(noted, (set, frozenset)) else {noted} - {None}
    assert noted == made, (task, noted, made)
    return made


def note(name):
    found[name] = [
        {"id": hex(id(task)), "name": task.get_name(), "chain": chain_of(task.get_coro()),
         "current": task is asyncio.current_task(),
         "awaited_by": [hex(id(other)) for other in awaiters_of(task)]}
        for task in asyncio.all_tasks()]


async def sleeper():
    await asyncio.sleep(3600)


async def deep(n):
    await (deep(n - 1) if n else sleeper())


async def numbers():
    yield 1
    await asyncio.sleep(3600)


async def consumer():
    async for _ in numbers():
        pass


@types.coroutine
def old_style():
    yield from asyncio.sleep(3600).__await__()


async def uses_old_style():
    await old_style()


class Awaitable:
    def __await__(self):
        return sleeper().__await__()


async def uses_awaitable():
    await Awaitable()


async def group():
    async with asyncio.TaskGroup() as tasks:
        for i in range(3):
            tasks.create_task(deep(i), name=f"größe-{i}")


async def gathers():
    await asyncio.gather(sleeper(), deep(2))


async def nested_gathers():
    await asyncio.gather(asyncio.gather(sleeper(), sleeper()), deep(1))


async def waits():
    await asyncio.wait([asyncio.create_task(sleeper()) for _ in range(3)])


async def awaits_one():
    await asyncio.create_task(deep(1), name="directly")


async def shields(task):
    awaiters.setdefault(task, set()).add(asyncio.current_task())
    await asyncio.shield(task)


async def waits_for():
    await asyncio.wait_for(deep(1), 3600)


async def waits_for_event(event):
    await event.wait()


async def never_begins():
    pass


async def main(name, count):
    asyncio.get_running_loop().set_task_factory(make_task)
    tasks = [asyncio.create_task(coroutine) for coroutine in
             (sleeper(), deep(5), consumer(), uses_old_style(), uses_awaitable(), gathers(), waits_for(), group(),
              nested_gathers(), waits(), awaits_one(), waits_for_event(asyncio.Event()))]
    shielded = asyncio.create_task(deep(1), name="shielded")
    tasks += [asyncio.create_task(shields(shielded)) for _ in range(2)]
    tasks += [asyncio.create_task(deep(2), name=f"n{i}") for i in range(count)]
    for _ in range(20):
        await asyncio.sleep(0)
    tasks.append(asyncio.create_task(never_begins()))
    note(name)
    if name == "main":
        while "other" not in found:
            time.sleep(0.01)
        with open(sys.argv[1], "w") as file:
            json.dump(found["main"] + found["other"], file)
        print("ready", os.getpid(), flush=True)
    time.sleep(3600)


threading.Thread(target=lambda: asyncio.run(main("other", 2)), daemon=True).start()
asyncio.run(main("main", int(sys.argv[2])))
