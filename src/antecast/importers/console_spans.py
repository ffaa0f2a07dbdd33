"""Spans as the console exporters of OpenTelemetry print them: those of Python and of Go (`stdouttrace`).

{"name": "GET /", "context": {"trace_id": "0x...", "span_id": "0x..."}, "parent_id": null, ...}
{"Name": "GET /", "SpanContext": {"TraceID": "...", "SpanID": "..."}, "Parent": {...}, ...}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from antecast.importers.json_values import values
from antecast.importers.otlp import service_of
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of, nanoseconds

NAME = "otel-console"
MODEL = "spans"

_PYTHON = re.compile(r'"context"\s*:\s*\{[^}]*"span_id"', re.DOTALL)
_GO = re.compile(r'"SpanContext"\s*:\s*\{[^}]*"SpanID"', re.DOTALL)


def recognises(head: Head) -> bool:
    return head.text.lstrip()[:1] in ("{", "[") and bool(_PYTHON.search(head.text) or _GO.search(head.text))


def read(source: Source) -> SpanLog:
    spans = Spans()
    for value in values(source):
        for span in value.value if isinstance(value.value, list) else [value.value]:
            if not isinstance(span, dict):
                raise value.place.error("not a JSON object")
            (_add_go if "SpanContext" in span else _add_python)(spans, value.place, span)
    return spans.finish(source.files[0])


def _add_python(spans: Spans, place: Place, span: Mapping[str, Any]) -> None:
    context = _object(span.get("context"), place, "context")
    resource = span.get("resource") or {}
    links = [
        _object(_object(link, place, "links").get("context"), place, "context") for link in span.get("links") or []
    ]
    spans.add(
        place,
        trace=_id(context.get("trace_id")),
        span=_id(context.get("span_id")),
        parent=_id(span.get("parent_id")),
        service=service_of(resource.get("attributes", resource)) if isinstance(resource, dict) else "",
        name=str(span.get("name") or ""),
        kind=kind_of(span.get("kind")),
        start=_time(span.get("start_time"), place, "start_time"),
        end=_time(span.get("end_time"), place, "end_time"),
        links=[(_id(each.get("trace_id")), _id(each.get("span_id"))) for each in links],
    )


def _add_go(spans: Spans, place: Place, span: Mapping[str, Any]) -> None:
    context, parent = (_object(span.get(name), place, name) for name in ("SpanContext", "Parent"))
    attributes = {
        str(each.get("Key")): (each.get("Value") or {}).get("Value")
        for each in span.get("Resource") or []
        if isinstance(each, dict)
    }
    links = [
        _object(_object(link, place, "Links").get("SpanContext"), place, "SpanContext")
        for link in span.get("Links") or []
    ]
    spans.add(
        place,
        trace=_id(context.get("TraceID")),
        span=_id(context.get("SpanID")),
        parent=_id(parent.get("SpanID")),
        service=service_of(attributes),
        name=str(span.get("Name") or ""),
        kind=kind_of(span.get("SpanKind")),
        start=_time(span.get("StartTime"), place, "StartTime"),
        end=_time(span.get("EndTime"), place, "EndTime"),
        links=[(_id(each.get("TraceID")), _id(each.get("SpanID"))) for each in links],
    )


def _object(value: Any, place: Place, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise place.error(f"{what} is missing or no object")
    return value


def _id(value: Any) -> str:
    text = str(value or "").removeprefix("0x")
    return text if text.strip("0") else ""


def _time(value: Any, place: Place, what: str) -> int:
    if not isinstance(value, str):
        raise place.error(f"{what} is {value!r}, where a time such as 2024-05-01T12:00:00.1Z is expected")
    return nanoseconds(value, place, what)
