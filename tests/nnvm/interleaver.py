"""Simulate all orders in which MXNet's engine may run a small graph, to test the rules of lifetimes.

Values are symbolic: a kernel must read the values that it would read if every entry had separate memory.
"""

SHAPE, READ, CHANGE, SPOIL = range(4)


class InterleavedGraph:
    def __init__(self, view):
        def rows(first, node):
            return range(view[first][node], view[first][node + 1])

        self.view = view
        self.buffer = [int(buffer) for buffer in view["buffer"]]
        self.variables = [n for n, is_variable in enumerate(view["is_variable"]) if is_variable]
        self.entries = [list(rows("first_entry", n)) for n in range(len(view["names"]))]
        self.reads = [
            [(int(view["read"][r]), int(view["access"][r])) for r in rows("first_read", n)]
            for n in range(len(view["names"]))
        ]
        self.pairs = {(int(n), int(i), int(o)): bool(same) for n, i, o, same in view["in_place"]}
        self.skipped = [n for n, is_skipped in enumerate(view["is_skipped"]) if is_skipped]
        self.nodes = [n for n in range(len(view["names"])) if n not in self.variables and n not in self.skipped]
        self.first_of = {self.reads[n][1][0]: self.reads[n][0][0] for n in self.skipped}
        self.find_values()

    def find_values(self):
        self.value = {self.entries[n][0]: ("variable", n, frozenset()) for n in self.variables}
        self.found = {}  # (node, entry) -> value
        for node in range(len(self.entries)):
            if node in self.variables:
                continue
            for entry, access in self.reads[node]:
                if access in (READ, SPOIL):
                    self.found[node, entry] = self.value[entry]
            for entry in self.entries[node]:
                self.value[entry] = self.result(node, entry)
            for entry, access in self.reads[node]:
                if access == CHANGE:
                    self.value[entry] = changed(self.value[entry], node)

    def result(self, node, entry):
        if node in self.skipped:
            first, second = (self.value[e] for e, _ in self.reads[node])
            return "sum", first, second
        for position, (source, access) in enumerate(self.reads[node]):
            is_same = self.pairs.get((node, position, self.entries[node].index(entry)), False)
            if access in (READ, SPOIL) and is_same and self.buffer[source] == self.buffer[entry]:
                return self.value[source]
        return "result", entry

    def waits_for(self):
        read = {n: {self.buffer[e] for e, _ in self.reads[n]} for n in self.nodes}
        written = {n: {self.buffer[e] for e in self.entries[n]} for n in self.nodes}
        return {
            n: {m for m in self.nodes if m < n and (written[m] & (read[n] | written[n]) or read[m] & written[n])}
            for n in self.nodes
        }

    def run(self, node, memory):
        """Return the memory after a node has run, or None if its numbers are wrong."""
        for entry, access in self.reads[node]:
            if access in (READ, SPOIL) and memory.get(self.buffer[entry]) != self.found[node, entry]:
                return None
        memory = dict(memory)
        for entry, access in self.reads[node]:
            if access == CHANGE:
                found = memory.get(self.buffer[entry])
                if found is None or found[:2] != self.value[entry][:2]:
                    return None
                memory[self.buffer[entry]] = changed(found, node)
        for entry, access in self.reads[node]:
            if access == SPOIL:
                memory[self.buffer[entry]] = "spoilt", node, frozenset()
        if len({self.buffer[e] for e in self.entries[node]}) < len(self.entries[node]):
            return None
        for output, entry in enumerate(self.entries[node]):
            if not self.may_write(node, output, entry):
                return None
            before = memory.get(self.buffer[entry])
            if self.view["is_added"][entry]:
                first = self.first_of.get(entry)
                if first is None or before != self.value[first]:
                    return None
                memory[self.buffer[entry]] = "sum", before, self.value[entry]
            else:
                memory[self.buffer[entry]] = self.value[entry]
        return memory

    def may_write(self, node, output, entry):
        for position, (source, access) in enumerate(self.reads[node]):
            is_over = access != SHAPE and self.buffer[source] == self.buffer[entry]
            if is_over and (self.view["is_added"][entry] or (node, position, output) not in self.pairs):
                return False
        return True

    def is_right_at_the_end(self, memory):
        kept = [*(self.entries[n][0] for n in self.variables), *(int(e) for e in self.view["outputs"])]
        return all(memory.get(self.buffer[entry]) == self.value[entry] for entry in kept)


def changed(value, node):
    """Return a variable changed by one more node. The order of changes does not count."""
    return (*value[:2], value[2] | {node})


def is_always_right(view):
    """Return True if every order that the engine may choose gives every node its right inputs."""
    graph = InterleavedGraph(view)
    owners = {}
    for node, entries in enumerate(graph.entries):
        for entry in entries:
            if owners.setdefault(graph.buffer[entry], view["group"][node]) != view["group"][node]:
                return False
    for node in graph.skipped:
        second = graph.reads[node][1][0]
        is_there = view["is_added"][second] and graph.buffer[second] == graph.buffer[graph.entries[node][0]]
        if not is_there:
            return False
    waits_for = graph.waits_for()
    memory = {graph.buffer[graph.entries[n][0]]: ("variable", n, frozenset()) for n in graph.variables}
    states = [(frozenset(), memory)]
    seen = set()
    while states:
        done, memory = states.pop()
        key = done, frozenset(memory.items())
        if key in seen:
            continue
        seen.add(key)
        ready = [n for n in graph.nodes if n not in done and waits_for[n] <= done]
        if not ready and not graph.is_right_at_the_end(memory):
            return False
        for node in ready:
            after = graph.run(node, memory)
            if after is None:
                return False
            states.append((done | {node}, after))
    return True
