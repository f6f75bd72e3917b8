"""MXNet's own tests, run with every bind partitioned: what `tests.campaigns.mxnet_tests` is made of."""
