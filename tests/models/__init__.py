"""Small plain, normalized, recurrent and spatial models, and applications as MXNet's users write them."""

import tofu  # noqa: F401  before MXNet
