"""Sweeps in an object store: killed, crowded, refused now and then, and refused for good."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from antecast.core import AntecastError, ConfigurationError, OutputError
from antecast.history import store as stores
from antecast.history.store import Store
from antecast.sim.study import load_study, plan
from antecast.spark import claim
from antecast.spark.folder import SweepFolder
from antecast.spark.sweep import read_sweep, sweep

sys.path.insert(0, str(Path(__file__).parent))

from object_store import CREDENTIALS, proxy, refused, request, s3_server

STUDY = """
seeds = 12
[scenario]
nodes = 6
duration = "2s"
workload = [{ kind = "poisson", rate = 6.0 }]
[grid]
protocol.name = ["vector", "fifo"]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a new bucket; this process and those that it starts reach it."""
    name = f"lab-{uuid.uuid4().hex[:12]}"
    request(server.removeprefix("http://"), "PUT", f"/{name}")
    for key, value in (CREDENTIALS | {"AWS_ENDPOINT_URL": server}).items():
        monkeypatch.setenv(key, value)
    stores._system.cache_clear()
    yield name
    stores._system.cache_clear()


@pytest.fixture
def through(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Puts a proxy between this process and the server; its address."""
    with ExitStack() as stack:

        def start(status: int, code: str, rule: str) -> str:
            address = stack.enter_context(proxy(server, status, code, rule))
            monkeypatch.setenv("AWS_ENDPOINT_URL", address)
            stores._system.cache_clear()
            return address

        yield start


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "orders.toml"
    file.write_text(STUDY)
    return file


def contents(store: Store, *folders: str) -> dict[str, bytes]:
    names = [f"{folder}/{name}".lstrip("/") for folder in folders for name in store.list(folder)]
    return {name: store.read(name) for name in names}


def command(study: Path, *arguments: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "antecast",
        "sweep",
        str(study),
        *arguments,
        "--no-spark",
        "--quiet",
        "--no-report",
    ]


def test_a_sweep_killed_again_and_again_ends_as_the_same_bytes(
    bucket: str, study: Path, start_process: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    undisturbed = sweep(study, out=tmp_path / "undisturbed", local=True)
    assert undisturbed.complete
    place = f"s3://{bucket}/killed"
    begin = time.monotonic()
    assert subprocess.run(command(study, "--out", f"s3://{bucket}/timed"), timeout=120).returncode == 0
    whole = time.monotonic() - begin
    dice = random.Random(7)
    kept = []
    for _ in range(10 if request.config.getoption("--property-examples") else 2):
        process = start_process(command(study, "--out", place))
        time.sleep(dice.uniform(0.3, 1.0) * whole)
        process.kill()
        process.communicate()
        kept.append(len(SweepFolder(place).finished()))
    assert kept == sorted(kept)
    assert subprocess.run(command(study, "--out", place), timeout=120).returncode == 0
    expected = contents(Store(tmp_path / "undisturbed"), "events", "samples")
    assert len(expected) == 2 and contents(Store(place), "events", "samples") == expected


class Died(BaseException):
    """Stands for the death of a process: nothing that it does from then on reaches the store."""


def test_whichever_object_is_the_last_one_a_run_is_whole_or_not_there(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(study, out=tmp_path / "whole", local=True, seeds=2)
    whole = contents(Store(tmp_path / "whole"), "events", "samples")
    real = {name: getattr(Store, name) for name in ("write", "upload", "delete")}
    folder = SweepFolder(tmp_path / "mortal")
    finished = folder.finished()
    for count in itertools.count():  # die before the first object, before the second, …
        left = [count]

        def mortal(act: Callable[..., None], left: list[int]) -> Callable[..., None]:
            def attempt(store: Store, *names: Any) -> None:
                left[0] -= bool(names)
                if left[0] < 0:
                    raise Died
                act(store, *names)

            return attempt

        for name, act in real.items():
            monkeypatch.setattr(Store, name, mortal(act, left))
        with suppress(Died):
            sweep(study, out=folder.store.url, local=True, seeds=2)
            break
        for name, act in real.items():
            monkeypatch.setattr(Store, name, act)
        before, finished = finished, folder.finished()
        assert before <= finished  # what was whole once stays
        for run in finished:
            assert folder.parts.read(run, "events").num_rows == (folder.row(run) or {})["events"]
    assert count > 10
    assert contents(folder.store, "events", "samples") == whole


def test_of_two_drivers_one_is_refused_and_neither_is_damaged(
    bucket: str, study: Path, start_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://{bucket}/crowded"
    monkeypatch.setattr(claim, "_TRIES", 2)
    folder = SweepFolder(place)
    made = load_study(study)
    with folder.claimed(made):
        before = contents(folder.store, "", ".claims")
        ended = subprocess.run(command(study, "--out", place), capture_output=True, text=True, timeout=120)
        assert ended.returncode == 2
        assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
        assert contents(folder.store, "", ".claims").keys() == before.keys()
        with pytest.raises(
            ConfigurationError, match=rf"another sweep is at work in {place} \(process {os.getpid()} on"
        ):
            SweepFolder(place).claimed(made).__enter__()
    assert folder.store.list(".claims") == {}


def test_drivers_that_start_together_never_work_together(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_TRIES", 3)
    holders, together = [0], []
    lock = threading.Lock()

    def drive(_: int) -> bool:
        try:
            with claim.claimed(Store(f"s3://{bucket}/race")):
                with lock:
                    holders[0] += 1
                    together.append(holders[0])
                time.sleep(0.05)
                with lock:
                    holders[0] -= 1
            return True
        except ConfigurationError:
            return False

    with ThreadPoolExecutor(4) as pool:
        went = list(pool.map(drive, range(12)))
    assert any(went) and set(together) == {1}


def test_the_claim_of_a_dead_driver_is_void(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"s3://{bucket}/dead")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    of_ours = claim._ourselves()
    for who in (
        {"pid": gone.pid},
        {"started": "1"},
    ):  # the process is gone, or its number has another process by now
        store.write(".claims/old.json", json.dumps(of_ours | who).encode())
        with claim.claimed(store):
            pass
    monkeypatch.setattr(claim, "_TRIES", 1)
    store.write(".claims/old.json", json.dumps(of_ours | {"boot": "elsewhere"}).encode())
    with pytest.raises(ConfigurationError, match="another sweep is at work"), claim.claimed(store):
        pass
    monkeypatch.setattr(claim, "LEASE", 1.0)
    time.sleep(2.5)  # the store counts in seconds
    with claim.claimed(store):
        pass


def test_a_claim_is_renewed_and_given_up_when_it_cannot_be(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_RENEWAL", 0.1)
    with claim.claimed(Store(f"s3://{bucket}/held")) as held:
        begin, deadline = claim._now(), time.monotonic() + 60
        while held._renewed < begin:
            assert time.monotonic() < deadline, "nobody renews the claim"
            time.sleep(0.05)
        held.check()

        def refuse() -> None:
            raise OutputError("no permission", path="there")

        monkeypatch.setattr(held, "write", refuse)
        monkeypatch.setattr(claim, "LEASE", 0.5)
        time.sleep(1)
        with pytest.raises(claim.ClaimLost, match=r"could not be renewed for 0 s \(no permission\)"):
            held.check()


def test_a_driver_that_was_away_too_long_stops_and_leaves_all_to_the_other(
    bucket: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was stopped (SIGSTOP) and goes on after another has taken its claim away."""
    monkeypatch.setattr(claim, "_RENEWAL", 0.1)
    monkeypatch.setattr(claim, "LEASE", 0.0)  # away all the time
    made, folder = load_study(study), SweepFolder(f"s3://{bucket}/away")
    with folder.claimed(made):
        folder.store.write(".claims/other.json", b"{}")
        folder.store.delete(f".claims/{folder.token}.json")  # void by the clock of the store
        folder.store.write("events/under-way.parquet", b"the other has not written its marker yet")
        assert folder._claim is not None
        folder._claim._thread.join(60)
        with pytest.raises(claim.ClaimLost, match="another driver has taken the folder"):
            folder.check_claim()
    assert set(folder.store.list(".claims")) == {"other.json"}
    assert set(folder.store.list("events")) == {"under-way.parquet"}


def test_a_claim_taken_between_the_look_and_the_writing_is_lost_too(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a driver that is stopped right after it has seen that its claim is there."""

    class Interrupted(Store):
        def exists(self, name: str) -> bool:
            there = super().exists(name)
            self.write(".claims/other.json", b"{}")
            self.delete(name)
            return there

    monkeypatch.setattr(claim, "_RENEWAL", 0.01)
    monkeypatch.setattr(claim, "LEASE", 0.0)
    store = Interrupted(f"s3://{bucket}/between")
    with claim.claimed(store) as held:
        held._thread.join(60)
        assert not held._thread.is_alive()
        with pytest.raises(claim.ClaimLost, match="another driver has taken the folder"):
            held.check()
    assert set(store.list(".claims")) == {"other.json"}


@pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (429, "TooManyRequests")])
def test_whatever_a_busy_store_says_it_is_asked_again(
    bucket: str, through: Callable[..., str], status: int, code: str
) -> None:
    address = through(status, code, "now and then")
    store = Store(f"s3://{bucket}/asked")
    for number in range(10):
        store.write(f"{number}", b"here")
        assert store.read(f"{number}") == b"here" and len(store.list("")) == number + 1
        with store.open(f"{number}") as file:
            assert (file.read(2), file.read()) == (b"he", b"re")
    assert refused(address) >= 7


def test_a_store_that_is_busy_now_and_then_is_ridden_out(
    bucket: str, through: Callable[..., str], study: Path, tmp_path: Path
) -> None:
    address = through(503, "SlowDown", "now and then")
    result = sweep(study, out=f"s3://{bucket}/busy", local=True, seeds=2)
    assert result.complete and refused(address) >= 7
    sweep(study, out=tmp_path / "calm", local=True, seeds=2)
    calm = contents(Store(tmp_path / "calm"), "events", "samples")
    assert contents(Store(f"s3://{bucket}/busy"), "events", "samples") == calm


def test_a_store_that_takes_its_time_is_waited_for(bucket: str, through: Callable[..., str]) -> None:
    store = Store(f"s3://{bucket}/slow")
    store.write("a", b"here")
    through(200, "", "slowly")
    begin = time.monotonic()
    assert Store(f"s3://{bucket}/slow").read("a") == b"here"
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", "no permission"),
        (400, "ExpiredToken", "the credentials have expired; get new ones"),
        (403, "InvalidAccessKeyId", "the store does not know these credentials"),
        (403, "SignatureDoesNotMatch", "the store does not know these credentials"),
        (301, "PermanentRedirect", "the bucket is not in this region; say which with AWS_REGION"),
        (400, "AuthorizationHeaderMalformed", "the bucket is not in this region; say which with AWS_REGION"),
        (403, "RequestTimeTooSkewed", "the clocks of this machine and of the store differ by too much"),
    ],
)
@pytest.mark.parametrize("writes", [True, False])
def test_what_a_store_refuses_for_good_is_one_line(
    bucket: str, through: Any, study: Path, antecast: Any, status: int, code: str, words: str, writes: bool
) -> None:
    through(status, code, "writes" if writes else "always")
    ended, out, err = antecast("sweep", study, "--out", f"s3://{bucket}/x", "--no-spark", "--quiet")
    assert (ended, out) == (2, "")
    assert err.startswith(f"error: s3://{bucket}/x") and words in err and err.count("\n") == 1


def test_a_missing_bucket_and_a_wrong_address_are_one_line(
    bucket: str, study: Path, antecast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, words in (
        ("s3://no-such-bucket/x", "there is no such bucket"),
        (f"s3://{bucket}/x?endpoint_override=127.0.0.1:9&scheme=http", "nobody answers at the store's address"),
        (f"s3://{bucket}/x?endpoint=1", "unknown option 'endpoint' in the address"),
        ("ftp://host/x", "no store of this kind is known"),
        (f"s3://{bucket}/a//b", "an address cannot have '/'"),
        (f"s3://{bucket}/a/../b", "an address cannot have '..'"),
        (f"s3://{bucket}/a\nb", "an address cannot have '\\n'"),
        ("s3://", "names no bucket; s3://BUCKET/FOLDER does"),
        (
            f"gs://anonymous@{bucket}/x?endpoint_override=127.0.0.1:9&scheme=http&retry_limit_seconds=1",
            "nobody answers at the store's address",
        ),
    ):
        ended, out, err = antecast("sweep", study, "--out", place, "--no-spark", "--quiet")
        assert (ended, out) == (2, "")
        assert words in err and err.count("\n") == 1


def test_missing_credentials_of_google_are_told_soon(
    study: Path, antecast: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its client looks for them in the network at last, and asked there for a minute."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("GCE_METADATA_ROOT", "127.0.0.1:9")
    began = time.monotonic()
    ended, out, err = antecast("sweep", study, "--out", "gs://bucket/x", "--no-spark", "--quiet")
    assert (ended, out, err.count("\n")) == (2, "", 1)
    assert "gs://bucket/x" in err and "there are no credentials for this store" in err
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", ["a#b", "a#c", "pre fix", "100%20", "ü/日本", "*[1]{a,b}", "a&b=c", "q'\"z;~:"])
def test_odd_names_are_folders_of_their_own(bucket: str, study: Path, tmp_path: Path, name: str) -> None:
    for place in (f"s3://{bucket}/{name}", f"file://{tmp_path}/{name}", str(tmp_path / "path" / name)):
        folder = SweepFolder(place)
        assert not folder.finished()
        assert sweep(study, out=place, local=True, seeds=1).complete and len(folder.finished()) == 2
        assert set(Store(place).list("")) >= {"runs.parquet", "study.json"}
    assert (tmp_path / name / "runs.parquet").is_file()
    assert f"{name}/runs.parquet" in Store(f"s3://{bucket}").files()


def test_a_folder_of_another_study_or_layout_is_refused_and_untouched(
    bucket: str, study: Path, antecast: Any
) -> None:
    place = f"s3://{bucket}/taken"
    assert sweep(study, out=place, local=True).complete
    before = contents(Store(place), "", "parts", "events", "samples")
    ended, _, err = antecast("sweep", study, "--out", place, "--no-spark", "--set", "nodes=7")
    assert ended == 2 and "holds another study (its scenario is another)" in err and err.count("\n") == 1
    about = json.loads(Store(place).read("study.json"))
    Store(place).write("study.json", json.dumps(about | {"layout": 7}).encode())
    ended, _, err = antecast("sweep", study, "--out", place, "--no-spark")
    assert ended == 2 and "holds a sweep of layout 7" in err and err.count("\n") == 1
    Store(place).write("study.json", before["study.json"])
    assert contents(Store(place), "", "parts", "events", "samples") == before


def test_reports_lie_beside_the_sweep(bucket: str, study: Path, antecast: Any) -> None:
    place = f"s3://{bucket}/told"
    code, out, err = antecast("sweep", study, "--out", place, "--no-spark", "--seeds", "1")
    assert (code, out.splitlines()[-1]) == (0, f"report: {place}/report.html"), err
    assert b"a sweep" in Store(place).read("report.html")
    run = plan(load_study(study, seeds=1))[0].run
    code, out, err = antecast("report", place, "--run", run[:8])
    assert (code, out) == (0, f"report: {place}/runs/{run}/report.html\n"), err


@pytest.mark.spark
def test_spark_sweeps_into_a_store_and_reads_from_it(
    server: str, bucket: str, spark: Any, study: Path, tmp_path: Path
) -> None:
    # The workers were started before the server was, so they hear of it by the address.
    place = f"s3://{bucket}/spark?endpoint_override={server.removeprefix('http://')}&scheme=http"
    result = sweep(study, out=place, spark=spark, seeds=2)
    assert result.complete
    tables = read_sweep(spark, place)
    counted = {row["run"]: row["count"] for row in tables.events.groupBy("run").count().collect()}
    assert counted == dict(zip(result.runs["run"].to_pylist(), result.runs["events"].to_pylist(), strict=True))
    assert tables.events.columns[-2:] == ["protocol_name", "seed"]
    assert tables.events.filter("protocol_name = 'fifo'").count() == sum(
        row["events"] for row in result.runs.to_pylist() if row["protocol_name"] == "fifo"
    )


def test_commands_take_what_lies_in_a_store(bucket: str, study: Path, antecast: Any, tmp_path: Path) -> None:
    assert sweep(study, out=f"s3://{bucket}/swept", local=True).complete
    ended, here, _ = antecast("audit", f"s3a://{bucket}/swept")
    assert ended == 0 and here.startswith("causal: ")
    ended, one, _ = antecast(
        "audit", *(f"s3://{bucket}/swept/events/{name}" for name in Store(f"s3://{bucket}/swept").list("events"))
    )
    assert ended == 0 and one.splitlines()[0] == here.splitlines()[0]
    (tmp_path / "meeting.one").write_text("0 CONN 0 1 up\n9 CONN 0 1 down\n")
    Store(f"s3://{bucket}/traces").upload("meeting.one", tmp_path / "meeting.one")
    for place in (f"s3://{bucket}/traces/meeting.one", f"file://{tmp_path}/meeting.one"):
        ended, out, err = antecast("convert", place, "meeting.parquet", "--force")
        assert (ended, err) == (0, "") and "1 contact" in out
    ended, _, err = antecast("audit", f"s3://{bucket}/nothing")
    assert (ended, err) == (2, f"error: s3://{bucket}/nothing: no such file or folder\n")
    ended, _, err = antecast("contacts", "s3://no-such-bucket/walk.parquet", "--range", "10")
    assert (ended, err) == (2, "error: s3://no-such-bucket/walk.parquet: no such file or folder\n")


def test_other_errors_keep_their_kind(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(FileNotFoundError):
        store.read("nothing")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AntecastError, match="file/x: cannot be used: Cannot create directory"):
        store.write("file/x", b"1")


def test_troubles_of_a_store_that_arrow_has_no_kind_for_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of Azure, and of Google without credentials."""

    class Refusing:
        def get_file_info(self, _: object) -> None:
            raise pa.ArrowException("Unknown error: AuthenticationException: Failed to get token\nSee elsewhere")

    monkeypatch.setattr("antecast.history.store._system", lambda *_: Refusing())
    with pytest.raises(AntecastError) as error:
        Store("abfs://c@account.dfs.core.windows.net/x").list("")
    words = "there are no credentials for this store; docs/sweeps.md says where they are looked for"
    assert str(error.value) == f"abfs://c@account.dfs.core.windows.net/x: {words}"
