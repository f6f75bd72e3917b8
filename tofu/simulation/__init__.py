"""Predict the time of a training step, by simulating all workers on a machine that a file describes."""

from tofu.simulation.machine import Machine, list_machines, read_machine
from tofu.simulation.simulate import simulate
from tofu.simulation.timeline import Simulation
