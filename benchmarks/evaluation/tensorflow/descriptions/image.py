"""Operators on images, channels last: colours, opaque in a cell, other sizes, opaque in a plane, and boxes, opaque in an image."""

from __future__ import annotations

from benchmarks.evaluation.tensorflow import describe
from tofu.tdl import Opaque, Sum, position

IMAGES, BOXES = (2, 5, 6, 3), (2, 4, 4)


@describe("AdjustContrastv2", inputs=[IMAGES, ()], outputs=[IMAGES])
def adjust_contrast(images, factor):
    count = position(images.shape[-3] * images.shape[-2])
    mean = lambda b, c: Sum(lambda v, u: images[(*b, v, u, c)]) / count
    return lambda *i: (images[i] - mean(i[:-3], i[-1])) * factor[()] + mean(i[:-3], i[-1])


@describe("HSVToRGB", "RGBToHSV", inputs=[IMAGES], outputs=[IMAGES])
@describe("AdjustHue", "AdjustSaturation", inputs=[IMAGES, ()], outputs=[IMAGES])
def change_colour(images, *numbers):
    change = Opaque(name="change_colour")
    return lambda *i: change(images[(*i[:-1], slice(None))], *(number[()] for number in numbers))[i[-1]]


@describe(
    "ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor", inputs=[IMAGES], outputs=[(2, 7, 4, 3)]
)
def resize(images):
    resized = Opaque(name="resize")
    return lambda b, y, x, c: resized(images[b, :, :, c])[y, x]


@describe("DrawBoundingBoxes", inputs=[IMAGES, BOXES], outputs=[IMAGES])
def draw_boxes(images, boxes):
    """The colour of a box depends on the channel."""
    drawn = Opaque(name="draw_boxes")
    return lambda b, y, x, c: drawn(images[b, :, :, :], boxes[b, :, :])[y, x, c]


@describe("CropAndResize", inputs=[IMAGES, (7, 4), (7,)], outputs=[(7, 3, 4, 3)])
def crop_and_resize(images, boxes, samples):
    crop = Opaque(name="crop_and_resize")
    return lambda r, y, x, c: crop(images[:, :, :, c], boxes[r, :], samples[r])[y, x]


@describe("ExtractGlimpse", inputs=[IMAGES, (2, 2)], outputs=[(2, 3, 4, 3)])
def extract_glimpse(images, offsets):
    """What lies outside of the image is drawn at random."""
    glimpse = Opaque(name="extract_glimpse")
    return lambda b, y, x, c: glimpse(images[b, :, :, :], offsets[b, :])[y, x, c]


@describe("SampleDistortedBoundingBox", inputs=[(3,), (1, 4, 4)], outputs=[(3,), (3,), (1, 1, 4)])
@describe("SampleDistortedBoundingBoxV2", inputs=[(3,), (1, 4, 4), ()], outputs=[(3,), (3,), (1, 1, 4)])
def sample_box(size, boxes, *least):
    """A box is drawn at random, until it covers enough of one of those that are given."""
    sample = Opaque(name="sample_box")
    drawn = lambda: sample(size[:], boxes[:, :, :], *(one[()] for one in least))
    return lambda d: drawn()[0, d], lambda d: drawn()[1, d], lambda one, two, corner: drawn()[2, corner]
