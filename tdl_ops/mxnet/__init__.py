"""Descriptions of MXNet's operators, with a file for each family of operators.

A file is imported when one of its operators is first needed. For a new operator, add a description here, and a case in
the file of the same name in `cases/`.
"""

from tdl_ops.mxnet.attributes import format_attribute, parse_attribute
from tofu.tdl import Registry

DESCRIPTIONS = Registry(__name__, parse_attribute, format_attribute, "@tofu.op")
op = DESCRIPTIONS.op
