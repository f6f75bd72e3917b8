"""Plugin of pytest and helpers of `tests.campaigns.mxnet_tests`."""
