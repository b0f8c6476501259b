"""Two real processes that do something to the same rows at the same moment, round after round."""

import contextlib
import multiprocessing

import django
from django.utils.module_loading import import_string

PATIENCE = 60  # seconds at the barrier until the other process is taken to hang


def contest(first, second, keys):
    """Let two processes meet at a barrier for each of ``keys``; return what became of each.

    ``first`` and ``second`` are the dotted names of generator functions of a key: what they do
    before they yield is done before the barrier, the rest after it. The answer has two lists, one
    entry for each key: "won", or the name of the error.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    pipes, processes = [], []
    for name in (first, second):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_take_part, args=(name, keys, barrier, theirs))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return [_answer(pipe) for pipe in pipes]
    finally:
        for process in processes:
            process.join(PATIENCE)
            process.kill()
            process.close()


def _answer(pipe):
    assert pipe.poll(5 * PATIENCE), "a contestant hangs"
    with contextlib.suppress(EOFError):  # it died; its traceback is on stderr
        return pipe.recv()
    return None


def _take_part(name, keys, barrier, pipe):
    django.setup()
    contestant = import_string(name)
    try:
        pipe.send([_play(contestant(key), barrier) for key in keys])
    except BaseException:
        barrier.abort()  # the other one does not wait for a dead one
        raise


def _play(steps, barrier):
    from django_jobs.exceptions import JobsError  # not before Django is set up

    next(steps)
    barrier.wait(PATIENCE)
    try:
        next(steps, None)
    except JobsError as error:
        return type(error).__name__
    return "won"
