"""A folder in any file system that Arrow knows: this disk, `s3://`, `gs://`, `abfs://`, `hdfs://`.

Rules that everything above relies on:
1. An object appears whole or not at all, and what was written is seen by whoever reads or lists afterwards.
   Object stores promise this. On a disk and on HDFS, where a file grows in sight, it gets its name when it is
   whole.
2. Nothing is appended to, renamed or locked. What needs several objects writes the one that speaks for all of them
   last.
3. What a busy store refuses for the moment (503, 429 and the like) is asked for again, for about half a minute.
   Anything else is one line: what was refused, and where.

A store is named by a text and has no other state, so it can travel to workers, which have credentials of their
own: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on, as Arrow reads them.
"""

from __future__ import annotations

import io
import os
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import parse_qs

import pyarrow as pa
from pyarrow import fs

from antecast.core.errors import ConfigurationError, OutputError

SCHEMES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")

_PATIENCE = (0.2, 0.5, 1, 2, 4, 8, 16)
"""Seconds between tries where a store is busy."""

_BUSY = re.compile(
    r"SLOW_?DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTL|TOO_?MANY_?REQUESTS|"
    r"HTTP status (5\d\d|408|429)|HTTP (status|response) code:? ?(5\d\d|408|429)|RESPONSE_CODE_(5\d\d|408|429)|"
    r"reset by peer|Server returned nothing|curlCode: (18|28|52|55|56)|Try again",
    re.IGNORECASE,
)

_PLAIN: tuple[tuple[str, str], ...] = (
    (r"NO_SUCH_BUCKET|bucket does not exist", "there is no such bucket"),
    (r"EXPIRED_?TOKEN|ExpiredToken|REQUEST_EXPIRED", "the credentials have expired; get new ones"),
    (r"INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT|InvalidToken|UNRECOGNIZED_CLIENT",
     "the store does not know these credentials"),
    (r"HTTP status 301|PermanentRedirect|AuthorizationHeaderMalformed",
     "the bucket is not in this region; say which with AWS_REGION"),
    (r"TIME_TOO_SKEWED|TimeTooSkewed", "the clocks of this machine and of the store differ by too much"),
    (r"ACCESS_DENIED|AccessDenied|HTTP status 403|code: 403|Forbidden", "no permission"),
    (r"curlCode: 28|Timeout was reached", "the store does not answer in time"),
    (r"OAuth2 access token|AuthenticationException|failed to get token",
     "there are no credentials for this store; docs/sweeps.md says where they are looked for"),
    (r"curlCode: (5|6|7|35|60)|CURL error \[(5|6|7|35|60)\]|NETWORK_CONNECTION|Couldn't connect|resolve host",
     "nobody answers at the store's address"),
    (r"libhdfs|CLASSPATH|libjvm", "Arrow finds no Hadoop here (libhdfs; docs/cluster.md says what it needs)"),
)  # fmt: skip

_WRONG = re.compile(r"[\x00-\x1f\x7f]|(?<=/)/|(?<=/)\.{1,2}(?=/|$)")
"""What no address of a store has: control characters, names that are empty, . or .."""

_GS_PATIENCE = 30
"""Seconds for which Google's client asks again; by itself it goes on for minutes."""

_PIECE = 8 << 20

_T = TypeVar("_T")


@dataclass(frozen=True)
class Listed:
    """An object in a listing."""

    size: int
    mtime: float
    """Seconds, by the clock of the store."""


def _path_of(uri: str) -> str:
    """
    >>> _path_of("file:///lab/a#b 100%"), _path_of("file:/lab"), _path_of("file://localhost/lab")
    ('/lab/a#b 100%', '/lab', '/lab')
    """
    path = uri.removeprefix("file:")
    return "/" + path[2:].partition("/")[2] if path.startswith("//") else path


def _listed(info: fs.FileInfo) -> Listed:
    return Listed(info.size or 0, (info.mtime_ns or 0) / 1e9)


class Store:
    """A folder, and the objects under it by their names, such as `events/3f.parquet`."""

    def __init__(self, place: Path | str | Store) -> None:
        self.url: str
        self.local: Path | None = None
        """Where it lies on this machine's disk, if it does."""
        if isinstance(place, Store):
            self.local, self.url = place.local, place.url
            return
        text = str(place)
        if isinstance(place, str) and text.startswith("file:"):
            text = _path_of(text)
        elif isinstance(place, str) and "://" in text:
            scheme = text.partition("://")[0]
            if scheme not in SCHEMES:
                known = ", ".join(f"{each}://" for each in ("file", *SCHEMES))
                raise ConfigurationError(
                    f"{text}: no store of this kind is known; known are {known}", field="--out"
                )
            base, question, options = text.partition("?")
            if not base.partition("://")[2].partition("/")[0] and scheme not in ("hdfs", "viewfs"):
                raise ConfigurationError(f"{text}: names no bucket; {scheme}://BUCKET/FOLDER does", field="--out")
            if wrong := _WRONG.search(base.partition("://")[2].rstrip("/")):
                problem = f"{text!r}: an address cannot have {wrong[0]!r}; stores take it for another, or for none"
                raise ConfigurationError(problem, field="--out")
            self.url = base.rstrip("/") + question + options
            return
        # Workers may have another working folder.
        self.local = Path(text).resolve()
        self.url = str(self.local)

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def __truediv__(self, name: str) -> Store:
        if self.local is not None:
            return Store(self.local / name)
        base, question, options = self.url.partition("?")
        return Store(f"{base}/{name}{question}{options}")

    def where(self, name: str = "") -> str:
        """The place of an object, for people."""
        return "/".join(part for part in (self.url.partition("?")[0], name) if part)

    # Objects.

    def exists(self, name: str) -> bool:
        return self.look(name) is not None

    def look(self, name: str) -> Listed | None:
        """An object, asked for by its name; None if it is not there."""
        system, path = self._find(name)
        found = self._ask(name, lambda: system.get_file_info(path))
        return _listed(found) if found.type == fs.FileType.File else None

    def is_empty(self, *, but: Collection[str] = ()) -> bool:
        """Whether there is nothing here but what these names name, not even a file in place of the folder."""
        system, path = self._find("")
        if self._ask("", lambda: system.get_file_info(path).type) == fs.FileType.File:
            return False
        found = self._ask("", lambda: system.get_file_info(fs.FileSelector(path, allow_not_found=True)))
        return all(each.base_name in but for each in found)

    def read(self, name: str) -> bytes:
        """The bytes of an object; `FileNotFoundError` if it is not there."""
        system, path = self._find(name)

        def get() -> bytes:
            with system.open_input_stream(path) as stream:
                content: bytes = stream.read()
                return content

        return self._ask(name, get)

    def open(self, name: str) -> IO[bytes]:
        """An object to read from at any place."""
        system, path = self._find(name)
        file = self._ask(name, lambda: system.open_input_file(path))
        return file if self.local is not None else _Patient(self, name, file)  # type: ignore[return-value]

    def write(self, name: str, content: bytes) -> None:
        def put() -> None:
            with self._stream(name) as stream:
                stream.write(content)

        self._ask(name, put)

    def upload(self, name: str, file: Path) -> None:
        """Write an object with the content of a file of this machine."""

        def put() -> None:
            with self._stream(name) as stream, file.open("rb") as source:
                while piece := source.read(_PIECE):
                    stream.write(piece)

        self._ask(name, put)

    def download(self, name: str, file: Path) -> None:
        """Copy an object to a file of this machine."""
        system, path = self._find(name)

        def get() -> None:
            with system.open_input_stream(path) as stream, file.open("wb") as target:
                while piece := stream.read(_PIECE):
                    target.write(piece)

        self._ask(name, get)

    def delete(self, *names: str) -> None:
        """Delete objects; what is not there is not missed."""
        for name in names:
            system, path = self._find(name)
            with suppress(FileNotFoundError):
                self._ask(name, lambda: system.delete_file(path))  # noqa: B023

    def list(self, folder: str) -> dict[str, Listed]:
        """The objects right inside a folder by their names, in order; hidden ones are left out."""
        system, path = self._find(folder)
        selector = fs.FileSelector(path, allow_not_found=True)
        try:
            found = self._ask(folder, lambda: system.get_file_info(selector))
        except FileNotFoundError:  # taken away while it was listed
            return {}
        return {
            each.base_name: _listed(each)
            for each in sorted(found, key=lambda each: each.base_name)
            if each.type == fs.FileType.File and not each.base_name.startswith(".")
        }

    def files(self) -> tuple[str, ...]:
        """The names of all objects under the folder, in order; hidden ones are left out."""
        system, path = self._find("")
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        found = self._ask("", lambda: system.get_file_info(selector))
        names = [each.path[len(path) :].strip("/") for each in found if each.type == fs.FileType.File]
        return tuple(sorted(name for name in names if not any(part[0] == "." for part in name.split("/"))))

    def remove_if_empty(self, folder: str) -> None:
        """Take away an empty folder; object stores have none."""
        if self.local is not None:
            with suppress(OSError):
                (self.local / folder).rmdir()

    # Underneath.

    def _find(self, name: str) -> tuple[Any, str]:
        if self.local is not None:
            return _system("file", "", ""), str(self.local / name if name else self.local)
        try:
            # Not `urlsplit`: # and control characters, which it cuts off, are characters of a name here.
            base, _, query = self.url.partition("?")
            scheme, _, rest = base.partition("://")
            host, _, inside = rest.partition("/")
            system = _system(scheme, host, query)
        except (OSError, ValueError, pa.ArrowException, NotImplementedError) as error:
            raise self._told(name, error) from error
        inside = inside.strip("/")
        if scheme in ("hdfs", "viewfs"):
            return system, "/" + "/".join(part for part in (inside, name) if part)
        before, _, after = host.rpartition("@")
        bucket = before if scheme in ("abfs", "abfss") else after
        return system, "/".join(part for part in (bucket, inside, name) if part)

    @contextmanager
    def _stream(self, name: str) -> Iterator[pa.NativeFile]:
        system, path = self._find(name)
        renames = self.local is not None or self.url.startswith(("hdfs:", "viewfs:"))
        folder, _, last = path.rpartition("/")
        target = f"{folder}/.{last}.{uuid.uuid4().hex[:8]}.partial" if renames else path
        if renames:
            system.create_dir(folder, recursive=True)
        stream = system.open_output_stream(target)
        try:
            yield stream
            stream.close()
        except BaseException:
            # A stream cannot be given up: what it has made so far is taken away.
            with suppress(Exception):
                stream.close()
            with suppress(OSError):
                system.delete_file(target)
            raise
        if renames:
            system.move(target, path)

    def _ask(self, name: str, call: Callable[[], _T]) -> _T:
        """Ask until the store is not busy; errors come out as one line."""
        for pause in (*_PATIENCE, None):
            try:
                return call()
            except FileNotFoundError as error:
                if not re.search(_PLAIN[0][0], str(error)):
                    raise
                raise self._told(name, error) from error
            except (OSError, pa.ArrowException) as error:  # Azure's troubles are of a kind of their own
                if pause is None or not _BUSY.search(str(error)):
                    raise self._told(name, error) from error
                time.sleep(pause)
        raise AssertionError("not reached")

    def _told(self, name: str, error: Exception) -> OutputError:
        text = str(error)
        for pattern, words in _PLAIN:
            if re.search(pattern, text):
                return OutputError(words, path=self.where(name))
        line = getattr(error, "strerror", None) or text
        line = line.splitlines()[0] if line else type(error).__name__
        return OutputError(f"cannot be used: {line}", path=self.where(name))


class _Patient(io.RawIOBase):
    """An object that is asked for again, piece by piece, while its store is busy."""

    def __init__(self, store: Store, name: str, file: pa.NativeFile) -> None:
        self._store, self._name, self._file = store, name, file
        self._size: int = file.size()
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._size - self._at)
        wanted = rest if size is None or size < 0 else min(size, rest)
        content: bytes = self._store._ask(self._name, lambda: self._file.read_at(wanted, self._at))
        if len(content) < wanted:
            raise OutputError(f"ends after {self._at + len(content):,} bytes", path=self._store.where(self._name))
        self._at += wanted
        return content

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@cache
def _system(scheme: str, host: str, options: str) -> Any:
    """The file system for an address; one per process."""
    if scheme == "file":
        return fs.LocalFileSystem()
    given = {key: values[-1] for key, values in parse_qs(options).items()}
    if scheme in ("s3", "s3a", "s3n"):
        return _s3(given)
    if scheme in ("gs", "gcs"):
        scheme = "gs"
        if "retry_limit_seconds" not in given:
            if not host.startswith("anonymous@"):
                _look_for_credentials(host, options)
            options = f"{options}&retry_limit_seconds={_GS_PATIENCE}"
    return _by_uri(scheme, host, options)


def _by_uri(scheme: str, host: str, options: str) -> Any:
    return fs.FileSystem.from_uri(f"{scheme}://{host}/" + (f"?{options.strip('&')}" if options else ""))[0]


def _look_for_credentials(bucket: str, options: str) -> None:
    """Google's client asks for them again as it does for objects, although on a machine that is not Google's there
    is nobody to ask. So it is asked once with little patience."""
    try:
        _by_uri("gs", bucket, f"{options}&retry_limit_seconds=1").get_file_info(bucket)
    except OSError as error:
        if re.search(r"OAuth2 access token.*CURL error \[(6|7)\]", str(error), re.DOTALL):
            raise


def _s3(given: dict[str, str]) -> Any:
    known = {
        "endpoint_override",
        "scheme",
        "region",
        "anonymous",
    }  # no credentials: addresses are shown and stored
    if unknown := given.keys() - known:
        raise ValueError(f"unknown option {min(unknown)!r} in the address; known are {', '.join(sorted(known))}")
    options: dict[str, Any] = dict(given)
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in options:
        scheme, _, address = endpoint.rpartition("://")
        options |= {"endpoint_override": address.rstrip("/"), "scheme": scheme or "https"}
    if "anonymous" in options:
        options["anonymous"] = options["anonymous"].lower() == "true"
    return fs.S3FileSystem(
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=5),
        connect_timeout=5,
        request_timeout=60,  # a busy store may think for a while; 3 s is what Arrow allows
        allow_delayed_open=True,
        **options,
    )
