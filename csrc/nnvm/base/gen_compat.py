"""Write two libstdc++ headers with the types of GCC 4.8, which built the wheel of MXNet 1.9.1.

    python gen_compat.py CXX OUTPUT_DIRECTORY

`_GLIBCXX_USE_CXX11_ABI=0` restores the strings and lists of that compiler. Two differences remain, which would crash
a plug-in when it is loaded:

    std::function      Its invoker took arguments by value. Now it takes them by rvalue reference.
    std::unordered_*   There was no member `_M_single_bucket`, so objects had 48 bytes. Now they have 56.

The headers are derived from the installed compiler's at build time. If a substitution does not match as often as
stated, the build fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

# (pattern, replacement, number of matches; None: at least one)
Substitution = tuple[str, str, "int | None"]

STD_FUNCTION: list[Substitution] = [
    (
        r"_M_invoke\(const _Any_data& __functor, _ArgTypes&&\.\.\. __args\)",
        "_M_invoke(const _Any_data& __functor, _ArgTypes... __args)",
        None,
    ),
    (r"\(\*\)\(const _Any_data&, _ArgTypes&&\.\.\.\)", "(*)(const _Any_data&, _ArgTypes...)", None),
]

ALLOCATE_ONE = "_M_buckets = __hashtable_alloc::_M_allocate_buckets(1);"
HASHTABLE: list[Substitution] = [
    # The member itself, and the initialiser of `_M_buckets` that points at it.
    (r"_M_buckets\s*= &_M_single_bucket;\n(\s*size_type\s+_M_bucket_count)", rf"{ALLOCATE_ONE}\n\1", 1),
    (r"__node_base_ptr\s+_M_single_bucket\s*= nullptr;", "", 1),
    # Buckets are never the member, and one bucket is allocated like several.
    (r"return __builtin_expect\(__bkts == &_M_single_bucket, false\);", "return false;", 1),
    (r"if \(__builtin_expect\(__bkt_count == 1, false\)\)\s*\{[^}]*\}", "", 1),
    # `_M_reset`, swap and move.
    (r"_M_single_bucket = nullptr;\s*_M_buckets = &_M_single_bucket;", ALLOCATE_ONE, 1),
    (r"std::swap\(_M_single_bucket, __x\._M_single_bucket\);", "", 1),
    (r"_M_single_bucket = __ht\._M_single_bucket;", ";", None),
    (r"(__x\.)?_M_buckets = &(__x\.)?_M_single_bucket;", ";", None),
    # A constructor that asks for more buckets gives back the one it already has.
    (
        r"(if \(__bkt_count > _M_bucket_count\)\s*\{\s*)(_M_buckets = _M_allocate_buckets)",
        r"\1_M_deallocate_buckets(); \2",
        2,
    ),
]

HEADERS: dict[str, list[Substitution]] = {"bits/std_function.h": STD_FUNCTION, "bits/hashtable.h": HASHTABLE}


def list_include_directories(compiler: str) -> list[Path]:
    """Return the directories in which `compiler` searches standard headers, in order."""
    command = [compiler, "-E", "-x", "c++", "-v", "/dev/null"]
    environment = {**os.environ, "LC_ALL": "C"}  # for the English line below
    log = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stderr
    listed = log.split("#include <...> search starts here:")[1].split("End of search list.")[0]
    return [Path(line.strip()) for line in listed.splitlines() if line.strip()]


def derive_header(name: str, text: str) -> str:
    """Return the text of the compiler's header with all substitutions of HEADERS[name]."""
    for pattern, replacement, expected in HEADERS[name]:
        text, count = re.subn(pattern, replacement, text)
        if count == 0 or (expected is not None and count != expected):
            sys.exit(
                f"gen_compat.py: {name} of this compiler has an unknown shape: {pattern!r} was found {count} times, "
                f"not {expected or 'at least once'}. Tofu builds with the libstdc++ of GCC 12 (set CXX=g++-12)."
            )
    code = re.sub(r"//.*", "", text)
    if "_M_single_bucket" in code:
        sys.exit(f"gen_compat.py: {name} of this compiler uses _M_single_bucket in an unknown place. Set CXX=g++-12.")
    return text


def main(compiler: str, output: str) -> None:
    directories = list_include_directories(compiler)
    for name in HEADERS:
        source = next((d / name for d in directories if (d / name).exists()), None)
        if source is None:
            sys.exit(f"gen_compat.py: {compiler} has no {name}: Tofu needs libstdc++, the library of g++")
        target = Path(output, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(derive_header(name, source.read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:3])
