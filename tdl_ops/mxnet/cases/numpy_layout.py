from tdl_ops.mxnet.case import Case

CASES = [
    Case("_npi_flip", {"axis": None}, [(5, 3)]),
    Case("_np_moveaxis", {"source": (0, -1), "destination": (2, 0)}, [(5, 3, 4, 2)]),
    Case("_np_roll", {"shift": (2, -3), "axis": (0, 2)}, [(5, 3, 7)]),
    Case("_np_roll", {"shift": (9,), "axis": (1,)}, [(5, 7)]),
    *(Case("_npi_rot90", {"k": k, "axes": (0, 2)}, [(5, 3, 7)]) for k in (1, 2, -1)),
    Case("_npi_pad", {"pad_width": ((1, 2), (0, 0), (3, 0)), "constant_value": 0.5}, [(5, 3, 7)]),
    Case("_npi_hsplit", {"indices": (0, 2, 3)}, [(5, 7)]),
    Case("_npi_dsplit", {"indices": (0, 2), "axis": "2"}, [(5, 3, 7)]),  # a string, so that no other axis is drawn
    Case("_npi_diff", {}, [(5, 7)]),
    Case("_npi_diff", {"n": 2, "axis": 0}, [(7, 3)]),
    Case("_npi_tril", {"k": -1}, [(3, 5, 7)]),
    Case("_npi_tril", {"k": 1}, [(7,)]),
    Case("_np_diag", {"k": 1}, [(7, 5)]),
    Case("_np_diagonal", {"offset": 1, "axis1": 2}, [(7, 3, 5)]),
    Case("_np_trace", {"offset": -1, "axis1": 2, "axis2": 0}, [(5, 3, 7)]),
]
