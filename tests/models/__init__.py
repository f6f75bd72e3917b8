"""Small models of the families that Tofu must handle: plain, normalized, recurrent, spatial; and what MXNet's users train."""

import tofu  # noqa: F401  before MXNet
