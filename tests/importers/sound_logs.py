"""Small sound logs in every format: what faults are injected into."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

SECOND = 10**9
T0 = 1_700_000_000 * SECOND


@dataclass(frozen=True)
class Span:
    span: str
    parent: str
    service: str
    start: int
    end: int
    kind: str = "internal"
    trace: str = "t1"

    @property
    def name(self) -> str:
        return f"work {self.span}"


SPANS = (
    Span("a1", "", "front", T0, T0 + 900_000, "server"),
    Span("b2", "a1", "front", T0 + 100_000, T0 + 500_000, "client"),
    Span("c3", "b2", "back", T0 + 200_000, T0 + 400_000, "server"),
    Span("d4", "c3", "store", T0 + 250_000, T0 + 300_000),
    Span("e5", "a1", "front", T0 + 600_000, T0 + 800_000),
)


def clock_events(count: int = 40, hosts: int = 3, seed: int = 1) -> list[tuple[str, dict[str, int], str]]:
    """Events of a random execution: local ones, sends, and receives that merge the clock of a send."""
    draw = random.Random(seed)
    clocks: dict[str, dict[str, int]] = {f"h{each}": {} for each in range(hosts)}
    flying: list[tuple[str, dict[str, int]]] = []
    events = []
    for number in range(count):
        host = draw.choice(list(clocks))
        text = f"step {number}"
        if flying and draw.random() < 0.4:
            sender, sent = flying.pop(draw.randrange(len(flying)))
            if sender != host:
                for name, value in sent.items():
                    clocks[host][name] = max(clocks[host].get(name, 0), value)
                text = f"got news of {sender}"
        clocks[host][host] = clocks[host].get(host, 0) + 1
        if draw.random() < 0.5:
            flying.append((host, dict(clocks[host])))
        events.append((host, dict(clocks[host]), text))
    return events


def govector(events: list[tuple[str, dict[str, int], str]], layout: str = "clock first") -> str:
    lines = []
    for host, clock, text in events:
        stamp = f"{host} {json.dumps(clock)}"
        if layout == "one line":
            lines.append(f"[INFO] 12:00:00 [app/{host}] {json.dumps(clock)} {text}")
        else:
            lines += [stamp, text] if layout == "clock first" else [text, stamp]
    return "".join(f"{line}\n" for line in lines)


def _otlp_span(span: Span) -> dict[str, object]:
    kinds = {"internal": 1, "server": 2, "client": 3}
    return {
        "traceId": span.trace,
        "spanId": span.span,
        "parentSpanId": span.parent,
        "name": span.name,
        "kind": kinds[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
    }


def _resource(span: Span) -> dict[str, object]:
    attributes = [{"key": "service.name", "value": {"stringValue": span.service}}]
    return {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [_otlp_span(span)]}]}


def otlp(spans: tuple[Span, ...]) -> str:
    return "".join(f"{json.dumps({'resourceSpans': [_resource(span)]})}\n" for span in spans)


def otlp_pretty(spans: tuple[Span, ...]) -> str:
    return json.dumps({"resourceSpans": [_resource(span) for span in spans]}, indent=2) + "\n"


def otlp_unwrapped(spans: tuple[Span, ...]) -> str:
    return "".join(f"{json.dumps(_resource(span))}\n" for span in spans)


def otlp_bare(spans: tuple[Span, ...]) -> str:
    return "".join(f"{json.dumps(_otlp_span(span) | {'serviceName': span.service})}\n" for span in spans)


def otlp_proto(spans: tuple[Span, ...]) -> bytes:
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    data = TracesData()
    kinds = {"internal": 1, "server": 2, "client": 3}
    for span in spans:
        resource = data.resource_spans.add()
        attribute = resource.resource.attributes.add()
        attribute.key, attribute.value.string_value = "service.name", span.service
        made = resource.scope_spans.add().spans.add()
        made.trace_id, made.span_id = span.trace.encode(), span.span.encode()
        made.parent_span_id, made.name, made.kind = span.parent.encode(), span.name, kinds[span.kind]
        made.start_time_unix_nano, made.end_time_unix_nano = span.start, span.end
    return bytes(data.SerializeToString())


def _iso(ns: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(ns // SECOND, UTC):%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09d}Z"


def console_python(spans: tuple[Span, ...]) -> str:
    values = [
        {
            "name": span.name,
            "context": {"trace_id": f"0x{span.trace}", "span_id": f"0x{span.span}", "trace_state": "[]"},
            "kind": f"SpanKind.{span.kind.upper()}",
            "parent_id": f"0x{span.parent}" if span.parent else None,
            "start_time": _iso(span.start),
            "end_time": _iso(span.end),
            "links": [],
            "resource": {"attributes": {"service.name": span.service}, "schema_url": ""},
        }
        for span in spans
    ]
    return "".join(f"{json.dumps(value, indent=4)}\n" for value in values)


def console_go(spans: tuple[Span, ...]) -> str:
    kinds = {"internal": 1, "server": 2, "client": 3}
    values = [
        {
            "Name": span.name,
            "SpanContext": {"TraceID": span.trace, "SpanID": span.span},
            "Parent": {"TraceID": span.trace, "SpanID": span.parent or "0000000000000000"},
            "SpanKind": kinds[span.kind],
            "StartTime": _iso(span.start),
            "EndTime": _iso(span.end),
            "Links": None,
            "Resource": [{"Key": "service.name", "Value": {"Type": "STRING", "Value": span.service}}],
        }
        for span in spans
    ]
    return "".join(f"{json.dumps(value)}\n" for value in values)


def jaeger(spans: tuple[Span, ...]) -> str:
    services = list(dict.fromkeys(span.service for span in spans))
    made = [
        {
            "traceID": span.trace,
            "spanID": span.span,
            "operationName": span.name,
            "references": [{"refType": "CHILD_OF", "traceID": span.trace, "spanID": span.parent}]
            if span.parent
            else [],
            "startTime": span.start // 1000,
            "duration": (span.end - span.start) // 1000,
            "processID": f"p{services.index(span.service)}",
            "tags": [{"key": "span.kind", "value": span.kind}],
        }
        for span in spans
    ]
    processes = {f"p{number}": {"serviceName": name} for number, name in enumerate(services)}
    return json.dumps({"data": [{"traceID": "t1", "spans": made, "processes": processes}]}, indent=1) + "\n"


def zipkin(spans: tuple[Span, ...]) -> str:
    made = [
        {
            "traceId": span.trace,
            "id": span.span,
            "name": span.name,
            "kind": span.kind.upper(),
            "timestamp": span.start // 1000,
            "duration": (span.end - span.start) // 1000,
            "localEndpoint": {"serviceName": span.service},
        }
        | ({"parentId": span.parent} if span.parent else {})
        for span in spans
    ]
    return json.dumps(made, indent=1) + "\n"


def spans_csv(spans: tuple[Span, ...]) -> str:
    lines = ["TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano"]
    lines += [
        f"{each.trace},{each.span},{each.parent or 'root'},{each.service},{each.name},{each.start},{each.end}"
        for each in spans
    ]
    return "".join(f"{line}\n" for line in lines)


def _seconds(span: Span) -> int:
    return 1_700_000_000 + (span.start - T0) // 1000


def git_tabbed(spans: tuple[Span, ...]) -> str:
    """The same graph as commits, newest first."""
    hashes = {span.span: span.span * 20 for span in spans}
    return "".join(
        f"{hashes[span.span]}\t{hashes.get(span.parent, span.parent * 20)}\t{span.service}\t{_seconds(span)}\t"
        f"{span.name}\n"
        for span in reversed(spans)
    )


def git_raw(spans: tuple[Span, ...]) -> str:
    text = ""
    for span in reversed(spans):
        text += f"commit {span.span * 20}\ntree {'0' * 40}\n"
        text += f"parent {span.parent * 20}\n" if span.parent else ""
        person = f"{span.service} <{span.service}@example.org> {_seconds(span)} +0000"
        text += f"author {person}\ncommitter {person}\n\n    {span.name}\n\n"
    return text


TRACES = {
    "otlp": otlp,
    "otlp-pretty": otlp_pretty,
    "otlp-unwrapped": otlp_unwrapped,
    "otlp-bare": otlp_bare,
    "otel-console": console_python,
    "otel-console-go": console_go,
    "jaeger": jaeger,
    "zipkin": zipkin,
    "spans-csv": spans_csv,
    "git-tabbed": git_tabbed,
    "git-raw": git_raw,
}
"""Writers of traces as text; the name of the importer is the key up to a further word."""


def chat(rows: list[dict[str, object]] | None = None) -> str:
    """A table of broadcasts and deliveries as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in (CHAT if rows is None else rows))


CHAT: list[dict[str, object]] = [
    {"node": "a", "pos": 0, "kind": "broadcast", "origin": "a", "seq": 0},
    {"node": "a", "pos": 1, "kind": "deliver", "origin": "b", "seq": 0},
    {"node": "b", "pos": 0, "kind": "deliver", "origin": "a", "seq": 0},
    {"node": "b", "pos": 1, "kind": "broadcast", "origin": "b", "seq": 0},
    {"node": "c", "pos": 0, "kind": "deliver", "origin": "a", "seq": 0},
    {"node": "c", "pos": 1, "kind": "deliver", "origin": "b", "seq": 0},
]


def shifted(spans: tuple[Span, ...], name: str, by: int) -> tuple[Span, ...]:
    """One span at another time."""
    return tuple(
        replace(span, start=span.start + by, end=span.end + by) if span.span == name else span for span in spans
    )


def put(folder: Path, text: str | bytes, name: str = "log.txt") -> Path:
    file = folder / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file
