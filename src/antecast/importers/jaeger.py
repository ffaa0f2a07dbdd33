"""Traces as Jaeger gives them: `{"data": [{"traceID": ..., "spans": [...], "processes": ...}]}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from antecast.importers.json_values import Positions, values
from antecast.importers.source import Head, Place, Source
from antecast.importers.span_table import SpanLog, Spans, kind_of, whole

NAME = "jaeger"
MODEL = "spans"

_SPAN = re.compile(r'"(?:traceID|spanID)"\s*:')


def recognises(head: Head) -> bool:
    text = head.text
    return text.lstrip()[:1] in ("{", "[") and bool(_SPAN.search(text)) and '"operationName"' in text


def read(source: Source) -> SpanLog:
    spans = Spans()
    for value in values(source):
        found, places = value.value, Positions(value, "spans")
        traces = found.get("data", [found]) if isinstance(found, dict) else found
        if not isinstance(traces, list):
            raise value.place.error("data is not a list of traces")
        for trace in traces:
            if not isinstance(trace, dict) or not isinstance(trace.get("spans"), list):
                raise value.place.error("expected traces with spans and processes")
            for span in trace["spans"]:
                _add(spans, places.next(), span, trace.get("processes") or {})
    return spans.finish(source.files[0])


def _add(spans: Spans, place: Place, span: Any, processes: Any) -> None:
    if not isinstance(span, dict):
        raise place.error("a span is not a JSON object")
    trace = str(span.get("traceID") or "")
    parents = [each for each in span.get("references") or [] if isinstance(each, dict)]
    called = [
        each
        for each in parents
        if each.get("refType", "CHILD_OF") == "CHILD_OF" and each.get("traceID", trace) == trace
    ]
    links = [each for each in parents if each not in called[:1]]
    start = 1000 * whole(span.get("startTime"), place, "startTime")
    tags = {str(each.get("key")): each.get("value") for each in span.get("tags") or [] if isinstance(each, dict)}
    spans.add(
        place,
        trace=trace,
        span=str(span.get("spanID") or ""),
        parent=str(called[0].get("spanID") or "") if called else str(span.get("parentSpanID") or ""),
        service=_service(span, processes),
        name=str(span.get("operationName") or ""),
        kind=kind_of(tags.get("span.kind")),
        start=start,
        end=start + 1000 * whole(span.get("duration", 0), place, "duration"),
        links=[(str(each.get("traceID") or trace), str(each.get("spanID") or "")) for each in links],
    )


def _service(span: Mapping[str, Any], processes: Any) -> str:
    process = span.get("process") or (
        processes.get(span.get("processID")) if isinstance(processes, dict) else None
    )
    if not isinstance(process, dict):
        return ""
    tags = {
        str(each.get("key")): each.get("value") for each in process.get("tags") or [] if isinstance(each, dict)
    }
    host = tags.get("hostname") or tags.get("host.name") or ""
    return "/".join(str(each) for each in (process.get("serviceName") or "", host) if each)
