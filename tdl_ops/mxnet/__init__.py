"""Descriptions of MXNet's operators, with a file for each family of operators.

A description is registered at the first lookup. A new operator needs one description here, and one case in the file of
the same name in `cases/`.
"""

from tdl_ops.mxnet.attributes import format_attribute, parse_attribute
from tofu.tdl import Registry

DESCRIPTIONS = Registry(__name__, parse_attribute, format_attribute, "@tofu.op")
op = DESCRIPTIONS.op
