"""Random streams: fixed for ever, independent of each other, and distributed as they should be."""

import math
from statistics import NormalDist, fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.sim.streams import Stream, exp, log, mix, normal_quantile, stream_key

SAMPLE = 20_000


def test_the_first_draws_of_a_stream_never_change():
    """Every run ever made depends on these numbers."""
    assert mix(0, 1) == 16294208416658607535  # the published first output of SplitMix64 with seed 0
    stream = Stream(7, "delay", 3, 4)
    assert [stream.below(1000) for _ in range(8)] == [919, 800, 853, 979, 691, 283, 786, 595]
    assert stream.normal() == 0.23734230570905832


@given(st.integers(0, 2**63), st.text(max_size=5), st.lists(st.integers(0, 2**32), max_size=3))
def test_a_stream_depends_on_its_key_alone(seed, purpose, index):
    first, other = Stream(seed, purpose, *index), Stream(seed, purpose, *index)
    noise = Stream(seed, purpose + "x")
    draws = []
    for _ in range(5):
        noise.bits()
        draws.append(first.bits())
    assert draws == [other.bits() for _ in range(5)]


def test_streams_of_different_keys_differ():
    keys = {
        stream_key(seed, purpose, *index)
        for seed in range(10)
        for purpose in "ab"
        for index in [(), (0,), (1,), (0, 1), (1, 0)]
    }
    assert len(keys) == 100


def test_uniform_draws_are_uniform():
    stream = Stream(1, "uniform")
    draws = [stream.uniform() for _ in range(SAMPLE)]
    assert min(draws) > 0 and max(draws) < 1
    assert fmean(draws) == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / SAMPLE))
    buckets = [0] * 16
    for draw in draws:
        buckets[int(draw * 16)] += 1
    expected = SAMPLE / 16
    assert sum((count - expected) ** 2 / expected for count in buckets) < 45  # chi-square, 15 degrees, p ≈ 1e-4


def test_normal_and_exponential_draws_have_their_moments():
    stream = Stream(1, "moments")
    normal = [stream.normal() for _ in range(SAMPLE)]
    assert fmean(normal) == pytest.approx(0, abs=0.04)
    assert pstdev(normal) == pytest.approx(1, abs=0.03)
    exponential = [stream.exponential() for _ in range(SAMPLE)]
    assert fmean(exponential) == pytest.approx(1, abs=0.04)
    assert pstdev(exponential) == pytest.approx(1, abs=0.05)


@given(st.floats(1e-300, 1 - 1e-16))
def test_the_normal_quantile_is_accurate(p):
    assert normal_quantile(p) == pytest.approx(NormalDist().inv_cdf(p), rel=1e-12, abs=1e-12)


@given(st.floats(1e-300, 1e300))
def test_the_logarithm_is_accurate(x):
    assert log(x) == pytest.approx(math.log(x), rel=1e-14, abs=1e-15)


@given(st.floats(-700, 700))
def test_the_exponential_is_accurate(x):
    assert exp(x) == pytest.approx(math.exp(x), rel=1e-14)


def test_a_sample_has_no_repetitions_and_no_more_than_there_is():
    stream = Stream(1, "sample")
    assert sorted(stream.sample(5, 9)) == [0, 1, 2, 3, 4]
    assert len(set(stream.sample(1000, 10))) == 10
