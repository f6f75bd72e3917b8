"""The cost of a plan, counted element by element. This oracle shares no code with csrc/core."""

from functools import lru_cache
from itertools import product

from tests.search.random_graphs import REDUCE, REPLICATE


def take_part(indices, j, n):
    return indices[j * len(indices) // n : (j + 1) * len(indices) // n]


class CellModel:
    def __init__(self, spec, factors):
        self.spec, self.factors = spec, tuple(factors)
        self.workers = list(product(*(range(f) for f in factors)))
        self.read_bytes = lru_cache(maxsize=None)(self._read_bytes)
        self.write_bytes = lru_cache(maxsize=None)(self._write_bytes)
        self.split = lru_cache(maxsize=None)(self._split)

    def _split(self, extents, choice, worker):
        parts = [list(range(e)) for e in extents]
        for round_, dimension in enumerate(choice):
            if dimension >= 0:
                parts[dimension] = take_part(parts[dimension], worker[round_], self.factors[round_])
        return parts

    def list_feasible(self, extents, choice):
        """Return the dimensions that round number `len(choice)` may split, which are long enough."""
        known = CellModel(self.spec, self.factors[: len(choice)])
        smallest = [min(len(known.split(extents, choice, w)[d]) for w in known.workers) for d in range(len(extents))]
        return [d for d, length in enumerate(smallest) if length >= self.factors[len(choice)]]

    def can_nest(self, operator, history, axis):
        """Return True if the axes outside of `axis` are already split into single positions.

        This must hold for all operators that share the choice.
        """
        known = CellModel(self.spec, self.factors[: len(history)])
        boxes = [known.split(tuple(operator.extents), history, worker) for worker in known.workers]
        position = self.spec.operators.index(operator)
        alike = [operator, *(other for other in self.spec.operators if other.same_as == position)]
        outer = {outer for one in alike for inner, outer in one.nestings if inner == axis}
        return all(len(box[axis]) == 1 for axis in outer for box in boxes)

    def operator_choices(self, operator, history):
        found = self.list_feasible(tuple(operator.extents), history)
        found = [axis for axis in found if self.can_nest(operator, history, axis)]
        return [*found, -1] if self.spec.repeats or not found else found

    def tensor_choices(self, tensor, history):
        found = self.list_feasible(tensor.shape, history)
        return [*found, -1] if tensor.replicable or not found else found

    def region(self, access, shape, extents, choice, worker):
        """Return the elements that a worker's operator accesses; some may be outside the tensor."""
        cells = self.region_of_rows(access.rows, shape, extents, choice, worker)
        if access.absent is None:
            return cells
        return cells if (0,) in self.region_of_rows([access.absent[1]], (1,), extents, choice, worker) else frozenset()

    def region_of_rows(self, rows, shape, extents, choice, worker):
        axes = self.split(tuple(extents), choice, worker)
        dimensions = []
        for (terms, lower, upper), extent in zip(rows, shape, strict=True):
            if not any(axis in choice for axis, _ in terms):
                dimensions.append(range(extent))
                continue
            touched = [
                sum(c * i for (_, c), i in zip(terms, point, strict=True)) + offset
                for point in product(*(axes[axis] for axis, _ in terms))
                for offset in range(lower, upper)
            ]
            dimensions.append(range(min(touched), max(touched) + 1))
        return frozenset(product(*dimensions))

    def clip(self, cells, shape):
        return {c for c in cells if all(0 <= i < n for i, n in zip(c, shape, strict=True))}

    def find_shard(self, shape, layout, worker):
        return set(product(*self.split(shape, layout, worker)))

    def _read_bytes(self, group, phase, tensor, choice, layout):
        """Count the bytes that workers need and do not store. Equal regions of a worker count once."""
        info = self.spec.tensors[tensor]
        cells = 0
        for worker in self.workers:
            needed = set()
            for operator in self.spec.operators:
                if (operator.group, operator.phase) != (group, phase):
                    continue
                for read in operator.reads:
                    spared = any(a in read.addend_axes and worker[s] != 0 for s, a in enumerate(choice))
                    if read.tensor == tensor and read.is_read and not spared:
                        region = self.region(read, info.shape, operator.extents, choice, worker)
                        if operator.fetched:
                            region = frozenset(self.clip(region, info.shape))
                        outside = region != self.clip(region, info.shape)
                        needed.add((region, read.fill if outside else None))
            mine = self.find_shard(info.shape, layout, worker)
            cells += sum(len(self.clip(region, info.shape) - mine) for region, _ in needed)
        return cells * info.item_bytes

    def _write_bytes(self, position, output, choice, layout):
        """Count the bytes of each worker's shard that other workers computed. Each partial result counts."""
        operator = self.spec.operators[position]
        written = operator.written[output]
        info = self.spec.tensors[written.tensor]
        regions = {
            w: self.clip(self.region(written, info.shape, operator.extents, choice, w), info.shape)
            for w in self.workers
        }
        fates = [REPLICATE if axis < 0 else written.combine[axis] for axis in choice]

        def sum_here(worker, cells):
            same = [
                w
                for w in self.workers
                if w != worker and all(w[s] == worker[s] for s, fate in enumerate(fates) if fate == REPLICATE)
            ]
            return sum(len(cells & regions[w]) for w in same)

        shards = {w: self.find_shard(info.shape, layout, w) for w in self.workers}
        copied = [round_ for round_, dimension in enumerate(layout) if dimension < 0]
        if not (copied and REDUCE in fates and (self.spec.stages_small_sums or not info.replicable)):
            return info.item_bytes * sum(sum_here(w, shards[w]) for w in self.workers)
        total = 0
        for worker in self.workers:
            mine = self.scattered_part(info.shape, layout, worker, copied)
            total += sum_here(worker, mine) + len(shards[worker] - mine)
        return info.item_bytes * total

    def scattered_part(self, shape, layout, worker, copied):
        """Return the part of a replicated shard that this worker reduces. The replicas divide its longest dimension."""
        if not shape:  # a scalar is reduced by worker 0
            return set() if any(worker) else {()}
        parts = list(self.split(shape, layout, worker))
        smallest = [min(len(self.split(shape, layout, w)[d]) for w in self.workers) for d in range(len(shape))]
        longest = smallest.index(max(smallest))
        for round_ in copied:
            parts[longest] = take_part(parts[longest], worker[round_], self.factors[round_])
        return set(product(*parts))

    def list_incidences(self):
        """Return (count function, its arguments, operator, tensor) for all reads and writes that can cost bytes."""
        found = []
        for position, operator in enumerate(self.spec.operators):
            for read in filter(lambda read: read.is_read, operator.reads):
                key = (self.read_bytes, (operator.group, operator.phase, read.tensor))
                if all(known[:2] != key for known in found):
                    found.append((*key, position, read.tensor))
            for output, written in enumerate(operator.written):
                is_read = any(
                    written.tensor == read.tensor and read.is_read for o in self.spec.operators for read in o.reads
                )
                if is_read or written.tensor in self.spec.outputs:
                    found.append((self.write_bytes, (position, output), position, written.tensor))
        return found

    def total_bytes(self, operators, tensors):
        return sum(count(*key, operators[o], tensors[t]) for count, key, o, t in self.list_incidences())
