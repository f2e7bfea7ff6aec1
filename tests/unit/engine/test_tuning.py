"""Which ways to run a model are tried, and that each is measured as it says."""

import pytest

from tests.unit.engine.fake_llama import FakeModel
from worker.engine.options import Batching, FlashAttention, KvType, ModelOptions
from worker.engine.tuning import Way, measure_ways, ways

AUTO, F16 = FlashAttention.AUTO, KvType.F16


def test_exact_ways_share_the_cores_out() -> None:
    """Exact evaluation is measured unless packed is asked for: every division of the cores."""
    found = list(ways(6))

    assert {(1, 6), (2, 3), (3, 2), (6, 1)} == {(way.contexts, way.threads) for way in found}
    assert {Batching.EXACT} == {way.batching for way in found}
    assert 4 * 3 == len(set(found))


def test_packed_ways_differ_in_sequences_and_calls() -> None:
    """Packed evaluation is measured on one context: sizes of calls, then kernels."""
    found = list(ways(6, Batching.PACKED))

    assert {(1, 6, Batching.PACKED)} == {(one.contexts, one.threads, one.batching) for one in found}
    usual = {(way.sequences, way.batch_tokens) for way in found if way.kv_type is F16}
    assert {(16, 512), (16, 2048), (64, 512), (64, 2048)} == usual
    assert 3 == len({(way.flash_attention, way.kv_type) for way in found})


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (
            Way(2, 4, AUTO, F16),
            "--batching exact --contexts 2 --threads 4 --flash-attention auto --kv-type f16",
        ),
        (
            Way(1, 8, AUTO, F16, Batching.PACKED, 64, 2048),
            "--batching packed --sequences 64 --batch-tokens 2048"
            " --contexts 1 --threads 8 --flash-attention auto --kv-type f16",
        ),
    ],
)
def test_a_way_says_which_settings_choose_it(way: Way, expected: str) -> None:
    """What is printed can be pasted, and holds whatever the environment says."""
    assert expected == way.flags()


def test_packed_ways_are_measured_packed() -> None:
    """Each way gets a context of its own sizes, and tickets that fill its calls."""
    model = FakeModel()
    candidates = list(ways(2, Batching.PACKED))
    *_, medians = measure_ways(model, ModelOptions(0, 0), candidates, seconds=0)

    assert set(candidates) == set(medians)
    for context, way in zip(model.contexts, 2 * candidates, strict=True):
        options = context.options
        assert (way.sequences, way.batch_tokens) == (options.sequences, options.batch_tokens)
        assert way.batch_tokens == max(sum(tokens for _, tokens in call) for call in context.calls)
