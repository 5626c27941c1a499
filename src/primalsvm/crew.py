"""Threads that share one piece of work, and stay awake between two of them.

    in_parts([0, 10, 20], work)     work(0, 10) and work(10, 20) at the same time; the answers in their order

A product here takes a tenth of a millisecond, and to wake a thread that sleeps takes the system as long, on a virtual
machine ten times as long. So a helper that has done its part watches for the next one, in compiled code and without
Python's lock, and goes to sleep only when for WATCH looks none has come; whoever waits for a helper watches in the same
way. Both cost microseconds.

Where other programs keep the processors busy, a helper that is made to wait makes everybody wait. So one that has lost
time sends the next calls back: their parts are done one after the other, with the same bits, before helpers are asked
again; and a part that a helper has not begun when the caller is done with his own is done by the caller.

Helpers come into being when they are needed first, are kept for whoever needs some next, and never outlive the process.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

WATCH = 20_000  # looks, of 20 to 50 ns each: half a millisecond or more
LOST = 30e-3 if os.name == "nt" else 2e-3  # seconds that a helper stood still (Windows counts in ticks of 16 ms) ...
SHARE = 0.5  # ... and the part of its time: then the machine is busy
ALONE, LONGEST = 8, 256  # calls without helpers after that, and twice as many each time, up to so many
REST = 200  # looks after the bell, while who rang it lets go of Python's lock
RUNG, DONE, SPARE = 0, 8, 16  # places in a helper's bell, a cache line apart: the last job asked for, the last one done

Answer = TypeVar("Answer")


class Helper:
    """A thread, and one job at a time for it."""

    def __init__(self):
        self.bell = np.zeros(24, dtype=np.int64)
        self.alarm, self.asleep, self.leaving = threading.Event(), False, False
        self.finished = threading.Lock()
        self.finished.acquire()
        self.todo: list[Callable[[], Any]] = []  # one job at most: whoever pops it does it
        self.found: Any = None
        self.error: BaseException | None = None
        self.rung, self.lost = 0.0, 0.0
        self.thread = threading.Thread(target=self._serve, name="primalsvm-helper", daemon=True)
        self.thread.start()

    def begin(self, job: Callable[[], Any]) -> None:
        self.rung, self.lost = time.perf_counter(), 0.0
        self.todo.append(job)
        self.bell[RUNG] += 1
        if self.asleep:
            self.alarm.set()

    def answer(self) -> Any:
        """What the job has found. If it has not been begun yet, on a busy machine, the caller does it."""
        from .cpu_kernels import tell_and_watch

        try:
            job = self.todo.pop()
        except IndexError:
            job = None
        if job is not None:
            return job()
        tell_and_watch(self.bell, SPARE, 0, DONE, int(self.bell[RUNG]) - 1, WATCH, 0)
        self.finished.acquire()
        found, error = self.found, self.error
        self.found = self.error = None
        try:
            if error is not None:
                raise error
        finally:
            del error  # it knows this frame
        return found

    def dismiss(self) -> None:
        """It ends after what it is doing."""
        self.leaving = True
        self.alarm.set()

    def _serve(self) -> None:
        from .cpu_kernels import tell_and_watch

        done = 0
        while not self.leaving:
            if self.bell[RUNG] == done and tell_and_watch(self.bell, DONE, done, RUNG, done, WATCH, REST) == done:
                self.alarm.clear()
                self.asleep = True
                if self.bell[RUNG] == done and not self.leaving:
                    self.alarm.wait()
                self.asleep = False
                continue
            done = int(self.bell[RUNG])
            try:
                job = self.todo.pop()
            except IndexError:  # the caller has done it
                continue
            worked = time.thread_time()
            try:
                self.found = job()
            except BaseException as error:
                self.error = error
            took = time.perf_counter() - self.rung
            lost = took - (time.thread_time() - worked)
            self.lost = lost if lost > SHARE * took and done > 1 else 0.0  # the first job has waited for the thread
            del job  # and what it holds
            self.finished.release()
        self.found = self.error = None  # nobody asks any more


class Mood:
    """Is the machine busy?"""

    alone = 0  # calls still to be done without helpers
    next = ALONE

    @classmethod
    def note(cls, lost: float) -> None:
        if lost > LOST:
            cls.alone, cls.next = cls.next, min(2 * cls.next, LONGEST)
        else:
            cls.next = max(cls.next // 2, ALONE)


_free: list[Helper] = []  # helpers with nothing to do


def in_parts(bounds: list[int], work: Callable[[int, int], Answer]) -> list[Answer]:
    """work(bounds[0], bounds[1]), work(bounds[1], bounds[2]), ... at the same time; the answers in their order."""
    mine, *others = pairwise(bounds)
    if not others or Mood.alone > 0:
        Mood.alone -= bool(others)
        return [work(*pair) for pair in (mine, *others)]
    helpers: list[Helper] = []
    try:
        for pair in others:
            try:
                helpers.append(_free.pop())
            except IndexError:
                helpers.append(Helper())
            helpers[-1].begin(lambda pair=pair: work(*pair))  # type: ignore[misc]
        answers = [work(*mine)]
        answers += [helper.answer() for helper in helpers]
    except BaseException:  # an error, or Ctrl-C: nobody waits for them any more
        for helper in helpers:
            helper.dismiss()
        raise
    Mood.note(max(helper.lost for helper in helpers))
    _free.extend(helpers)
    return answers


@atexit.register
def _dismiss_all() -> None:
    """Before the interpreter goes: compiled code must not be running when it does."""
    helpers = _free[:]
    _free.clear()
    for helper in helpers:
        helper.dismiss()
    for helper in helpers:
        helper.thread.join(1.0)


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads, and would wait for them for ever
    os.register_at_fork(after_in_child=_free.clear)
