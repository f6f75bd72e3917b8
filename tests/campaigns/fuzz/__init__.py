"""Random models under random plans against one device: `python -m tests.campaigns.fuzz`, or `make fuzz SECONDS=600`.

From a seed to a verdict, in the order of the files: `sample.py`, what a random model is; `layers.py`, `operators.py`, `chains.py` and
`recurrences.py`, what it is made of; `models.py`, a seed -> a sample. `reference.py`, one device; `plans.py`, random plans; `trial.py`, a
sample under plans, and everything that is checked; `judge.py`, who is right where one device and the workers differ. `shrink.py` over
`reduce.py`, the smallest sample that still fails, and `script.py`, that one as a program. `campaign.py`, many of them in processes that may
die; `tally.py`, what they add up to.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tofu  # noqa: F401  before MXNet
