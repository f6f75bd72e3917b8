"""Random models under random plans, compared with one device (`make fuzz`).

| module | |
|---|---|
| sample | a random model with its numbers |
| layers, operators, chains, recurrences | the kinds of models |
| models | builds the model of a seed |
| reference | results of one device |
| plans | random plans |
| trial | a model under its plans, and all checks |
| judge | decides who is wrong if the workers differ from one device |
| campaign | many seeds, in processes that may die |
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tofu  # noqa: F401  before MXNet
