"""Gluon on several devices: blocks, their parameters, and Trainers."""
