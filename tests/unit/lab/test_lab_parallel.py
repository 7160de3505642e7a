"""Work done side by side keeps its order, and neither an error nor an interrupt waits for it."""

from __future__ import annotations

import _thread
import threading
import time

import pytest

from rdmaprov.lab.tools import in_parallel


def test_results_keep_the_order_of_the_items():
    def work(number):
        time.sleep(0.02 * (3 - number))
        return number * 10

    assert in_parallel(work, [0, 1, 2]) == [0, 10, 20]


def test_nothing_to_do_is_done():
    assert in_parallel(str, []) == []


def test_error_comes_through_without_waiting_for_the_others():
    never = threading.Event()

    def work(number):
        if number == 1:
            raise ValueError("no such luck")
        never.wait()

    with pytest.raises(ValueError, match="no such luck"):
        in_parallel(work, [0, 1])


def test_interrupt_comes_through_while_all_are_busy():
    never = threading.Event()

    def work(number):
        if number == 1:
            _thread.interrupt_main()
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        in_parallel(work, [0, 1])
