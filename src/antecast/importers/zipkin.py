"""Zipkin's JSON, version 2: a list of spans, a list of traces, or a span per line.

A client and a server may share one id. The server's half (`"shared": true`) then becomes a child of the client's.
"""

from __future__ import annotations

import re
from typing import Any

from antecast.importers.json_values import Positions, values
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
    spans = Spans()
    for value in values(source):
        places = Positions(value, None)
        found = value.value if isinstance(value.value, list) else [value.value]
        for each in found:
            place = places.next() if isinstance(value.value, list) else value.place
            for span in each if isinstance(each, list) else [each]:
                _add(spans, place, span)
    return spans.finish(source.files[0])


def _add(spans: Spans, place: Place, span: Any) -> None:
    if not isinstance(span, dict):
        raise place.error("a span is not a JSON object")
    name, shared = str(span.get("id") or ""), span.get("shared") is True
    start = 1000 * whole(span.get("timestamp"), place, "timestamp")
    endpoint = span.get("localEndpoint")
    spans.add(
        place,
        trace=str(span.get("traceId") or ""),
        span=f"{name}/server" if shared and name else name,
        parent=name if shared else str(span.get("parentId") or ""),
        service=str(endpoint.get("serviceName") or "") if isinstance(endpoint, dict) else "",
        name=str(span.get("name") or ""),
        kind=kind_of(span.get("kind")),
        start=start,
        end=start + 1000 * whole(span.get("duration", 0), place, "duration"),
    )
