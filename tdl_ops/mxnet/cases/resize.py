from tdl_ops.mxnet.case import SINGLE_PRECISION, Case

PLANES = (3, 5, 4, 7)
RESIZE = "_contrib_BilinearResize2D"

CASES = [
    Case("_contrib_AdaptiveAvgPooling2D", {"output_size": (2, 3)}, [PLANES]),
    Case("_contrib_AdaptiveAvgPooling2D", {}, [PLANES]),
    Case(RESIZE, {"height": 8, "width": 9}, [PLANES], None, SINGLE_PRECISION),
    Case(RESIZE, {"height": 3, "width": 9, "align_corners": False}, [PLANES], None, SINGLE_PRECISION),
    Case(RESIZE, {"height": 4, "width": 9}, [PLANES], None, SINGLE_PRECISION),
    Case(RESIZE, {"height": 8, "width": 7, "align_corners": False}, [PLANES], None, SINGLE_PRECISION),
    Case(RESIZE, {"mode": "like"}, [PLANES, (3, 5, 6, 6)], None, SINGLE_PRECISION),
    Case(RESIZE, {"mode": "odd_scale", "scale_height": 2.0, "scale_width": 2.0}, [PLANES], None, SINGLE_PRECISION),
]
