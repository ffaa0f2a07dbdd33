"""Settings of the whole suite.

Property tests run a small number of examples by default, so that the suite stays quick;
`--property-examples 10000` runs them at length.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--property-examples", type=int, default=40, help="examples a property test tries (default 40)"
    )
    parser.addoption("--soak", action="store_true", help="run soak tests at full length: simulated hours")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "antecast",
        max_examples=config.getoption("--property-examples"),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=True,
    )
    settings.load_profile("antecast")


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
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Spark session for all tests that need one."""
    from antecast.spark.session import start_session

    session = start_session("tests", master="local[2]", log=tmp_path_factory.mktemp("spark") / "spark.log")
    yield session
    session.stop()
