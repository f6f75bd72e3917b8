"""Predicted time of a training step: discrete-event simulation of the workers' program on a machine that need not exist."""

from tofu.simulation.machine import Machine, list_machines, read_machine
from tofu.simulation.simulate import simulate
from tofu.simulation.timeline import Simulation

__all__ = ["Machine", "Simulation", "list_machines", "read_machine", "simulate"]
