"""Spans as the console exporters of OpenTelemetry print them: those of Python, Go (`stdouttrace`) and JavaScript.

{"name": "GET /", "context": {"trace_id": "0x...", "span_id": "0x..."}, "parent_id": null, ...}
{"Name": "GET /", "SpanContext": {"TraceID": "...", "SpanID": "..."}, "Parent": {...}, ...}
{ traceId: '...', parentId: undefined, name: 'GET /', id: '...', timestamp: 1714557600000000, duration: 52.3, ... }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from antecast.importers.js_objects import objects
from antecast.importers.json_values import array_of, id_of, values
from antecast.importers.otlp import service_of
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of, nanoseconds

NAME = "otel-console"
MODEL = "spans"

_PYTHON = re.compile(r'"context"\s*:\s*\{[^}]*"span_id"', re.DOTALL)
_GO = re.compile(r'"SpanContext"\s*:\s*\{[^}]*"SpanID"', re.DOTALL)
_NODE = re.compile(r"^\s*traceId: '[0-9a-f]+',\s*$", re.MULTILINE)


def recognises(head: Head) -> bool:
    printed = any(form.search(head.text) for form in (_PYTHON, _GO, _NODE))
    return head.text.lstrip()[:1] in ("{", "[") and printed


def read(source: Source) -> SpanLog:
    spans = Spans()
    node = [file for file in source.files if _NODE.search(source.head(file).text)]
    for file in node:
        for place, found in objects(source, file):
            _add_node(spans, place, found)
    others = replace(source, files=tuple(file for file in source.files if file not in node))
    for value in values(others):
        for each in value.value if isinstance(value.value, list) else [value.value]:
            span = _object(each, value.place, "a span")
            (_add_go if "SpanContext" in span else _add_python)(spans, value.place, span)
    return spans.finish(source.files[0])


def _add_python(spans: Spans, place: Place, span: Mapping[str, Any]) -> None:
    context = _object(span.get("context"), place, "context")
    resource = span.get("resource") or {}
    links = [
        _object(_object(link, place, "links").get("context"), place, "context")
        for link in array_of(span.get("links"), place, "links")
    ]
    spans.add(
        place,
        trace=_id(context.get("trace_id"), place, "trace_id"),
        span=_id(context.get("span_id"), place, "span_id"),
        parent=_id(span.get("parent_id"), place, "parent_id"),
        service=service_of(resource.get("attributes", resource)) if isinstance(resource, dict) else "",
        name=str(span.get("name") or ""),
        kind=kind_of(span.get("kind")),
        start=_time(span.get("start_time"), place, "start_time"),
        end=_time(span.get("end_time"), place, "end_time"),
        links=[_ids(each, place, "trace_id", "span_id") for each in links],
    )


def _add_go(spans: Spans, place: Place, span: Mapping[str, Any]) -> None:
    context, parent = (_object(span.get(name), place, name) for name in ("SpanContext", "Parent"))
    attributes = {
        str(each.get("Key")): _object(each.get("Value") or {}, place, "Value").get("Value")
        for each in array_of(span.get("Resource"), place, "Resource")
        if isinstance(each, dict)
    }
    links = [
        _object(_object(link, place, "Links").get("SpanContext"), place, "SpanContext")
        for link in array_of(span.get("Links"), place, "Links")
    ]
    spans.add(
        place,
        trace=_id(context.get("TraceID"), place, "TraceID"),
        span=_id(context.get("SpanID"), place, "SpanID"),
        parent=_id(parent.get("SpanID"), place, "SpanID"),
        service=service_of(attributes),
        name=str(span.get("Name") or ""),
        kind=kind_of(span.get("SpanKind")),
        start=_time(span.get("StartTime"), place, "StartTime"),
        end=_time(span.get("EndTime"), place, "EndTime"),
        links=[_ids(each, place, "TraceID", "SpanID") for each in links],
    )


def _add_node(spans: Spans, place: Place, span: Mapping[str, Any]) -> None:
    """A span of JavaScript: times in microseconds, with digits behind the point; kinds counted from internal."""
    resource, parent = span.get("resource"), span.get("parentSpanContext")
    links = [
        _object(_object(link, place, "links").get("context"), place, "context")
        for link in array_of(span.get("links"), place, "links")
    ]
    kind = span.get("kind")
    start = _microseconds(span.get("timestamp"), place, "timestamp")
    spans.add(
        place,
        trace=_id(span.get("traceId"), place, "traceId"),
        span=_id(span.get("id"), place, "id"),
        parent=_id(parent.get("spanId") if isinstance(parent, dict) else span.get("parentId"), place, "parentId"),
        service=service_of(resource.get("attributes")) if isinstance(resource, dict) else "",
        name=str(span.get("name") or ""),
        kind=kind_of(kind + 1 if isinstance(kind, int) else kind),
        start=start,
        end=start + _microseconds(span.get("duration"), place, "duration"),
        links=[_ids(each, place, "traceId", "spanId") for each in links],
    )


def _microseconds(value: Any, place: Place, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise place.error(f"{what} is {value!r}, where a number of microseconds is expected")
    return 1000 * int(value) + round(1000 * (value - int(value)))


def _object(value: Any, place: Place, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise place.error(f"{what} is missing or no object")
    return value


def _ids(context: Mapping[str, Any], place: Place, trace: str, span: str) -> tuple[str, str]:
    return _id(context.get(trace), place, trace), _id(context.get(span), place, span)


def _id(value: Any, place: Place, what: str) -> str:
    return id_of(value.removeprefix("0x") if isinstance(value, str) else value, place, what)


def _time(value: Any, place: Place, what: str) -> int:
    if not isinstance(value, str):
        raise place.error(f"{what} is {value!r}, where a time such as 2024-05-01T12:00:00.1Z is expected")
    return nanoseconds(value, place, what)
