import pytest

from tofu.errors import InternalError
from tofu.jax.compare.traffic import count_traffic

TEXT = """HloModule step, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%inner_body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %all-reduce.1 = f32[8]{0} all-reduce(%x), channel_id=1, replica_groups=[1,4]<=[4], to_apply=%add
}

%body.1 (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %while.2 = (s32[], f32[8]{0}) while(%t), condition=%inner_condition, body=%inner_body, backend_config={"known_trip_count":{"n":"3"}}
  %permute = f32[8]{0} collective-permute(%x), channel_id=2, source_target_pairs={{0,1},{1,1},{2,3}}
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %while.1 = (s32[], f32[8]{0}) while(%t), condition=%condition.1, body=%body.1, backend_config={"known_trip_count":{"n":"5"}}
  %all-gather.1 = f32[32]{0} all-gather(%x), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}
}
"""


def test_collectives_in_loops_are_counted_per_iteration():
    traffic = count_traffic(TEXT, 4)
    gathered = 4 * 16 * 4  # half of the result on four devices
    permuted = 5 * 2 * 32
    reduced = 15 * 4 * (2 * 3 / 4) * 32
    assert traffic.bytes == {"all-gather": gathered, "collective-permute": permuted, "all-reduce": reduced}
    assert traffic.total == gathered + permuted + reduced
    assert traffic.count == {"all-gather": 1, "collective-permute": 1, "all-reduce": 1}


ON_TPU = """HloModule step, is_scheduled=true

%begin (p: f32[8]) -> (f32[16], u32[]) {
  %all-gather.1 = f32[16]{0} all-gather(%p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %custom-call = (f32[16]{0}, u32[]) custom-call(%all-gather.1), custom_call_target="AsyncCollectiveStart"
}

%async_collective_fusion (p: f32[8], x: f32[8]) -> (f32[8], f32[16]) {
  %WORK
  %all-gather.2 = f32[16]{0} all-gather(%p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %tuple = (f32[8]{0}, f32[16]{0}) tuple(%work, %all-gather.2)
}

%finish (p: f32[8]) -> f32[16] {
  %all-gather.3 = f32[16]{0} all-gather(%p), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}, frontend_attributes={chain_id="0"}
  ROOT %custom-call.1 = f32[16]{0} custom-call(%all-gather.3), custom_call_target="AsyncCollectiveDone"
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %begun = (f32[16]{0}, u32[]) fusion(%x), kind=kCustom, calls=%begin
  %beside = (f32[8]{0}, f32[16]{0}) fusion(%x, %y), kind=kCustom, calls=%async_collective_fusion
  %done = f32[16]{0} fusion(%begun), kind=kCustom, calls=%finish
  %collective-permute-start = (f32[8]{0}, f32[8]{0}, u32[]) collective-permute-start(%x), channel_id=2, source_target_pairs={{0,1},{1,0}}
  %collective-permute-start.1 = (f32[8]{0}, f32[8]{0}, u32[]) collective-permute-start(%x), channel_id=3, source_target_pairs={{0,1}}
  %collective-permute-done.1 = f32[8]{0} collective-permute-done(%collective-permute-start.1)
  %fusion.1 = f32[8]{0} fusion(%collective-permute-done.1), kind=kLoop, calls=%add
  %collective-permute-done = f32[8]{0} collective-permute-done(%collective-permute-start)
  %all-reduce = f32[8]{0} all-reduce(%x), channel_id=4, replica_groups={{0,1},{2,3}}, to_apply=%add
}
"""


def test_overlapped_transfers_are_counted_apart():
    """A gather in a fusion appears three times in the text and runs once. The second permutation ends before any computation."""
    traffic = count_traffic(ON_TPU.replace("%WORK", "%work = f32[8]{0} convolution(%x, %x)"), 4)
    assert traffic.count == {"all-gather": 1, "collective-permute": 2, "all-reduce": 1}
    assert traffic.bytes == {"all-gather": 4 * 32, "collective-permute": 3 * 32, "all-reduce": 4 * 32}
    assert traffic.overlapped == {"all-gather": 4 * 32, "collective-permute": 2 * 32}
    idle = count_traffic(ON_TPU.replace("%WORK", "%work = f32[8]{0} bitcast(%x)"), 4)
    assert idle.bytes == traffic.bytes
    assert idle.overlapped == {"collective-permute": 2 * 32}
    assert not count_traffic(TEXT, 4).overlapped


ON_GPU = """HloModule step, is_scheduled=true

ENTRY %main (x: f32[8]) -> f32[8] {
  %all-gather-start = ((f32[8]{0}), f32[32]{0}) all-gather-start(%x), channel_id=1, replica_groups=mesh['x'=4] {'x'}, dimensions={0}
  %all-gather-done = f32[32]{0} all-gather-done(%all-gather-start)
  %reduce-scatter-start = ((f32[32]{0}, f32[8]{0}), (f32[8]{0}, f32[2]{0})) reduce-scatter-start(%y, %x), replica_groups={{0,1,2,3}}
  %gemm = (f32[8]{0}, s8[64]{0}) custom-call(%all-gather-done), custom_call_target="__cublas$gemm"
  %reduce-scatter-done = (f32[8]{0}, f32[2]{0}) reduce-scatter-done(%reduce-scatter-start)
  %all-to-all-start = ((f32[8]{0}), f32[8]{0}) all-to-all-start(%x), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}
  %all-to-all-done = f32[8]{0} all-to-all-done(%all-to-all-start)
  %all-reduce-start = f32[8]{0} all-reduce-start(%x), channel_id=4, replica_groups={{0,1,2,3}}, to_apply=%add
  ROOT %all-reduce-done = f32[8]{0} all-reduce-done(%all-reduce-start)
}
"""


def test_asynchronous_collectives_of_gpus_are_counted_by_their_results():
    traffic = count_traffic(ON_GPU, 4)
    assert traffic.bytes == {
        "all-gather": 4 * 3 * 32,
        "reduce-scatter": 4 * 3 * (32 + 8),
        "all-to-all": 4 * 16,
        "all-reduce": 4 * 2 * 24,
    }
    assert traffic.overlapped == {"reduce-scatter": 4 * 3 * 40}


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
def test_all_notations_of_groups_are_read(groups, listed):
    line = f"  %gather = f32[32]{{0}} all-gather(%x), channel_id=1, replica_groups={groups}, dimensions={{0}}"
    text = f"ENTRY %main (x: f32[8]) -> f32[8] {{\n{line}\n}}"
    own, between = (count_traffic(text, 8, host_devices) for host_devices in (0, 4))
    members = len(listed[0])
    assert own.total == 8 * 128 * (members - 1) // members
    spanning = sum(min(group) < 4 <= max(group) for group in listed)  # groups with members on both hosts
    assert between.between["all-gather"] == spanning * 128


@pytest.mark.parametrize(("kind", "size"), [("bf16", 2), ("c128", 16), ("f8e4m3fn", 1), ("s4", 0.5), ("pred", 1)])
def test_element_sizes_of_types(kind, size):
    text = TEXT.replace("f32[32]{0} all-gather", f"({kind}[32]{{0}}, {kind}[2,4]{{1,0}}) all-gather")
    assert count_traffic(text, 4).bytes["all-gather"] == 4 * size * (32 + 8) / 2


def test_unknown_texts_are_errors():
    with pytest.raises(InternalError, match="not known: %gather"):
        count_traffic(TEXT.replace("{{0,1},{2,3}}, dim", "anything, dim").replace("all-gather.1", "gather"), 4)
    with pytest.raises(InternalError, match="numbers of type x32"):
        count_traffic(TEXT.replace("f32[32]{0} all-gather", "x32[32]{0} all-gather"), 4)
