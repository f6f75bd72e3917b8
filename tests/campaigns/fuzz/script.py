"""A failing sample as a program that needs MXNet and Tofu alone."""

from __future__ import annotations

import json
from pprint import pformat

from tests.campaigns.fuzz.judge import find_differences
from tests.campaigns.fuzz.reference import bind, run, run_alone
from tests.campaigns.fuzz.sample import Sample
from tests.campaigns.fuzz.shrink import Failing

SCRIPT = '''"""{headline}"""

import numpy as np
import tofu  # before MXNet
import mxnet as mx

{operators}{drawn}
symbol = mx.sym.load_json("""{symbol}""")
shapes = {shapes}
values = {values}
requests = {requests}
head_gradients = {heads}


def run(symbol):
    types = {{name: value.dtype for name, value in values.items()}}
    dense = dict.fromkeys(values, "default")
    executor = symbol.simple_bind(mx.cpu(), grad_req=requests, type_dict=types, stype_dict=dense, **shapes)
    for name, value in values.items():
        (executor.arg_dict | executor.aux_dict)[name][:] = value
    gradients = {{name: gradient for name, gradient in executor.grad_dict.items() if gradient is not None}}
    for gradient in gradients.values():
        gradient[:] = 1  # where it is asked for with "add", the gradient is added to it
    executor.forward(is_train=True)
    executor.backward([mx.nd.array(gradient, dtype=gradient.dtype) for gradient in head_gradients])
    outputs = {{f"output {{n}}": output.asnumpy() for n, output in enumerate(executor.outputs)}}
    return {{**outputs, **{{f"gradient of {{name}}": gradient.asnumpy() for name, gradient in gradients.items()}}}}


partitioned = tofu.partition(symbol, {workers}, cache=False{asked})
found = run(partitioned)
{expected}
print(f"{{partitioned.plan.communication_bytes:,}} bytes planned")
for name in found.keys() & expected.keys():
    value = expected[name]
    print(f"{{name}}: off by {{abs(found[name] - value).max(initial=0.0):.3g}}, of {{abs(value).max(initial=0.0):.3g}}")
'''


def write_script(failing: Failing) -> str:
    """The program; it prints how far every result is off."""
    sample, failure = failing.sample, failing.failure
    return SCRIPT.format(
        headline=f"{failure.kind}: {failure.message.splitlines()[0]}".replace("\\", "/").replace('"""', "'''"),
        operators=_list_operators(sample),
        drawn="\n# Drawn numbers, and what follows from them, are others on one device." if sample.relations else "",
        symbol=json.dumps(json.loads(sample.symbol.tojson())).replace("\\", "\\\\"),
        shapes=dict(sample.shapes),
        values=_format_arrays(sample.values),
        requests=dict(sample.requests),
        heads=f"[{', '.join(_format(head) for head in sample.head_gradients)}]",
        workers=failure.workers,
        asked="".join(f", {name}={pformat(value, width=120)}" for name, value in failure.asked.items()),
        expected=_find_expected(sample),
    )


def _list_operators(sample: Sample) -> str:
    """One comment for each operator."""
    nodes = json.loads(sample.symbol.tojson())["nodes"]
    lines = []
    for node in nodes:
        if node["op"] != "null":
            inputs = ", ".join(
                nodes[entry[0]]["name"] + (f"[{entry[1]}]" if entry[1] else "") for entry in node["inputs"]
            )
            given = ", ".join(f"{name}={value}" for name, value in node.get("attrs", {}).items())
            lines.append(f"# {node['name']} = {node['op']}({inputs}; {given})")
    return "\n".join(lines)


def _find_expected(sample: Sample) -> str:
    """One device's run, where that one is right; else the numbers themselves."""
    right = run_alone(sample)
    alone, _ = run(sample, bind(sample, sample.symbol, sample.requests), steps=1, is_scored=False)
    if not find_differences(sample, alone, right):
        return "expected = run(symbol)"
    first = {name.split(",")[0]: value for name, value in right.items() if name.endswith("step 0")}
    return f"expected = {_format_arrays(first)}  # a single device is wrong itself"


def _format_arrays(arrays) -> str:
    return "{\n" + "".join(f"    {name!r}: {_format(value)},\n" for name, value in arrays.items()) + "}"


def _format(value) -> str:
    return f"np.array({value.tolist()}, {str(value.dtype)!r})"
