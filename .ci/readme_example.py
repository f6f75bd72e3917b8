"""Print the first Python example of README.md that imports a module: `python .ci/readme_example.py tofu.jax`."""

import re
import sys
from pathlib import Path

readme = (Path(__file__).parents[1] / "README.md").read_text()
blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
print(next(block for block in blocks if re.search(rf"^import {re.escape(sys.argv[1])}\b", block, re.MULTILINE)))
