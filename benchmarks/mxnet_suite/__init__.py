"""MXNet's own tests, run with every bind partitioned: what `benchmarks.mxnet_tests` is made of."""
