"""Gluon blocks on several devices."""
