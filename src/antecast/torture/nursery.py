"""Where members come from: a process that has loaded their code, and in which nothing runs, is forked for each.

Importing this module does what every member would do first and alike: it loads the protocols and takes the
fingerprints of their code.
"""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext

import antecast.history.log  # noqa: F401
from antecast.protocols.code import code_identity
from antecast.protocols.registry import specifications
from antecast.torture import member  # noqa: F401

for _each in specifications():
    code_identity(_each)


def nursery() -> ForkServerContext:
    """Starts that process. It is deaf to Ctrl-C, which a terminal sends to all: the command alone ends by it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["antecast.torture.nursery"])
    resource_tracker.ensure_running()  # it would lift the block below
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited; what comes meanwhile is kept
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context
