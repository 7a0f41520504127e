"""Work in a copy of this process, which leaves no trace in it.

A settled network is half a gigabyte of tables, some of them of compiled code, which can neither be
copied nor pickled; but a process can be, at once and as it is (`fork`). Only the measures come
back."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait

from reefcast.errors import InternalError
from reefcast_lab.experiments.campaign import Measure


def apart(work: Callable[[], list[Measure]]) -> list[Measure]:
    """Return what `work` returns in a copy of this process, or raise what it raises."""
    processes = multiprocessing.get_context("fork")
    here, there = processes.Pipe(duplex=False)
    copy = processes.Process(target=_work, args=(work, there))
    copy.start()
    there.close()
    try:
        result = here.recv()
    except EOFError:
        copy.join()
        raise InternalError(
            f"the copy of the process that measured ended with status {copy.exitcode} before it "
            "was done; a negative one is a signal, and -9 mostly means too little memory"
        ) from None
    finally:
        here.close()
        copy.join()
    if isinstance(result, BaseException):
        raise result
    measures: list[Measure] = result
    return measures


def _work(work: Callable[[], list[Measure]], there: Connection) -> None:
    """Work in the copy, and send the result, or the error."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    result: list[Measure] | BaseException
    try:
        result = work()
    except BaseException as failure:
        result = failure
    there.send(result)


def _end_with_parent() -> None:
    """End this process when the one that it is a copy of is gone: nobody wants the result."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
