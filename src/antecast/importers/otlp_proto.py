"""OpenTelemetry traces in protobuf (OTLP): a message per file, or messages behind their lengths in four bytes.

A span's line is its number in the file. Needs the package `opentelemetry-proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of

NAME = "otlp-proto"
MODEL = "spans"

_RESOURCE_SPANS = 0x0A
"""The first byte of a message: field 1, of variable length."""


def recognises(head: Head) -> bool:
    return _is_message(head.data, len(head.data) if head.whole else None) or (
        len(head.data) > 8 and head.data[0] == 0 and _is_message(head.data[4:], int.from_bytes(head.data[:4]))
    )


def _is_message(data: bytes, length: int | None) -> bool:
    """Whether bytes begin with a field 1 that holds a field 1 or 2 and fits; text never does."""
    if len(data) < 4 or data[0] != _RESOURCE_SPANS:
        return False
    size, at, shift = 0, 1, 0
    while at < min(len(data), 6):
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            break
    inside = data[at] if at < len(data) else 0
    return size > 0 and inside in (0x0A, 0x12) and (length is None or at + size <= length)


def read(source: Source) -> SpanLog:
    spans = Spans()
    for file, data in source.documents(text=False):
        number = 0
        for message in _messages(data, str(file)):
            for resource in message.resource_spans:
                service = _service(resource.resource.attributes)
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        number += 1
                        _add(spans, Place(str(file), number), span, service)
    return spans.finish(source.files[0])


def _messages(data: bytes, file: str) -> Iterator[Any]:
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError:
        problem = "OTLP in protobuf needs the package opentelemetry-proto: pip install 'antecast[traces]'"
        raise ConfigurationError(problem, field="--format") from None
    if data[:1] != bytes([_RESOURCE_SPANS]):
        parts: list[bytes] = []
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4])
            if at + 4 + size > len(data):
                raise InputError(
                    f"cut short: message {len(parts) + 1} has {len(data) - at - 4} of {size} bytes", path=file
                )
            parts.append(data[at + 4 : at + 4 + size])
            at += 4 + size
    else:
        parts = [data]
    for number, part in enumerate(parts, 1):
        message = TracesData()
        try:
            message.ParseFromString(part)
        except DecodeError as error:
            raise InputError(
                f"message {number} is not an OTLP trace, or is cut short: {error}", path=file
            ) from None
        yield message


def _add(spans: Spans, place: Place, span: Any, service: str) -> None:
    from antecast.importers.otlp import check_set

    spans.add(
        place,
        trace=span.trace_id.hex(),
        span=span.span_id.hex(),
        parent=span.parent_span_id.hex() if span.parent_span_id.strip(b"\0") else "",
        service=service,
        name=span.name,
        kind=kind_of(int(span.kind)),
        start=check_set(span.start_time_unix_nano, place, "start_time_unix_nano"),
        end=check_set(span.end_time_unix_nano, place, "end_time_unix_nano"),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )


def _service(attributes: Any) -> str:
    from antecast.importers.otlp import service_of

    return service_of({each.key: each.value.string_value for each in attributes})
