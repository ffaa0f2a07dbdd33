"""What a user has told Spark already: `spark-defaults.conf`, `PYSPARK_SUBMIT_ARGS`.

`spark-submit` reads both itself when it starts the JVM, where a session finds them. We read them as well, before
there is a JVM: settings of ours give way to the user's, and where the work goes decides how the JVM is started.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from antecast.core.errors import ConfigurationError, InputError

_LINE = re.compile(r"\s*([^\s=:#!]+)\s*[=:\s]\s*(.*?)\s*")
_SHELL = "pyspark-shell"
"""What `spark-submit` is to start; the last of its arguments."""

_AS_SETTINGS = {
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
}
"""Options of `spark-submit` that stand for a setting."""


def user_settings() -> dict[str, str]:
    """The settings in force for this user, the options of `spark-submit` before those of the file."""
    options, file = _submitted(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    file = file or _defaults_file()
    return (read_properties(file) if file is not None and file.is_file() else {}) | options


def heap_is_set(settings: Mapping[str, str]) -> bool:
    """Whether the user has said how much memory the JVM of a driver takes; Spark reads the environment too."""
    return "spark.driver.memory" in settings or any(map(os.environ.get, ("SPARK_DRIVER_MEMORY", "SPARK_MEM")))


def add_settings(chosen: dict[str, str]) -> None:
    """Settings for the sessions of this process, before those of the user; also those that the JVM starts with."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS", "").strip().removesuffix(_SHELL).strip()
    words = [word for key, value in chosen.items() for word in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(filter(None, [before, shlex.join(words), _SHELL]))


def pairs(values: list[str], field: str) -> dict[str, str]:
    """Settings as a command line gives them.

    >>> pairs(["spark.sql.shuffle.partitions=8"], "--conf")
    {'spark.sql.shuffle.partitions': '8'}
    """
    found = {}
    for each in values:
        key, equals, value = each.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise ConfigurationError(f"got {each!r}, which is not of the form spark.KEY=VALUE", field=field)
        found[key.strip()] = value.strip()
    return found


def read_properties(file: Path) -> dict[str, str]:
    """The settings of a properties file: a key and a value per line, with a blank, = or : between them."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=file) from None
    lines = (line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#!")
    return {found[1]: found[2] for line in lines if (found := _LINE.fullmatch(line))}


def _defaults_file() -> Path | None:
    folder = os.environ.get("SPARK_CONF_DIR")
    home = os.environ.get("SPARK_HOME")
    if folder or home:
        return Path(folder or f"{home}/conf") / "spark-defaults.conf"
    return None


def _submitted(arguments: str) -> tuple[dict[str, str], Path | None]:
    """The settings among the arguments of `spark-submit`, and the properties file that they name."""
    try:
        words = shlex.split(arguments)
    except ValueError as error:
        raise ConfigurationError(f"cannot be read: {error}", field="PYSPARK_SUBMIT_ARGS") from None
    words = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    found: dict[str, str] = {}
    file = None
    for option, value in pairwise(words):
        if option in ("--conf", "-c"):
            found |= pairs([value], "PYSPARK_SUBMIT_ARGS")
        elif option in _AS_SETTINGS:
            found[_AS_SETTINGS[option]] = value
        elif option == "--properties-file":
            file = Path(value)
    return found, file
