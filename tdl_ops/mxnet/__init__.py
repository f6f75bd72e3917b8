"""The descriptions of MXNet's operators, one family a file.

They are registered when the first of them is looked up. A new operator is one description in one of these files and one case in `cases/`,
in the file of the same name.
"""

from tdl_ops.mxnet.attributes import format_attribute, parse_attribute
from tofu.tdl import Registry

DESCRIPTIONS = Registry(__name__, parse_attribute, format_attribute, "@tofu.op")
op = DESCRIPTIONS.op
