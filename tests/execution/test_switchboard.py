"""Lines between the drains of workers and their pusher."""

import os
import threading
import time

import pytest

from django_jobs.execution import line as line_module
from django_jobs.execution import orphans, switchboard
from django_jobs.execution.line import Line
from django_jobs.execution.switchboard import Switchboard


@pytest.fixture
def board():
    board = Switchboard(2)
    yield board
    board.close()


@pytest.fixture
def call(board):
    """Call the board as a drain does, with the number of a word that it gave."""
    lines = []

    def call(number=None):
        if number is None:
            number = board.numbers_of_words()[0]
        line = Line.call(board.address, number)
        lines.append(line)
        hear(board)
        return line

    yield call
    for line in lines:
        line.close()


def hear(board):
    for _ in range(4):
        board.serve(0.05)


def waiting(line, seconds=20.0):
    """Let ``line`` wait in a thread; return the thread and what it returns."""
    result = []
    thread = threading.Thread(target=lambda: result.append(line.wait(seconds)))
    thread.start()
    return thread, result


def idle(board, line):
    thread, result = waiting(line)
    end = time.monotonic() + 5
    while not board.idle() and time.monotonic() < end:
        board.serve(0.05)
    return thread, result


def test_each_seat_is_given_one_word_until_its_drain_has_ended(board, call):
    numbers = board.numbers_of_words()
    assert len(numbers) == 2
    assert board.numbers_of_words() == []
    line = call(numbers[0])
    assert board.numbers_of_words() == []
    line.close()
    hear(board)
    assert len(board.numbers_of_words()) == 1


def test_a_word_that_nobody_answers_is_given_again_later_and_later(board, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(switchboard.time, "monotonic", lambda: now)
    given = []
    for _ in range(600):
        now += 1
        given += [now] * bool(board.numbers_of_words())
    assert len(given) == 7  # after 5 s, 10 s, 20 s … more
    assert given[-1] - given[-2] >= switchboard.LOST_AFTER * 2**5


def test_a_drain_that_waits_is_woken(board, call):
    thread, result = idle(board, call())
    assert board.idle() == 1
    board.wake(5)
    thread.join(5)
    assert result == [True]
    assert board.idle() == 0


def test_a_drain_that_nobody_wakes_looks_by_itself_and_counts_as_busy(board, call):
    line = call()
    thread, result = waiting(line, 0.05)
    thread.join(5)
    hear(board)
    assert result == [True]
    assert board.idle() == 0


def test_an_ordinary_task_makes_a_drain_end_and_the_next_word_says_that_it_was_taken(board, call):
    first, second = board.numbers_of_words()
    thread, result = idle(board, call(first))
    board.ordinary_tasks(1)
    thread.join(5)
    assert result == [False]
    other = call(second)  # its word was given before the task
    thread, result = waiting(other)
    hear(board)
    thread.join(5)
    assert result == [False]  # it comes too late to know: it makes room as well
    other.close()
    hear(board)
    later = call()  # this word went into the queue after the task, which is out of it
    thread, _ = idle(board, later)
    assert board.idle() == 1
    board.wake(1)
    thread.join(5)


def test_a_stop_reaches_drains_that_wait_and_drains_that_work(board, call):
    numbers = board.numbers_of_words()
    busy = call(numbers[0])
    thread, result = idle(board, call(numbers[1]))
    assert (busy.is_over, busy.stops_since) == (False, None)
    board.stop()
    thread.join(5)
    assert result == [False]
    assert busy.is_over
    assert busy.stops_since == pytest.approx(time.monotonic(), abs=5)


def test_a_drain_whose_pusher_is_gone_ends_without_hurry(board, call):
    line = call()
    board.close()
    assert line.is_over
    assert line.stops_since is None  # another pusher may come: running jobs go on
    assert Line.call(board_address := "django_jobs-nobody", 1) is None, board_address


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # this process has threads
def test_a_process_that_a_handler_forks_does_not_hold_the_line(board, call):
    line = call(board.numbers_of_words()[0])
    begun, hold = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        os.read(begun, 1)  # lives on after its parent's drain
        os._exit(0)
    try:
        line.close()
        hear(board)
        assert len(board.numbers_of_words()) == 1  # the seat is free
    finally:
        os.close(hold)
        os.close(begun)
        os.waitpid(child, 0)


def test_an_orphan_stops(board, call, monkeypatch):
    line = call()
    monkeypatch.setattr(orphans, "_guard", (os.getpid(), -1))
    assert line.stops_since is not None


def test_a_caller_of_another_user_is_sent_away(board, monkeypatch):
    monkeypatch.setattr(line_module, "is_of_this_user", lambda line: False)
    assert Line.call(board.address, 1) is None


def test_where_there_are_no_lines_no_words_are_kept(monkeypatch):
    monkeypatch.setattr(switchboard.sys, "platform", "darwin")
    board = Switchboard(2)
    assert (board.address, board.numbers_of_words(), board.idle()) == ("", [], 0)
    board.serve(0.01)
