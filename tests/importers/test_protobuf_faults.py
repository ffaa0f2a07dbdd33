"""Faults in traces as protobuf: each is named, or the file is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sound_logs import SPANS, otlp_proto, put, shifted

import antecast
from antecast.core.errors import AntecastError


def test_otlp_in_protobuf_that_is_damaged_is_refused(tmp_path: Path) -> None:
    data = otlp_proto(SPANS)
    assert antecast.audit(put(tmp_path, data)).outcome == "sound"
    for bad in (data[:-5], data[: len(data) // 2], data + b"\x0a\xff\xff"):
        with pytest.raises(AntecastError):
            antecast.audit(put(tmp_path, bad), format="otlp-proto")


def test_otlp_in_protobuf_that_ends_anywhere_never_passes_as_the_whole(tmp_path: Path) -> None:
    data = otlp_proto(SPANS)
    for end in range(len(data)):
        try:
            verdict = antecast.audit(put(tmp_path, data[:end]), format="otlp-proto")
        except AntecastError:
            continue
        assert verdict.outcome != "sound" or verdict.counts["spans"] < len(SPANS)


@pytest.mark.parametrize(
    ("spans", "outcome", "kind"),
    [
        (shifted(SPANS, "c3", -150_000), "violated", "child before parent"),
        (shifted(shifted(SPANS, "c3", 400_000), "d4", 400_000), "violated", "response before request"),
        (tuple(span for span in SPANS if span.span != "b2"), "inconclusive", None),
        (tuple(replace(span, parent="ff") if span.span == "e5" else span for span in SPANS), "inconclusive", None),
        ((*SPANS, SPANS[2]), "violated", "same id twice"),
        (tuple(replace(span, parent="d4") if span.span == "b2" else span for span in SPANS), "violated", "cycle"),
        (SPANS[::-1], "sound", None),
    ],
)
def test_faults_of_traces_in_protobuf(spans: Any, outcome: str, kind: str | None, tmp_path: Path) -> None:
    verdict = antecast.audit(put(tmp_path, otlp_proto(spans)))
    assert verdict.outcome == outcome and (kind is None or verdict.found[kind] == 1)


@pytest.mark.parametrize(("field", "number"), [("start", 1), ("start", 3), ("end", 1), ("end", 3)])
def test_a_time_that_is_not_there_is_refused_at_its_span(field: str, number: int, tmp_path: Path) -> None:
    """Protobuf has 0 for it, which is before everything else."""
    spans = [replace(span, **{field: 0}) if at == number else span for at, span in enumerate(SPANS, 1)]
    with pytest.raises(AntecastError, match=f"{field}_time_unix_nano is 0, which means that it was never set"):
        antecast.audit(put(tmp_path, otlp_proto(tuple(spans))))


def test_metrics_in_protobuf_are_no_trace(tmp_path: Path) -> None:
    """They have the form of spans, but no times where spans have theirs."""
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2").MetricsData()
    resource = metrics.resource_metrics.add()
    resource.resource.attributes.add().key = "service.name"
    metric = resource.scope_metrics.add().metrics.add()
    metric.name, metric.description, metric.unit = "cpu", "load", "s"
    metric.gauge.data_points.add().as_int = 4
    with pytest.raises(AntecastError):
        antecast.audit(put(tmp_path, metrics.SerializeToString()))
