"""`antecast.nats`: a JetStream stream, read by its sequence numbers, and ordered output into a subject.

    spark.readStream.format("antecast.nats").option("stream", "ORDERS").load()

The offset is the sequence number of the next message, so a range can be read again and each message is taken
exactly once. When the stream was made is part of it: one of the same name that was made anew counts from 1 again.
Subjects without a stream keep nothing and cannot be read this way. Consumers acknowledge nothing: what the stream
keeps, and for how long, is its own affair.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, InputPartition
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructType, TimestampType

from antecast.core.errors import AntecastError, InputError
from antecast.spark.sources.files import check_columns
from antecast.spark.sources.options import Parse, flag, positive, read_options, required, seconds, words
from antecast.spark.sources.ordered_writer import BATCH, ROW, Line, Mark, OrderedWriter
from antecast.spark.sources.streams import (
    Range,
    StreamReader,
    anew,
    client_missing,
    in_batches,
    lost,
    struct,
    told,
)

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import StreamInfo

NAME = "antecast.nats"
COLUMNS = struct(
    subject=StringType(),
    value=BinaryType(),
    headers=MapType(StringType(), StringType()),
    stream=StringType(),
    seq=LongType(),
    timestamp=TimestampType(),
)
HELD_ROWS = 20_000
HELD_BYTES = 64 << 20
"""What a task takes at a time: so many messages, or a little more than so many bytes of them."""

ASKED_ROWS, ASKED_BYTES = 1000, 8 << 20
"""What a server is asked for at a time. A client that has far more on its way is a slow one, and is cut off."""

T = TypeVar("T")


def starting(text: str) -> str | int:
    """Where a new query begins."""
    if text in ("earliest", "latest"):
        return text
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"expected earliest, latest or a sequence number, which begin at 1, got {text!r}")
    return int(text)


def subject(text: str) -> str:
    """Where output goes: one subject, not a pattern of several."""
    if not re.fullmatch(r"[^\s*>.]+(\.[^\s*>.]+)*", text):
        raise ValueError(f"expected one subject, without wildcards and spaces, got {text!r}")
    return text


_SERVER: Mapping[str, Parse] = {
    "servers": words,
    "user": str,
    "password": str,
    "token": str,
    "credentials": str,
    "timeout": seconds,
}
READING: Mapping[str, Parse] = {
    **_SERVER,
    "stream": str,
    "subject": str,
    "startingOffsets": starting,
    "maxRowsPerTrigger": positive,
    "partitions": positive,
    "failOnDataLoss": flag,
}
WRITING: Mapping[str, Parse] = {
    **_SERVER,
    "subject": subject,
    "orderBy": words,
    "query": str,
    "checkpointLocation": str,
}


class Server:
    """How to reach the servers."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)
        self.servers = list(values.get("servers") or ("nats://127.0.0.1:4222",))
        self.timeout: float = values.get("timeout", 10.0)

    @property
    def where(self) -> str:
        return ", ".join(self.servers)

    def run(self, work: Callable[[Client], Awaitable[T]], what: str) -> T:
        """Connect, work, disconnect; `what` says in errors what it was about."""

        async def whole() -> T:
            async with self.connected() as client:
                return await work(client)

        with told(NAME, f"{self.where}: {what}", Exception), self._in_words():
            return asyncio.run(whole())

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Errors of the client that say nothing, or that only a machine can read."""
        try:
            yield
        except AntecastError:
            raise
        except TimeoutError:
            raise ConnectionError(f"no answer in {self.timeout:g} s") from None
        except Exception as error:
            raise ConnectionError(_said(error)) from None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        try:
            import nats
        except ImportError:
            raise client_missing(NAME, "nats-py", "nats") from None

        said: list[Exception] = []

        async def quiet(error: Exception) -> None:
            """Errors are raised where something is asked for; the client would also print them."""
            said.append(error)

        names = {"user": "user", "password": "password", "token": "token", "credentials": "user_credentials"}
        given = {names[name]: self.values[name] for name in names if name in self.values}
        try:
            client = await nats.connect(
                self.servers,
                connect_timeout=self.timeout,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0.2,
                error_cb=quiet,
                **given,
            )
        except ModuleNotFoundError as error:  # for credentials
            raise client_missing(NAME, str(error.name), "nats") from None
        except nats.errors.NoServersError:
            raise ConnectionError(f"cannot connect: {said[-1] if said else 'no answer'}") from None
        try:
            yield client
        finally:
            await client.close()


def _said(error: Exception) -> str:
    """The words of an error; those of JetStream may be missing."""
    from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

    if not isinstance(error, APIError):
        return str(error) or type(error).__name__
    if error.description:
        return str(error.description)
    if isinstance(error, NotFoundError):
        return "no stream of the server keeps this subject; make one"
    if isinstance(error, ServiceUnavailableError):
        return "the server keeps no streams: JetStream is not turned on there"
    return str(error)


class NatsSource(DataSource):
    """JetStream as a stream of rows, and as a place for ordered output."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return COLUMNS

    def streamReader(self, schema: StructType) -> NatsReader:  # noqa: N802
        check_columns(NAME, schema, COLUMNS)
        return NatsReader(schema, read_options(NAME, self.options, READING))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return NatsWriter(schema, read_options(NAME, self.options, WRITING))


class NatsReader(StreamReader):
    def __init__(self, schema: StructType, values: Mapping[str, Any]) -> None:
        super().__init__(schema, values.get("maxRowsPerTrigger"))
        self.server = Server(values)
        self.stream: str = required(NAME, values, "stream", "ORDERS")
        self.subject: str | None = values.get("subject")
        self.begin: str | int = values.get("startingOffsets", "latest")
        self.tasks: int = values.get("partitions", 1)
        self.strict: bool = values.get("failOnDataLoss", True)

    @property
    def where(self) -> str:
        return f"{self.server.where}: stream {self.stream}"

    def _bounds(self) -> tuple[int, int, str | None]:
        """The first sequence number that is kept, the one that comes next, and when the stream was made."""

        async def ask(client: Client) -> tuple[int, int, str | None]:
            info = await client.jetstream(timeout=self.server.timeout).stream_info(self.stream)
            return info.state.first_seq, info.state.last_seq + 1, _made(info)

        return self.server.run(ask, f"stream {self.stream}")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        first, after, made = self._bounds()
        if isinstance(self.begin, int) and self.begin > after:
            problem = f"startingOffsets is {self.begin}, and the next message will be {after}"
            raise InputError(problem, path=f"{NAME}: {self.where}")
        return {"seq": {"earliest": max(first, 1), "latest": after}.get(str(self.begin), self.begin), "made": made}

    def newest(self) -> dict[str, Any]:
        _, after, made = self._bounds()
        return {"seq": after, "made": made}

    def check(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        if self.strict and _is_another(start, end):
            raise anew(NAME, self.where, start["seq"], end["seq"], end.get("made"))

    def limited(self, start: dict[str, Any], end: dict[str, Any], rows: int) -> dict[str, Any]:
        return {"seq": min(end["seq"], _begin(start, end) + rows), "made": end.get("made")}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        low, high = _begin(start, end), end["seq"]
        cuts = sorted({low + (high - low) * each // self.tasks for each in range(self.tasks + 1)})
        return [Range(*each, end.get("made")) for each in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return in_batches(self, self._rows(partition))

    def _rows(self, part: Range) -> Iterator[dict[str, Any]]:
        start, more = part.start, True
        while more:
            work = partial(self._take, part=Range(start, part.end, part.log))
            rows, more = self.server.run(work, f"stream {self.stream}")
            yield from rows
            start = rows[-1]["seq"] + 1 if rows else part.end

    async def _take(self, client: Client, part: Range) -> tuple[list[dict[str, Any]], bool]:
        """The first messages of a range, and whether there are more. Numbers may be missing: of other subjects, or
        deleted ones."""
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        jetstream = client.jetstream(timeout=self.server.timeout)
        info = await jetstream.stream_info(self.stream)
        state = info.state
        if self.strict and part.log not in (None, _made(info)):
            raise anew(NAME, self.where, part.end, state.last_seq + 1, _made(info))
        if part.start < state.first_seq and self.strict:
            raise lost(NAME, self.where, part.start, state.first_seq)
        if state.last_seq + 1 < part.end and self.strict:
            raise anew(NAME, self.where, part.end, state.last_seq + 1)
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=part.start,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=60.0,
            filter_subject=self.subject,
        )
        made = await jetstream.add_consumer(self.stream, config)
        place = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{made.name}"
        rows: list[dict[str, Any]] = []
        pending, size = made.num_pending or 0, 0
        while pending and len(rows) < HELD_ROWS and size < HELD_BYTES:
            some = await _ask(client, place, min(pending, part.end - part.start), self.server.timeout)
            pending = 0  # or as many as the last one says
            for message in some:
                found = message.metadata
                pending = found.num_pending or 0
                if found.sequence.stream >= part.end:
                    pending = 0
                    break
                size += len(message.data)
                rows.append(
                    {
                        "subject": message.subject,
                        "value": message.data,
                        "headers": list((message.headers or {}).items()),
                        "stream": self.stream,
                        "seq": found.sequence.stream,
                        "timestamp": found.timestamp,
                    }
                )
            if rows and rows[-1]["seq"] >= part.end - 1:
                pending = 0
        await jetstream.delete_consumer(self.stream, made.name)
        return rows, pending > 0


async def _ask(client: Client, place: str, most: int, timeout: float) -> list[Msg]:
    """The next messages of a consumer: as many as there are and may be on their way. The client's own way to ask
    for them knows no bound in bytes."""
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    most = min(most, ASKED_ROWS)
    wanted = {"batch": most, "max_bytes": max(ASKED_BYTES, client.max_payload + (1 << 16)), "no_wait": True}
    await client.publish(place, json.dumps(wanted).encode(), inbox)
    messages: list[Msg] = []
    while len(messages) < most:
        message = await answers.next_msg(timeout)
        if not message.reply:  # a word of the server: there are no more, or they would be too many bytes
            headers = message.headers or {}
            if headers.get("Status") not in ("404", "408") and not messages:
                raise ConnectionError(headers.get("Description", "no messages, and no reason why"))
            break
        messages.append(message)
    await answers.unsubscribe()
    return messages


def _begin(start: dict[str, Any], end: dict[str, Any]) -> int:
    """Where to go on: a stream that was made anew begins at its beginning."""
    return 1 if _is_another(start, end) else int(start["seq"])


def _is_another(start: dict[str, Any], end: dict[str, Any]) -> bool:
    """Whether the stream is not the one that `start` speaks of."""
    known = start.get("made") and end.get("made")
    return end["seq"] < start["seq"] or bool(known and start["made"] != end["made"])


def _made(info: StreamInfo) -> str | None:
    return None if info.created is None else info.created.isoformat()


class NatsWriter(OrderedWriter):
    """Ordered output into one subject, which a stream keeps and nobody else writes to.

    A message is published only if the one before it is the last of the subject, so two drivers at once cannot mix
    their output.
    """

    source = NAME

    def __init__(self, schema: StructType, values: Mapping[str, Any]) -> None:
        subject: str = required(NAME, values, "subject", "orders.ordered")
        super().__init__(schema, values, place=subject)
        self.subject = subject
        self.server = Server(values)

    def headers(self, given: Mapping[str, str | None]) -> dict[str, str]:
        """Those that begin with Nats- told a server what to do with a message; done again it could take it
        for a message that is there, or remove what is there."""
        found = {
            name: text for name, text in super().headers(given).items() if not name.lower().startswith("nats-")
        }
        for name, text in found.items():
            if not re.fullmatch(r"[!-9;-~]+", name) or "\r" in text or "\n" in text:
                problem = f"the header {name!r} with the value {text!r} has characters that headers cannot have"
                raise InputError(problem, path=self.source)
        return found

    def publish(self, batch: int, lines: list[Line]) -> None:
        async def work(client: Client) -> None:
            from nats.js.errors import NotFoundError

            jetstream = client.jetstream(timeout=self.server.timeout)
            stream = await jetstream.find_stream_name_by_subject(self.subject)
            last, mark = 0, None
            try:
                found = await jetstream.get_last_msg(stream, self.subject)
                last, mark = found.seq or 0, Mark.read(found.headers or {})
            except NotFoundError:
                pass
            for row in range(self.resume(mark, batch, lines), len(lines)):
                headers = {
                    **lines[row].headers,
                    BATCH: f"{self.query} {batch}",
                    ROW: f"{row} {lines[row].digest}",
                    "Nats-Expected-Last-Subject-Sequence": str(last),
                }
                last = (await jetstream.publish(self.subject, lines[row].value, headers=headers)).seq

        self.server.run(work, f"subject {self.subject}")
