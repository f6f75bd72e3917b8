"""Bytes that a compiled step moves are counted from its text as often as they move."""

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
