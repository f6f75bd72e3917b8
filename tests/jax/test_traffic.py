"""Bytes that a compiled step moves are counted from its text as often as they move."""

import pytest

from tofu.errors import InternalError
from tofu.jax.compare.traffic import count_traffic

TEXT = """HloModule step, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

%inner_body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %all-reduce.1 = f32[8]{0} all-reduce(%x), channel_id=1, replica_groups=[1,4]<=[4], to_apply=%add
}

%body.1 (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %while.2 = (s32[], f32[8]{0}) while(%t), condition=%inner_condition, body=%inner_body, backend_config={"known_trip_count":{"n":"3"}}
  %permute = f32[8]{0} collective-permute(%x), channel_id=2, source_target_pairs={{0,1},{1,1},{2,3}}
}

%condition.1 (p: (s32[], f32[8])) -> pred[] {
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %while.1 = (s32[], f32[8]{0}) while(%t), condition=%condition.1, body=%body.1, backend_config={"known_trip_count":{"n":"5"}}
  %all-gather.1 = f32[32]{0} all-gather(%x), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}
}
"""


def test_loops_count_as_often_as_they_run():
    traffic = count_traffic(TEXT, 4)
    gathered = 4 * 16 * 4  # half of the result of each of four devices
    permuted = 5 * 2 * 32
    reduced = 15 * 4 * (2 * 3 / 4) * 32
    assert traffic.bytes == {"all-gather": gathered, "collective-permute": permuted, "all-reduce": reduced}
    assert traffic.total == gathered + permuted + reduced
    assert traffic.count == {"all-gather": 1, "collective-permute": 1, "all-reduce": 1}


@pytest.mark.parametrize(
    ("groups", "listed"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("[4,2]<=[8]", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['a'=2,'b'=4] {'a'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['a'=2,'b'=2,'c'=2] {'c','a'}", [[0, 4, 1, 5], [2, 6, 3, 7]]),
        ("{}", [[0, 1, 2, 3, 4, 5, 6, 7]]),
    ],
)
def test_groups_are_told_in_several_ways(groups, listed):
    line = f"  %gather = f32[32]{{0}} all-gather(%x), channel_id=1, replica_groups={groups}, dimensions={{0}}"
    text = f"ENTRY %main (x: f32[8]) -> f32[8] {{\n{line}\n}}"
    own, between = (count_traffic(text, 8, host_devices) for host_devices in (0, 4))
    members = len(listed[0])
    assert own.total == 8 * 128 * (members - 1) // members
    pairs = [(a, b) for group in listed for a in group for b in group if a != b]
    crossing = sum(a // 4 != b // 4 for a, b in pairs) / len(pairs)
    assert between.between["all-gather"] == own.total * crossing


@pytest.mark.parametrize(
    ("kind", "size"), [("f32", 4), ("bf16", 2), ("c128", 16), ("u8", 1), ("f8e4m3fn", 1), ("s4", 0.5), ("pred", 1)]
)
def test_numbers_have_the_sizes_of_their_types(kind, size):
    text = TEXT.replace("f32[32]{0} all-gather", f"({kind}[32]{{0}}, {kind}[2,4]{{1,0}}) all-gather")
    assert count_traffic(text, 4).bytes["all-gather"] == 4 * size * (32 + 8) / 2


def test_what_is_told_otherwise_is_an_error():
    with pytest.raises(InternalError, match="not known: %gather"):
        count_traffic(TEXT.replace("{{0,1},{2,3}}, dim", "anything, dim").replace("all-gather.1", "gather"), 4)
    with pytest.raises(InternalError, match="numbers of type x32"):
        count_traffic(TEXT.replace("f32[32]{0} all-gather", "x32[32]{0} all-gather"), 4)
