"""Threads that share a piece of work: everything is done once, errors arrive, and Ctrl-C leaves nobody behind."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from primalsvm import crew
from primalsvm.crew import in_parts


@pytest.fixture
def alone(monkeypatch):
    """Helpers of this test's own."""
    free: list = []
    monkeypatch.setattr(crew, "_free", free)
    monkeypatch.setattr(crew.Mood, "alone", 0)
    monkeypatch.setattr(crew, "LOST", 1e9)
    yield free
    for helper in free:
        helper.dismiss()


def wait_for(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_every_part_is_done_once_and_answers_keep_their_order(parts):
    seen: list[int] = []

    def work(begin, end):
        seen.append(begin)
        return begin, end

    for _ in range(300):
        seen.clear()
        assert in_parts(list(range(0, 10 * parts + 1, 10)), work) == [(10 * k, 10 * k + 10) for k in range(parts)]
        assert sorted(seen) == list(range(0, 10 * parts, 10))


def test_a_helper_that_sleeps_wakes(alone):
    for _ in range(3):
        assert in_parts([0, 1, 2], lambda begin, end: begin) == [0, 1]
        wait_for(lambda: alone[0].asleep)
    assert len(alone) == 1


def test_a_part_that_nobody_has_begun_is_done_by_the_caller(alone):
    caller = threading.get_ident()
    in_parts([0, 1, 2], lambda begin, end: begin)
    helper = alone[0]
    helper.dismiss()
    helper.thread.join()  # it never comes
    assert in_parts([0, 1, 2], lambda begin, end: threading.get_ident()) == [caller, caller]


def test_a_part_that_takes_long_is_waited_for(alone):
    def work(begin, end):
        time.sleep(0.3 * begin)
        return threading.get_ident()

    mine, other = in_parts([0, 1, 2], lambda begin, end: (time.sleep(0.05), work(begin, end))[1])
    assert mine == threading.get_ident() != other


@pytest.mark.parametrize("where", [0, 1])
def test_an_error_arrives_and_the_next_work_is_done(alone, where):
    def work(begin, end):
        time.sleep(0.02)
        if begin == where:
            raise ZeroDivisionError(begin)

    with pytest.raises(ZeroDivisionError, match=str(where)):
        in_parts([0, 1, 2], work)
    assert in_parts([0, 1, 2], lambda begin, end: end) == [1, 2]


@pytest.mark.parametrize("comes", [True, False])
def test_an_index_error_of_a_part_is_an_error_like_others(alone, comes):
    in_parts([0, 1, 2], lambda begin, end: begin)
    if not comes:
        alone[0].dismiss()
        alone[0].thread.join()

    def work(begin, end):
        time.sleep(0.02 * comes)
        return [1.0][begin]

    with pytest.raises(IndexError):
        in_parts([0, 1, 2], work)
    assert not alone


def test_an_error_keeps_no_arrays_alive(alone):
    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)

    def work(begin, end, large=large):
        time.sleep(0.02)
        raise ZeroDivisionError if begin else StopIteration

    gc.disable()
    try:
        with pytest.raises(StopIteration):
            in_parts([0, 1, 2], work)
        del large, work
        wait_for(lambda: seen() is None)
    finally:
        gc.enable()


def test_ctrl_c_leaves_and_the_next_work_has_other_helpers(alone):
    begun, go_on = threading.Event(), threading.Event()

    def work(begin, end):
        if begin:
            begun.set()
            go_on.wait(10)
        else:
            begun.wait(10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_parts([0, 1, 2], work)
    assert not alone
    assert in_parts([0, 1, 2], lambda begin, end: end) == [1, 2]
    go_on.set()


def test_many_callers_at_once(alone):
    """As binary problems on several threads are, each with several for itself."""
    x = np.random.default_rng(0).standard_normal(3000)
    wrong = []

    def call():
        for _ in range(200):
            parts = in_parts([0, 1000, 2000, 3000], lambda begin, end: x[begin:end].sum())
            if parts != [x[:1000].sum(), x[1000:2000].sum(), x[2000:].sum()]:
                wrong.append(parts)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    assert len(alone) <= 8


def test_parts_of_parts():
    def outer(begin, end):
        return sum(in_parts([begin, begin + 1, end], lambda a, b: b - a))

    assert in_parts([0, 5, 10], outer) == [5, 5]


def test_the_process_ends_while_helpers_watch():
    code = "from primalsvm.crew import in_parts; print(in_parts([0, 1, 2], lambda begin, end: end))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 2]\n", "")


def test_a_helper_that_stood_still_sends_the_next_calls_back(alone, monkeypatch):
    monkeypatch.setattr(crew, "LOST", 0.01)
    monkeypatch.setattr(crew.Mood, "next", crew.ALONE)

    def who(begin, end):
        until = time.perf_counter() + 0.02  # long enough for the helper to come
        while time.perf_counter() < until:
            pass
        return threading.get_ident()

    def stand_still(begin, end):
        time.sleep(0.05)
        return who(begin, end)

    in_parts([0, 1, 2], stand_still)  # the first job waits for its thread to begin, and says nothing of the machine
    assert crew.Mood.alone == 0
    mine, other = in_parts([0, 1, 2], stand_still)
    assert mine != other
    for _ in range(crew.ALONE):
        assert in_parts([0, 1, 2], who) == [mine, mine]
    assert crew.Mood.alone == 0 and crew.Mood.next == 2 * crew.ALONE
