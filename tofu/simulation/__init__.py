"""How long a training step takes on a machine that need not be at hand: a discrete-event simulation of the workers' program."""

from tofu.simulation.machine import Machine, list_machines, read_machine
from tofu.simulation.simulate import simulate
from tofu.simulation.timeline import Simulation

__all__ = ["Machine", "Simulation", "list_machines", "read_machine", "simulate"]
