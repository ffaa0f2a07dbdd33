"""The session: where it comes from, what it needs, and that nothing starts it by accident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antecast.core import ConfigurationError
from antecast.spark.session import (
    _collector,
    _heap,
    check_java,
    is_connect,
    java_version,
    job_description,
    spark_session,
    start_session,
)
from antecast.spark.user_settings import add_settings, pairs, user_settings


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return folder


def test_importing_antecast_imports_no_spark() -> None:
    code = "import antecast, antecast.cli, antecast.spark.sweep, sys; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_missing_java_is_told_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"needs Java 17 or newer, and no Java in JAVA_HOME .*apt-get"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no Java was found"):
        check_java()


@pytest.mark.parametrize(("version", "major"), [("1.8.0_292", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)])
def test_the_version_of_java_is_read(
    version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    assert java_version() == (version, major)
    if major < 17:
        with pytest.raises(ConfigurationError, match=f"this is Java {version}") as caught:
            check_java()
        assert "\n" not in str(caught.value)
    else:
        check_java()


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2"])
def test_a_master_that_is_not_there_is_refused_at_once(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antecast.spark.session._active", lambda: None)
    with pytest.raises(ConfigurationError, match="--master: nothing answers at spark://127"):
        start_session(master=master)


@pytest.mark.spark
@pytest.mark.jvm("asks for the settings of the embedded Spark")
def test_an_embedded_session_keeps_to_itself_and_retries_tasks(spark: Any) -> None:
    conf = spark.sparkContext.getConf()
    assert spark.sparkContext.master == "local[2,4]"
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert not is_connect(spark)


@pytest.mark.spark
@pytest.mark.jvm("compares the SparkContext")
def test_an_active_session_is_used_and_left_running(spark: Any) -> None:
    with spark_session() as found:
        assert found.sparkContext is spark.sparkContext
    with spark_session(spark=spark) as given:
        assert given is spark
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_workers_run_this_python(spark: Any) -> None:
    def which(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable] * len(batch)})

    assert {row[0] for row in spark.range(2).mapInArrow(which, "python string").collect()} == {sys.executable}


@pytest.mark.spark
@pytest.mark.jvm("Connect has no local properties")
def test_a_description_lasts_as_long_as_its_block(spark: Any) -> None:
    context = spark.sparkContext
    with job_description(spark, "outer"):
        with job_description(spark, "inner"):
            assert context.getLocalProperty("spark.job.description") == "inner"
        assert context.getLocalProperty("spark.job.description") == "outer"
    assert context.getLocalProperty("spark.job.description") is None


def test_settings_of_a_user_are_read_from_where_spark_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert user_settings() == {}
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\n\nspark.master  spark://a:7077\nspark.a=1\n spark.b : x y = z \n! no\nspark.empty \n"
    )
    expected = {"spark.master": "spark://a:7077", "spark.a": "1", "spark.b": "x y = z", "spark.empty": ""}
    assert user_settings() == expected
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "--conf 'spark.a=2 3' --master=local[3] --packages a:b:1 -c spark.c=4 pyspark-shell"
    )
    expected |= {"spark.a": "2 3", "spark.master": "local[3]", "spark.c": "4"}
    assert user_settings() == expected
    add_settings({"spark.c": "it's 5"})
    assert user_settings() == expected | {"spark.c": "it's 5"}
    assert os.environ["PYSPARK_SUBMIT_ARGS"].endswith(" pyspark-shell")
    other = tmp_path / "other.conf"
    other.write_text("spark.d 1\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {other} pyspark-shell")
    assert user_settings() == {"spark.d": "1"}


@pytest.mark.parametrize("bad", ["spark.a", "master=local", "=1"])
def test_a_setting_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--conf: got .*, which is not of the form spark.KEY=VALUE"):
        pairs([bad], "--conf")


_SHOW = """
import json, sys
from antecast.spark.session import spark_session
from antecast.spark.user_settings import add_settings
add_settings({"spark.sql.shuffle.partitions": "7"})
with spark_session(master=None) as spark:
    names = ["master", "sql.shuffle.partitions", "app.name", "hadoop.a.b", "c", "ui.enabled"]
    conf = spark.sparkContext.getConf()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration().get("a.b")
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    print(json.dumps([[conf.get("spark." + name) for name in names], hadoop, partitions]))
"""


@pytest.mark.spark
@pytest.mark.jvm("starts an embedded Spark")
def test_a_session_of_our_own_keeps_what_the_user_has_set(tmp_path: Path) -> None:
    """Before: nothing of `spark-defaults.conf` or `PYSPARK_SUBMIT_ARGS` reached the session."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[1]\nspark.hadoop.a.b file\nspark.sql.shuffle.partitions 5\nspark.app.name mine\n"
    )
    environment = os.environ | {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.c=submitted pyspark-shell",
    }
    done = subprocess.run([sys.executable, "-c", _SHOW], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    conf, hadoop, partitions = json.loads(done.stdout)
    assert conf == ["local[1,4]", "7", "mine", "file", "submitted", "false"]
    assert (hadoop, partitions) == ("file", "7")


_HEAP = """
import json, os, sys
from antecast.core import host
from antecast.spark.session import spark_session
from antecast.spark.user_settings import add_settings
host._ROOT = host.Path(sys.argv[1])
if len(sys.argv) > 2:
    add_settings({"spark.driver.memory": sys.argv[2]})
said = []
for settings in ({}, {"spark.app.name": "second"}):
    with spark_session("heap", settings=settings) as spark:
        if "SPARK_REMOTE" in os.environ:
            from pyspark import SparkContext
            java, name = SparkContext._jvm, spark.conf.get("spark.driver.memory", None)
        else:
            java, name = spark.sparkContext._jvm, spark.sparkContext.getConf().get("spark.driver.memory")
        management = java.java.lang.management.ManagementFactory
        given = [each for each in management.getRuntimeMXBean().getInputArguments() if each.startswith("-Xmx")]
        collectors = [each.getName() for each in management.getGarbageCollectorMXBeans()]
        said.append([given, name, collectors])
    if "SPARK_REMOTE" in os.environ:
        break
print(json.dumps(said))
"""


@pytest.mark.spark
@pytest.mark.jvm("starts an embedded Spark")
@pytest.mark.parametrize(
    ("machine", "chosen", "environment", "heap"),
    [
        (8, None, {}, "2048m"),
        (8, None, {"SPARK_REMOTE": "local[1]"}, "2048m"),
        (8, "1200m", {}, "1200m"),
        (8, None, {"PYSPARK_SUBMIT_ARGS": "--driver-memory 1300m pyspark-shell"}, "1300m"),
        (8, None, {"SPARK_DRIVER_MEMORY": "1400m"}, "1400m"),
        (8, None, {"defaults": "1500m"}, "1500m"),
        (8, None, {"defaults": "1500m", "SPARK_REMOTE": "local[1]"}, "1500m"),
        (8, None, {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:+UseG1GC pyspark-shell"}, "2048m"),
        (8, None, {"JAVA_TOOL_OPTIONS": "-XX:+UseG1GC"}, "2048m"),
    ],
)
def test_a_java_of_our_own_takes_a_quarter_of_the_memory_unless_the_user_says_otherwise(
    machine: int, chosen: str | None, environment: dict[str, str], heap: str, tmp_path: Path
) -> None:
    """Before: 1 GB, which the shuffle of a large audit filled."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: {machine << 20} kB\n")
    if defaults := environment.pop("defaults", None):
        (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.memory {defaults}\n")
    whole = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    done = subprocess.run(
        [sys.executable, "-c", _HEAP, str(tmp_path), *([chosen] if chosen else [])],
        capture_output=True,
        text=True,
        env=whole | {"SPARK_CONF_DIR": str(tmp_path)} | environment,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for given, named, collectors in json.loads(done.stdout):
        assert given == [f"-Xmx{heap}"]
        assert named in (heap, None)
        wanted = "G1" if "G1" in str(environment) else "PS"  # as Java names the parallel collector
        assert all(each.startswith(wanted) for each in collectors)


@pytest.mark.parametrize(("gigabytes", "heap"), [(1, "1024m"), (2, "1024m"), (6, "1536m"), (64, "4096m")])
def test_the_heap_of_local_mode_has_a_least_and_a_most(
    gigabytes: int, heap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecast.spark.session.allowed_memory", lambda: gigabytes << 30)
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    for name in ("SPARK_DRIVER_MEMORY", "SPARK_MEM"):
        monkeypatch.delenv(name, raising=False)
    for master in ("local", "local[*]", "local[2,4]"):
        assert _heap(master, {}) == {"spark.driver.memory": heap}
        assert _heap(master, {"spark.driver.memory": "3g"}) == {}
    for master in ("local-cluster[2,1,1024]", "spark://a:7077", "yarn"):
        assert _heap(master, {}) == {}
    monkeypatch.setattr("pyspark.SparkContext._gateway", object())
    assert _heap("local[2]", {}) == {}


def test_our_garbage_collector_gives_way_to_any_java_options_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java does not start if it is told of two."""
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    ours = {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC"}
    assert _collector("local[2,4]", {}) == _collector("local", {"spark.executor.memory": "3g"}) == ours
    assert _collector("spark://a:7077", {}) == {}
    for name in ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"):
        assert _collector("local[2]", {name: "-XX:+UseZGC"}) == {}
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:+UseSerialGC")
    assert _collector("local[2]", {}) == {}


KILLED = """
import os, signal
from antecast.spark.session import SparkEnded, spark_session
try:
    with spark_session("dies") as spark:
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        spark.range(1).count()
except SparkEnded as error:
    print(error)
with spark_session("lives") as spark:
    print(spark.range(3).count())
"""


@pytest.mark.spark
@pytest.mark.jvm("starts an embedded Spark")
def test_a_java_that_is_gone_is_said_in_one_line_and_the_next_session_has_another() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=300, check=False
    )
    said, counted = ended.stdout.splitlines()
    assert said.startswith("Spark's Java process has ended (by signal 9); it may need more memory")
    assert (counted, ended.returncode) == ("3", 0), ended.stderr
