"""How fast foreign logs are judged, from files to verdicts: vector clocks and spans.

    python -m bench.foreign_logs

Vector clocks of 64 and of 8 hosts; spans as OTLP lines and as CSV. Times are CPU seconds of this process, the best
of three, without the time to start Python.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from antecast.auditing.foreign import Request, find_foreign, judge
from bench.table import report


def clocks_log(file: Path, events: int, hosts: int) -> None:
    draw = random.Random(1)
    clocks = [[0] * hosts for _ in range(hosts)]
    with file.open("w", encoding="utf-8") as stream:
        for number in range(events):
            host = draw.randrange(hosts)
            if draw.random() < 0.5:
                clocks[host] = [
                    max(pair) for pair in zip(clocks[host], clocks[draw.randrange(hosts)], strict=True)
                ]
            clocks[host][host] += 1
            clock = {f"host-{each}": value for each, value in enumerate(clocks[host]) if value}
            stream.write(f"host-{host} {json.dumps(clock)}\nevent {number}\n")


def rows(spans: int) -> list[tuple[str, str, str, str, int, int]]:
    """Traces of ten spans; trace, span, parent, service, start, end."""
    draw = random.Random(2)
    found = []
    for number in range(spans):
        trace, place = divmod(number, 10)
        parent = "" if not place else f"{trace * 10 + draw.randrange(place):016x}"
        start = 1_700_000_000 * 10**9 + trace * 10**6 + place * 1000
        found.append((f"{trace:032x}", f"{number:016x}", parent, f"svc{place % 7}", start, start + 50_000))
    return found


def spans_csv(file: Path, spans: int) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.write("TraceID,SpanID,ParentID,PodName,StartTimeUnixNano,EndTimeUnixNano\n")
        stream.writelines(",".join(map(str, row)) + "\n" for row in rows(spans))


def spans_otlp(file: Path, spans: int) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for trace, span, parent, service, start, end in rows(spans):
            made = {"traceId": trace, "spanId": span, "parentSpanId": parent, "name": "call", "kind": 1}
            made |= {"startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
            attributes = [{"key": "service.name", "value": {"stringValue": service}}]
            resource = {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [made]}]}
            stream.write(json.dumps({"resourceSpans": [resource]}) + "\n")


def seconds(file: Path, repeats: int = 3) -> float:
    """CPU seconds from opening a file to its verdict."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        log = find_foreign([file], Request())
        assert log is not None
        assert judge(log).outcome == "sound"
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    made: list[tuple[str, int, Callable[[Path, int], None]]] = [
        ("clocks, 64 hosts", 10_000, lambda file, count: clocks_log(file, count, 64)),
        ("clocks, 8 hosts", 100_000, lambda file, count: clocks_log(file, count, 8)),
        ("spans, OTLP lines", 100_000, spans_otlp),
        ("spans, CSV", 100_000, spans_csv),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, count, make in made:
            file = Path(folder) / "log.txt"
            make(file, count)
            taken = seconds(file)
            found.append(
                {
                    "log": name,
                    "events": count,
                    "CPU s": round(taken, 2),
                    "per second": round(count / taken),
                    "per minute": round(60 * count / taken),
                }
            )
    report("foreign_logs", "Foreign logs, from file to verdict", found, note="CPU seconds, best of three.")


if __name__ == "__main__":
    main()
