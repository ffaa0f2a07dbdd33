"""Zipkin's JSON, version 2: a list of spans, a list of traces, or a span per line.

A client and a server may share one id. The server's half (`"shared": true`) then becomes a child of the client's,
and what that service calls is the server's.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from antecast.importers.json_values import Positions, object_of, text_of, values
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of, whole

NAME = "zipkin"
MODEL = "spans"

_ID = re.compile(r'"id"\s*:\s*"')


def recognises(head: Head) -> bool:
    text = head.text
    named = '"localEndpoint"' in text or '"timestamp"' in text
    return text.lstrip()[:1] in ("{", "[") and '"traceId"' in text and bool(_ID.search(text)) and named


def read(source: Source) -> SpanLog:
    found = list(_all(source))
    servers = {_names(span, place) for place, span in found if span.get("shared") is True}
    spans = Spans()
    for place, span in found:
        _add(spans, place, span, servers)
    return spans.finish(source.files[0])


def _all(source: Source) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    for value in values(source):
        places = Positions(value, None)
        for each in value.value if isinstance(value.value, list) else [value.value]:
            place = places.next() if isinstance(value.value, list) else value.place
            for span in each if isinstance(each, list) else [each]:
                yield place, _span(span, place)


def _span(span: Any, place: Place) -> Mapping[str, Any]:
    if not isinstance(span, dict):
        raise place.error("a span is not a JSON object")
    return span


def _names(span: Mapping[str, Any], place: Place) -> tuple[str, str, str]:
    """Trace, id and service."""
    service = object_of(span.get("localEndpoint"), place, "localEndpoint").get("serviceName")
    trace, name = (text_of(span.get(each), place, each) for each in ("traceId", "id"))
    return trace, name, text_of(service, place, "serviceName")


def _add(spans: Spans, place: Place, span: Mapping[str, Any], servers: Container[tuple[str, str, str]]) -> None:
    trace, name, service = _names(span, place)
    above = text_of(span.get("parentId"), place, "parentId")
    shared = span.get("shared") is True
    if shared:
        name, above = f"{name}/server" if name else name, name
    elif (trace, above, service) in servers:
        above = f"{above}/server"
    start = 1000 * whole(span.get("timestamp"), place, "timestamp")
    spans.add(
        place,
        trace=trace,
        span=name,
        parent=above,
        service=service,
        name=str(span.get("name") or ""),
        kind=kind_of(span.get("kind")),
        start=start,
        end=start + 1000 * whole(span.get("duration", 0), place, "duration"),
    )
