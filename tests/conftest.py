"""Settings of the whole suite.

Property tests run a small number of examples by default, always the same, so that the suite is quick and a failure
is the fault of the change at hand; `--property-examples 10000` runs them at length, with other examples each time.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--property-examples",
        type=int,
        help="examples a property test tries, other ones each time (default: 25, always the same)",
    )
    parser.addoption("--soak", action="store_true", help="run soak tests at full length: simulated hours")
    parser.addoption("--connect", action="store_true", help="run tests on Spark through a Spark Connect server")


def pytest_configure(config: pytest.Config) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(
            name, "tests"
        )  # for the workers of Spark, which may be started before they need them
    os.environ.pop("COLUMNS", None)  # from the runner of several processes; output is tested as in a pipe
    os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))
    examples = config.getoption("--property-examples")
    settings.register_profile(
        "antecast",
        max_examples=examples or 25,
        derandomize=examples is None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=True,
    )
    settings.load_profile("antecast")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m spark`, files without a test on Spark are not even imported, which takes a quarter of a minute."""
    if config.option.markexpr != "spark" or collection_path.suffix != ".py":
        return None
    return None if "mark.spark" in collection_path.read_text(encoding="utf-8") else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Through Spark Connect, leave out what needs the JVM of a session, and say why."""
    if config.getoption("--connect"):
        for item in items:
            if mark := item.get_closest_marker("jvm"):
                item.add_marker(pytest.mark.skip(reason=f"not through Spark Connect: {mark.args[0]}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuses to draw cases from a set: its order differs between the processes that share the suite."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if any(isinstance(values, set | frozenset) for values in (*mark.args, *mark.kwargs.values())):
            raise pytest.UsageError(f"{metafunc.definition.nodeid}: cases in a set have no order, sort them")


@pytest.fixture
def antecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in this process, in an empty folder: exit code, standard output, standard error."""
    from antecast.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["/usr/bin/antecast", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code, said = ended.value.code, capsys.readouterr()
        return code if isinstance(code, int) else 0, said.out, said.err

    return call


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for all tests that need one."""
    from antecast.spark.session import start_session

    folder = tmp_path_factory.mktemp("spark")
    with ExitStack() as stack:
        master = "local[2]"
        if request.config.getoption("--connect"):
            sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
            from spark_servers import connect_server

            master = stack.enter_context(connect_server(folder))
        session = start_session("tests", master=master, log=folder / "spark.log")
        yield session
        session.stop()


@pytest.fixture
def start_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process that can be interrupted; when the test ends, it ends with all that it started.

    A process takes over from its parent which signals it ignores, and in the background (`make test &` in a
    script) interrupts are ignored: a child would never see one. It leads a group of its own, so that none is
    left behind.
    """
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        process = subprocess.Popen(command, **pipes | options, preexec_fn=_take_interrupts)
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
