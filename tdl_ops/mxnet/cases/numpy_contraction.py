from tdl_ops.mxnet.case import Case

CASES = [
    Case("_npi_einsum", {"num_args": 2, "subscripts": "bqhd,bkhd->bhqk"}, [(3, 4, 2, 5), (3, 6, 2, 5)]),
    Case("_npi_einsum", {"num_args": 2, "subscripts": "ij,jk"}, [(5, 7), (7, 3)]),
    Case("_npi_einsum", {"num_args": 3, "subscripts": "ai, bi, ci -> abc"}, [(4, 5), (3, 5), (2, 5)]),
    Case("_npi_einsum", {"num_args": 1, "subscripts": "abc->ca"}, [(4, 5, 3)], wrt=()),
    Case("_npi_einsum", {"num_args": 1, "subscripts": "abc->cab"}, [(4, 5, 3)]),
    # A string, so that no other axes are drawn: MXNet corrupts memory for axes that a tensor lacks.
    Case("_npi_tensordot", {"a_axes_summed": "(2, 0)", "b_axes_summed": "(0, 1)"}, [(5, 3, 4), (4, 5, 7)]),
    Case("_npi_tensordot_int_axes", {"axes": 2}, [(5, 3, 4), (3, 4, 7)]),
    Case("_npi_tensordot_int_axes", {"axes": 0}, [(5, 3), (4,)]),
]
