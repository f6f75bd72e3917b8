"""Small models: plain, normalized, recurrent and spatial ones, and applications like those of MXNet's users."""

import tofu  # noqa: F401  before MXNet
