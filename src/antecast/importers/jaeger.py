"""Traces as Jaeger gives them: `{"data": [{"traceID": ..., "spans": [...], "processes": ...}]}`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from antecast.importers.json_values import Positions, object_of, objects_of, text_of, values
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
            processes = object_of(trace.get("processes"), value.place, "processes")
            for span in trace["spans"]:
                place = places.next()
                _add(spans, place, object_of(span, place, "a span"), processes)
    return spans.finish(source.files[0])


def _add(spans: Spans, place: Place, span: Mapping[str, Any], processes: Mapping[str, Any]) -> None:
    trace = text_of(span.get("traceID"), place, "traceID")
    parents = objects_of(span.get("references"), place, "references")
    for each in parents:
        if each.get("refType", "CHILD_OF") not in ("CHILD_OF", "FOLLOWS_FROM"):
            kind = json.dumps(each["refType"], ensure_ascii=False)
            raise place.error(f"refType is {kind}, where CHILD_OF or FOLLOWS_FROM is expected")
    called = [
        each
        for each in parents
        if each.get("refType", "CHILD_OF") == "CHILD_OF" and each.get("traceID", trace) == trace
    ]
    links = [each for each in parents if each not in called[:1]]
    above = called[0].get("spanID") if called else span.get("parentSpanID")
    start = 1000 * whole(span.get("startTime"), place, "startTime")
    spans.add(
        place,
        trace=trace,
        span=text_of(span.get("spanID"), place, "spanID"),
        parent=text_of(above, place, "spanID of the parent"),
        service=_service(span, processes, place),
        name=str(span.get("operationName") or ""),
        kind=kind_of(_tags(span, place).get("span.kind")),
        start=start,
        end=start + 1000 * whole(span.get("duration", 0), place, "duration"),
        links=[
            (text_of(each.get("traceID", trace), place, "traceID"), text_of(each.get("spanID"), place, "spanID"))
            for each in links
        ],
    )


def _tags(found: Mapping[str, Any], place: Place) -> dict[str, Any]:
    return {str(each.get("key")): each.get("value") for each in objects_of(found.get("tags"), place, "tags")}


def _service(span: Mapping[str, Any], processes: Mapping[str, Any], place: Place) -> str:
    name = text_of(span.get("processID"), place, "processID")
    process = object_of(span.get("process") or processes.get(name), place, "process")
    tags = _tags(process, place)
    host = tags.get("hostname") or tags.get("host.name") or ""
    return "/".join(str(each) for each in (process.get("serviceName") or "", host) if each)
