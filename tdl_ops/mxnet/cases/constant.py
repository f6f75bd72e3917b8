from tdl_ops.mxnet.case import SINGLE_PRECISION, Case

CASES = [
    Case("_zeros", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_ones", {"shape": (5, 7), "dtype": "float64"}, [], wrt=()),
    Case("_full", {"shape": (5, 7), "value": 3.0, "dtype": "float64"}, [], wrt=()),
    Case("_arange", {"start": 1.5, "stop": 9.0, "step": 0.5, "repeat": 2, "dtype": "float64"}, [], wrt=()),
    Case("_arange", {"start": 7.0, "dtype": "float64"}, [], wrt=()),
    Case("_linspace", {"start": 1.0, "stop": 2.0, "num": 7, "dtype": "float64"}, [], wrt=()),
    Case("_linspace", {"start": 1.0, "stop": 2.0, "num": 7, "endpoint": False, "dtype": "float64"}, [], wrt=()),
    Case("_eye", {"N": 4, "M": 6, "k": 1, "dtype": "float64"}, [], wrt=()),
    Case("_eye", {"N": 5, "k": -2, "dtype": "float64"}, [], wrt=()),
    Case("_npi_arange", {"start": 1.5, "stop": 9.0, "step": 0.5, "dtype": "float64"}, [], wrt=()),
    Case("_npi_logspace", {"start": 0.5, "stop": 2.0, "num": 7, "base": 3.0, "dtype": "float64"}, [], wrt=()),
    *(
        Case(f"_npi_{name}", {"M": 7, "dtype": "float64"}, [], (), SINGLE_PRECISION)
        for name in ("hanning", "hamming", "blackman")
    ),
    Case("_npi_eye", {"N": 4, "M": 6, "k": 1, "dtype": "float64"}, [], wrt=()),
    Case("_npi_identity", {"shape": (5, 5), "dtype": "float64"}, [], wrt=()),
    Case("_npi_indices", {"dimensions": (5, 3), "dtype": "float64"}, [], wrt=()),
]
