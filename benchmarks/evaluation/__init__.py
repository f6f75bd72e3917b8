"""The paper's evaluation (section 7) on a simulated p2.8xlarge: `python -m benchmarks.evaluation`, or `make reproduce`."""
