"""Train an example on one device and on several, and compare the losses. All examples use this."""

import argparse
import sys

import numpy as np

import tofu  # noqa: F401  imported before MXNet, which it makes importable under newer versions of NumPy

# Largest relative difference of two losses that counts as rounding. Additions run in another order on several devices.
AGREEMENT = 1e-4


def read_options(description, workers=4):
    """Return the options of every example."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="training steps (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=workers, help="how many devices (default: %(default)s)")
    return parser.parse_args()


def compare(train, description):
    """Call `train(workers, steps)`, which returns losses and a plan, for one worker and for several. Exit with 1 if they differ."""
    options = read_options(description)
    expected, _ = train(1, options.steps)
    losses, plan = train(options.workers, options.steps)
    print(f"The plan: {plan.workers} workers move {plan.communication_bytes:,} bytes in a step ({plan.optimality}).")
    show(expected, losses)


def show(expected, losses):
    """Print two columns of losses, and exit with status 1 if they differ too much."""
    print("\nstep   one device   partitioned")
    for step, (one, several) in enumerate(zip(expected, losses, strict=True), start=1):
        print(f"{step:4}   {one:10.6f}   {several:11.6f}")
    distance = max(abs(one - several) / max(abs(one), 1e-9) for one, several in zip(expected, losses, strict=True))
    print(f"\nLosses are at most {distance:.1e} of their size apart.")
    if not distance <= AGREEMENT:
        sys.exit(f"That is more than {AGREEMENT:.0e}, and a defect of Tofu: please report it.")


def draw_images(count, size=16, classes=10, seed=0):
    """Return images with a bright square whose position is the class, as (images, labels)."""
    draw = np.random.RandomState(seed)
    labels = draw.randint(0, classes, count)
    images = 0.3 * draw.randn(count, 3, size, size).astype("float32")
    for image, label in zip(images, labels, strict=True):
        row, column = divmod(int(label), 4)
        image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 1
    return images, labels.astype("float32")
