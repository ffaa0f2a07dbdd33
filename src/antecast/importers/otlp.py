"""OpenTelemetry traces in JSON (OTLP): `{"resourceSpans": [...]}` as documents or lines.

Some exporters leave the wrapper out and write lines with `{"resource": ..., "scopeSpans": [...]}`, or a span per
line; both are read. Ids may be hexadecimal or base64, as they come; they only have to agree.

A time of 0 beside times of our days is one that was never set: it is what protobuf has for a field that is not
there, and some exporters write it out. Such a span is refused, as one without the field is: nothing can be said of
its order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from antecast.importers.json_values import (
    Positions,
    Value,
    array_of,
    object_of,
    objects_of,
    text_of,
    values,
)
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of, nanoseconds, whole

NAME = "otlp"
MODEL = "spans"

_WRAPPED = re.compile(r'^\s*\[?\s*\{.*"(?:resourceSpans|resource_spans|scopeSpans|scope_spans)"\s*:', re.DOTALL)
_BARE = re.compile(r'^\s*\[?\s*\{[^{]*"(?:traceId|trace_id)"\s*:', re.DOTALL)
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time")
_ENDS = ("endTimeUnixNano", "end_time_unix_nano", "endTime", "end_time")


_OUR_DAYS = 10**17
"""Times from 1973 on, in nanoseconds: no log that counts from its own beginning has them."""

_PARENTS = ("parentSpanId", "parent_span_id", "parentId", "parent_id")
_GROUPS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")


def recognises(head: Head) -> bool:
    text = head.text
    if _WRAPPED.match(text):
        return True
    return bool(_BARE.match(text)) and '"spanId"' in text.replace("span_id", "spanId") and _has_start(text)


def _has_start(text: str) -> bool:
    return any(f'"{name}"' in text for name in _STARTS) and '"context"' not in text


def read(source: Source) -> SpanLog:
    spans = Spans()
    for value in values(source):
        for each in value.value if isinstance(value.value, list) else [value.value]:
            _read_value(value, each, spans)
    log = spans.finish(source.files[0])
    if max(int(log.start.max()), int(log.end.max())) >= _OUR_DAYS:  # else times count from where the log begins
        for span in np.flatnonzero((log.start == 0) | (log.end == 0)).tolist():
            check_set(int(log.start[span]), log.place(span), _STARTS[0])
            check_set(int(log.end[span]), log.place(span), _ENDS[0])
    return log


def _read_value(value: Value, found: Any, spans: Spans) -> None:
    if not isinstance(found, dict):
        raise value.place.error("not a JSON object")
    resources = _get(found, "resourceSpans", "resource_spans")
    if resources is None and _get(found, *_GROUPS) is not None:
        resources = [found]
    if resources is None:
        if _get(found, "spanId", "span_id") is None:
            keys = ", ".join(list(found)[:8])
            raise value.place.error(f"neither resourceSpans nor scopeSpans nor a span with spanId; it has {keys}")
        add_span(spans, value.place, found, _own_service(found))
        return
    places = Positions(value, "spans")
    for resource in objects_of(resources, value.place, "resourceSpans"):
        service = service_of(object_of(resource.get("resource"), value.place, "resource").get("attributes"))
        for group in (each for name in _GROUPS for each in objects_of(resource.get(name), value.place, name)):
            for span in array_of(group.get("spans"), value.place, "spans"):
                place = places.next()
                add_span(spans, place, object_of(span, place, "a span"), service)


def add_span(spans: Spans, place: Place, span: Mapping[str, Any], service: str) -> None:
    """A span with the names of OTLP in JSON, in camel or snake case."""
    spans.add(
        place,
        trace=_id(span, place, "traceId", "trace_id"),
        span=_id(span, place, "spanId", "span_id"),
        parent=text_of(_get(span, *_PARENTS), place, _PARENTS[0]),
        service=service,
        name=str(span.get("name") or ""),
        kind=kind_of(span.get("kind")),
        start=_time(span, _STARTS, place),
        end=_time(span, _ENDS, place),
        links=[
            (_id(link, place, "traceId", "trace_id"), _id(link, place, "spanId", "span_id"))
            for link in objects_of(span.get("links"), place, "links")
        ],
    )


def _id(found: Mapping[str, Any], place: Place, *names: str) -> str:
    return text_of(_get(found, *names), place, names[0])


def _time(span: Mapping[str, Any], names: tuple[str, ...], place: Place) -> int:
    value = _get(span, *names)
    if isinstance(value, str) and "-" in value[1:]:
        return nanoseconds(value, place, names[0])
    if value is None:
        raise place.error(f"the span has no {names[0]}")
    return whole(value, place, names[0])


def check_set(time: int, place: Place, what: str) -> int:
    """A time, unless it was never set."""
    if time == 0:
        raise place.error(f"{what} is 0, which means that it was never set")
    return time


def service_of(attributes: Any) -> str:
    """The name of a service from the attributes of a resource: with its instance, which has a clock of its own."""
    found: dict[str, str] = {}
    if isinstance(attributes, dict):
        found = {str(name): str(value) for name, value in attributes.items()}
    for each in attributes if isinstance(attributes, list) else ():
        if isinstance(each, dict) and isinstance(each.get("value"), dict):
            found[str(each.get("key"))] = str(next(iter(each["value"].values()), ""))
    name = found.get("service.name", "")
    instance = found.get("k8s.pod.name") or found.get("service.instance.id") or found.get("host.name") or ""
    return instance if instance.startswith(name) and name else "/".join(each for each in (name, instance) if each)


def _own_service(span: Mapping[str, Any]) -> str:
    """The service of a span that stands alone."""
    direct = _get(span, "serviceName", "service_name", "service")
    if isinstance(direct, str):
        return direct
    resource = span.get("resource")
    if isinstance(resource, dict):
        return service_of(resource.get("attributes", resource))
    return service_of(span.get("attributes"))


def _get(found: Mapping[str, Any], *names: str) -> Any:
    return next((found[name] for name in names if found.get(name) is not None), None)
