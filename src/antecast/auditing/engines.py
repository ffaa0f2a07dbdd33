"""Which engine judges a log: this process, or Spark."""

from __future__ import annotations

from antecast.auditing.foreign import ForeignLog
from antecast.core.errors import ConfigurationError
from antecast.core.host import free_memory
from antecast.history.log_files import Log

ENGINES = ("auto", "local", "spark")


def engine_for(engine: str, master: str | None, log: Log | ForeignLog) -> str:
    """`local` or `spark`.

    One process is several times faster than Spark on the same machine, whatever the size of the log, so `auto`
    takes Spark only if a master is named.
    """
    if engine not in ENGINES:
        raise ConfigurationError(f"no such engine {engine!r}; there are {', '.join(ENGINES)}", field="--engine")
    if engine == "local" and master is not None:
        raise ConfigurationError("names where Spark is, which --engine local leaves out", field="--master")
    if isinstance(log, ForeignLog) and log.model != "kv":
        if engine == "spark" or master is not None:
            problem = f"{log.model} are judged in this process; Spark judges tables of broadcasts and histories"
            raise ConfigurationError(problem, field="--engine" if engine == "spark" else "--master")
        return "local"
    if engine != "auto":
        return engine
    return "local" if master is None else "spark"


def memory_for(memory: int | None) -> int:
    """Bytes for the events of a table that this process judges; half of what is free if nothing is said."""
    return free_memory() // 2 if memory is None else memory
