import operator
import time
from multiprocessing import active_children

from tofu.host.processes import map_in_processes

LONG_SECONDS = 600


def test_results_come_in_order():
    assert list(map_in_processes(operator.mul, range(5), range(5), jobs=2)) == [0, 1, 4, 9, 16]


def test_processes_end_with_the_iteration():
    running = map_in_processes(time.sleep, [0, LONG_SECONDS, LONG_SECONDS], jobs=2)
    assert next(running) is None
    assert active_children()
    began = time.monotonic()
    running.close()
    assert not active_children()
    assert time.monotonic() - began < LONG_SECONDS / 10
