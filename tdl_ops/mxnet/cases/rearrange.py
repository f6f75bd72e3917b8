from tdl_ops.mxnet.case import Case
from tofu.verification.numbers import single

CASES = [
    Case("depth_to_space", {"block_size": 2}, [(3, 12, 3, 5)]),
    Case("space_to_depth", {"block_size": 2}, [(3, 2, 4, 6)]),
    Case("slice_like", {"axes": (0, -1)}, [(4, 5, 6), (3, 2, 3)]),
    Case("slice_like", {}, [(4, 5), (3, 3)]),
    Case("Crop", {"num_args": 1, "h_w": (3, 4), "offset": (1, 2)}, [single(3, 2, 5, 7)]),
    Case("Crop", {"num_args": 1, "h_w": (3, 4), "center_crop": True}, [single(3, 2, 5, 7)]),
    Case("Crop", {"num_args": 2}, [single(3, 2, 5, 7), single(1, 3, 3, 4)]),
    Case("khatri_rao", {"num_args": 3}, [(4, 3), (5, 3), (2, 3)], wrt=()),
    Case("shape_array", {}, [(4, 3)], wrt=()),
    Case("size_array", {}, [(4, 3)], wrt=()),
    Case("amp_multicast", {"num_outputs": 2}, [single(5, 3), single(5, 3)]),
    Case("amp_multicast", {"num_outputs": 3}, [single(5, 3), single(4, 3, 2), single(5)]),
]
