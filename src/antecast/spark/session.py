"""The one place that makes a Spark session, with the settings that matter and why they are as they are.

Where the work goes, in this order: a session that is handed in; the master that is named (`--master`, a
Spark master or an `sc://` address); `SPARK_REMOTE`; a session that is active already, as in a notebook;
the user's own `spark.master`; else an embedded Spark on all cores of this machine. Jobs use DataFrames only, so
all of these work. Settings of ours give way to the user's (`user_settings`), and those to the ones of a call.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from antecast.core.errors import AntecastError, ConfigurationError
from antecast.core.host import allowed_memory
from antecast.spark.user_settings import heap_is_set, user_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOWEST_JAVA = 17
"""Spark 4 runs on Java 17 and later."""

TASK_FAILURES = 4
"""Times a task may fail before its job does: what a cluster allows by default, and local mode does not."""

_CURE = "Debian, Ubuntu: apt-get install openjdk-17-jre-headless; elsewhere set JAVA_HOME"


@contextmanager
def spark_session(
    name: str = "antecast",
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for a block of work; one that was not there before is stopped at the end of it."""
    session, ours = (spark, False) if spark is not None else _find_or_start(name, master, log, settings)
    try:
        yield session
    except Exception as error:
        lost = isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError"
        if ours and (how := _java_ended(session, wait=_LAST_BREATH if lost else 0)) is not None:
            raise SparkEnded(how) from error
        raise
    finally:
        if ours:
            if _java_ended(session) is None:
                session.stop()
            else:
                _forget_java()


class SparkEnded(AntecastError):
    """The Java process of a session of our own is gone."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"Spark's Java process has ended ({how}); it may need more memory, "
            "such as --conf spark.driver.memory=8g (docs/spark.md)"
        )


_LAST_BREATH = 5.0
"""Seconds that a process may take to end after it has stopped to answer."""

_OUT_OF_MEMORY = 52
"""How Spark ends when its heap is full."""


def _java_ended(session: SparkSession, wait: float = 0) -> str | None:
    """How the Java process of a session ended, if it did; nobody knows that of a server's."""
    if is_connect(session):
        return None
    process: subprocess.Popen[bytes] = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait)
    code = process.poll()
    if code is None:
        return None
    return "out of memory" if code == _OUT_OF_MEMORY else f"by signal {-code}" if code < 0 else f"exit code {code}"


def _forget_java() -> None:
    """So that the next session of this process starts another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def start_session(
    name: str = "antecast",
    *,
    master: str | None = None,
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that stays until it is stopped, for notebooks and tests.

    `log` takes what Spark and its workers print; without it that is thrown away. `settings` are added to
    those that are set here.
    """
    return _find_or_start(name, master, log, settings)[0]


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of a Spark Connect server: it has no SparkContext then."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Name the jobs started in this block in the Spark UI; Spark Connect has names of its own."""
    if is_connect(spark):
        yield
        return
    context: Any = spark.sparkContext
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)


def start_jobs(spark: SparkSession, group: str, description: str) -> None:
    """Give the jobs that this thread starts from now on a group, so that another thread can cancel them.

    Tags would do for both kinds of session, but those of a classic one are known only to the thread that set
    them.
    """
    if is_connect(spark):
        spark.addTag(group)
    else:
        spark.sparkContext.setJobGroup(group, description, interruptOnCancel=True)


def cancel_jobs(spark: SparkSession, group: str) -> None:
    """Cancel the jobs of a group, whichever thread started them."""
    if is_connect(spark):
        spark.interruptTag(group)
    else:
        spark.sparkContext.cancelJobGroup(group)


def java_version() -> tuple[str, int] | None:
    """The Java that Spark would use: its version as it prints it, and the major number."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return None
    try:
        text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', text)
    return (match[1], int(match[2])) if match else None


def check_java() -> None:
    """Refuse, in one line, to start a Spark that could not start."""
    version = java_version()
    if version is None:
        home = os.environ.get("JAVA_HOME")
        where = f"no Java in JAVA_HOME ({home})" if home else "no Java was found"
        raise ConfigurationError(f"Spark needs Java {LOWEST_JAVA} or newer, and {where}; {_CURE}")
    if version[1] < LOWEST_JAVA:
        problem = f"Spark needs Java {LOWEST_JAVA} or newer, and this is Java {version[0]}"
        raise ConfigurationError(f"{problem}; {_CURE}")


def _find_or_start(
    name: str, master: str | None, log: Path | None, settings: Mapping[str, str] | None
) -> tuple[SparkSession, bool]:
    active = _active()
    if active is not None and master is None:
        return active, False
    if active is not None:
        raise ConfigurationError(
            "a Spark session is active already; stop it first, or name no master", field="--master"
        )
    remote = os.environ.get("SPARK_REMOTE") if master is None else master if master.startswith("sc://") else None
    if remote is not None:
        return _connect(remote, settings or {}, log), True
    theirs = user_settings() | dict(settings or {})
    master = _with_retries(master or theirs.get("spark.master") or "local[*]")
    check_java()
    _probe(master)
    ours = _configuration(name, master) | _heap(master, theirs) | _collector(master, theirs)
    return _launch(ours | theirs | {"spark.master": master}, log), True


def _active() -> SparkSession | None:
    """A session that somebody else started."""
    from pyspark.sql import SparkSession

    try:
        return SparkSession.getActiveSession()
    except ImportError:  # SPARK_REMOTE is set and what it needs is missing: reported where it is used
        return None


def _configuration(name: str, master: str) -> dict[str, str]:
    """The settings of a session of our own."""
    conf = {
        "spark.app.name": name,
        "spark.master": master,
        # Tables cross between Spark and Python as Arrow batches, never row by row.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Times in the log are numbers; anything that shows one as a date means UTC.
        "spark.sql.session.timeZone": "UTC",
        # Progress is ours to show, and Spark's bar would write over it.
        "spark.ui.showConsoleProgress": "false",
        # Warnings go to the log file of the session, not to the screen.
        "spark.log.level": "WARN",
        # A simulation is one thread; libraries that start one per core would get in each other's way.
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
    }
    if master.startswith("local"):
        conf |= {
            # Embedded: no web server, and nothing that other machines could reach.
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # 200 partitions, the default, suit a cluster: on two cores they are mostly overhead.
            "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        }
    return conf


_LEAST_HEAP, _MOST_HEAP = 1024, 4096
"""In MB: what Spark gives without being asked, and what the shuffle blocks of an audit of 10⁷ messages fit in."""


def _heap(master: str, theirs: Mapping[str, str]) -> dict[str, str]:
    """The heap of a JVM that does all the work of Spark here, unless the user or an earlier session has set it.

    A quarter of what we may use: Python, its workers and the cache of files need the rest.
    """
    if not _is_ours(master) or heap_is_set(theirs):
        return {}
    megabytes = min(max(allowed_memory() // 4 >> 20, _LEAST_HEAP), _MOST_HEAP)
    return {"spark.driver.memory": f"{megabytes}m"}


_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SAYS_COLLECTOR = (_JAVA_OPTIONS, "spark.driver.extraJavaOptions")
_ENVIRONMENT_OF_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def _collector(master: str, theirs: Mapping[str, str]) -> dict[str, str]:
    """The garbage collector of a JVM that does all the work of Spark here, unless the user gives Java options.

    Jobs want throughput and can wait for a pause: the parallel collector takes up to a tenth less CPU time than
    the default one. Java does not start if it is told of two collectors, so ours gives way to any options.
    """
    said = any(map(theirs.get, _SAYS_COLLECTOR)) or any(
        "GC" in os.environ.get(name, "") for name in _ENVIRONMENT_OF_JAVA
    )
    return {} if said or not _is_ours(master) else {_JAVA_OPTIONS: "-XX:+UseParallelGC"}


def _is_ours(master: str) -> bool:
    """Whether all of Spark runs in one JVM that is about to be started."""
    from pyspark import SparkContext

    return re.fullmatch(r"local(\[.*\])?", master) is not None and SparkContext._gateway is None


def _with_retries(master: str) -> str:
    """Local mode gives up at the first failure of a task; a killed worker should not end a job.

    >>> _with_retries("local[2]"), _with_retries("local"), _with_retries("local[2,1]")
    ('local[2,4]', 'local[1,4]', 'local[2,1]')
    """
    if master == "local":
        return f"local[1,{TASK_FAILURES}]"
    match = re.fullmatch(r"local\[([^,\]]+)\]", master)
    return f"local[{match[1]},{TASK_FAILURES}]" if match else master


def _launch(conf: Mapping[str, str], log: Path | None) -> SparkSession:
    """Start a classic session, in a JVM of its own unless this process has one already."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    with _jvm(conf, log):
        # With what `spark-submit` found out: jars and packages, settings of Hadoop, and others of the user's.
        return SparkSession(SparkContext(conf=SparkConf(loadDefaults=True).setAll(list(conf.items()))))


def _connect(url: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    """Become a client of a Spark Connect server; `local` is one that pyspark starts in a JVM of this process."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.remote(url).appName("antecast").config(map=dict(settings))
    try:
        if url.startswith("local"):
            check_java()
            theirs = user_settings() | dict(settings)
            with (
                _jvm({"spark.master": url} | _heap(url, theirs) | _collector(url, theirs), log),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")  # the client tries to set the address again, in vain
                local: SparkSession = builder.config(
                    "spark.connect.grpc.binding.address", "127.0.0.1"
                ).getOrCreate()
                return local
        _probe(url)
        session: SparkSession = builder.getOrCreate()
        _give_up_in_time(session)
        _ = session.version  # the first call that needs the server
    except ImportError as error:
        problem = f'Spark Connect needs more packages; pip install "pyspark[connect]" ({reason(str(error))})'
        raise ConfigurationError(problem) from error
    except PySparkException as error:
        raise ConfigurationError(f"Spark Connect at {url}: {reason(str(error))}") from error
    return session


def _give_up_in_time(session: SparkSession) -> None:
    """A server that is gone is told after 20 s; the client would ask it again for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    client: Any = session.client
    client.set_retry_policies([DefaultPolicy(max_retries=5)])
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error that follows says what went wrong


def _probe(url: str) -> None:
    """Check that something listens at an address: Spark itself would keep trying for minutes."""
    kind, _, rest = url.partition("://")
    for place in rest.split(",") if kind in ("spark", "sc") else ():
        host, port = re.match(r"([^/:;]*|\[[^\]]+\])(?::(\d+))?", place).groups()  # type: ignore[union-attr]
        try:
            socket.create_connection(
                (host.strip("[]"), int(port or (15002 if kind == "sc" else 7077))), 10
            ).close()
            return
        except OSError as error:
            problem = f"nothing answers at {url} ({error.strerror or error})"
    if kind in ("spark", "sc"):
        raise ConfigurationError(problem, field="--master")


@contextmanager
def _jvm(conf: Mapping[str, str], log: Path | None) -> Iterator[None]:
    """A JVM to start a session in.

    It prints warnings before any logging is configured, so its output goes to the log file from the start.
    Workers take this very Python, or they would look for the packages elsewhere.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    if "spark.pyspark.python" not in conf:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if conf["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    output: IO[bytes] = tempfile.TemporaryFile() if log is None else log.open("ab+")  # noqa: SIM115
    with output, _keeping_interrupts():
        try:
            if SparkContext._gateway is None:  # one JVM per process, whichever session came first
                options: Any = SparkConf(loadDefaults=False).setAll(list(conf.items()))
                with _without("SPARK_REMOTE"):  # our own JVM must not follow it
                    gateway: Any = launch_gateway(options, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
            yield
        except (PySparkException, Py4JJavaError) as error:
            why = reason(str(error))
            if "JAVA_GATEWAY_EXITED" in why:
                output.seek(0)
                why = reason(output.read().decode(errors="replace")) or why
            raise ConfigurationError(f"Spark did not start: {why}") from error


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Hide a variable of the environment for a while."""
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value


@contextmanager
def _keeping_interrupts() -> Iterator[None]:
    """Spark takes over Ctrl-C; whoever started the session keeps it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def reason(text: str) -> str:
    """The most telling line of Spark's error text: the last that names an error, without the stack.

    >>> reason("An error occurred\\n: java.net.BindException: port 1 is taken\\n\\tat a.b.C.error(C.scala:1)")
    'java.net.BindException: port 1 is taken'
    >>> reason('<_InactiveRpcError of RPC that terminated with:\\n\\tdetails = "Connection refused"\\n>')
    'Spark Connect: Connection refused'
    >>> reason("Traceback\\nModuleNotFoundError: No module named 'antecast'")
    'the workers have no Antecast; install it there, or send it along (antecast spark package, docs/cluster.md)'
    >>> reason(
    ...     'Exception: Cannot run program "/opt/python": error=2\\nCaused by: java.io.IOException: error=2: No'
    ... )
    'the workers cannot run /opt/python; PYSPARK_PYTHON or spark.pyspark.python names their Python'
    """
    if re.search(r"No module named 'antecast'", text):
        return (
            "the workers have no Antecast; install it there, or send it along "
            "(antecast spark package, docs/cluster.md)"
        )
    if program := re.search(r'Cannot run program "([^"]*python[^"]*)"', text):
        return f"the workers cannot run {program[1]}; PYSPARK_PYTHON or spark.pyspark.python names their Python"
    if told := re.search(
        r'RpcError.*?details = "(.+?)"$|Rendezvous.*?details = "(.+?)"$', text, re.DOTALL | re.MULTILINE
    ):
        return f"Spark Connect: {told[1] or told[2]}"
    lines = [
        line.removeprefix('Exception in thread "main" ').strip(": \t")
        for line in text.splitlines()
        if line.strip() and not line.startswith("\tat ")
    ]
    telling = [line for line in lines if re.search(r"(Error|Exception)\b.*: ", line)]
    return telling[-1] if telling else lines[0] if lines else ""
