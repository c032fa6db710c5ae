"""A growing measure is distinguished from a noisy one."""

from __future__ import annotations

import random

import pytest

from tests.soak.slope import growth

SECONDS = [n / 2 for n in range(240)]


def noise(seed: int) -> list[float]:
    drawn = random.Random(seed)
    return [500 + drawn.uniform(-40, 40) for _ in SECONDS]


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_peaks_count_as_flat(seed: int) -> None:
    values = noise(seed)
    values[200] += 1_000
    assert growth("memory", SECONDS, values, 24).is_flat


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_leak_in_noise_is_detected(seed: int) -> None:
    values = [value + 1.0 * at for value, at in zip(noise(seed), SECONDS, strict=True)]
    found = growth("memory", SECONDS, values, 24)
    assert not found.is_flat
    assert found.grown == pytest.approx(80, rel=0.4)


def test_growth_during_warm_up_is_not_counted() -> None:
    values = [min(at, 30.0) * 20 for at in SECONDS]
    assert growth("memory", SECONDS, values, 24).is_flat


def test_too_few_measurements_are_an_error() -> None:
    with pytest.raises(ValueError, match="too few"):
        growth("memory", [0, 1, 2], [1, 1, 1], 24)
