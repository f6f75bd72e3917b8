"""Replacements of MXNet's modules that run on several devices and store parameters as shards."""
