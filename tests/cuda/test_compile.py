"""The kernels compile with NVRTC for each supported generation of GPUs and a later one, without a GPU."""

import ctypes
import importlib.util
import locale
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cuda import native

GENERATIONS = (50, 60, 70, 80, 90)
TYPES = ("float32", "float64", "bfloat16", "uint8", "int8", "int32", "int64", "bool")
PARTS = {
    path.name: re.findall(r"TOFU_PART\((\w+),", path.read_text())
    for path in sorted((native.ROOT / "csrc/cuda").glob("*.cu"))
    if path.name != "multi_fetch.cu"
}
assert all(PARTS.values()), "a file without kernels would pass every test"


def find_nvrtc() -> Path | None:
    if given := os.environ.get("TOFU_NVRTC"):
        return Path(given)
    for package in ("nvidia.cuda_nvrtc", "nvidia.cu13"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:  # not even `nvidia`
            return None
        for folder in (found.submodule_search_locations or []) if found else []:
            for path in sorted(Path(folder, "lib").glob("libnvrtc.so*")):
                return path
    return None


def list_generations(nvrtc: Path) -> list[int]:
    library, count = ctypes.CDLL(str(nvrtc)), ctypes.c_int()
    assert library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
    generations = (ctypes.c_int * count.value)()
    assert library.nvrtcGetSupportedArchs(generations) == 0
    return list(generations)


@pytest.fixture(scope="module")
def compile_kernels(tmp_path_factory):
    nvrtc = find_nvrtc()
    if nvrtc is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu11")
    # A copy, because the library keeps the NVRTC that it found first.
    library = tmp_path_factory.mktemp("library") / "tofu_cuda.so"
    shutil.copy(native.build_cuda_library(), library)
    functions = ctypes.CDLL(str(library))
    functions.TofuCudaError.restype = ctypes.c_char_p

    oldest = min(list_generations(nvrtc))

    def compile_file(file, dtype, generation, as_ptx=False):
        if generation < oldest:
            pytest.skip(f"{nvrtc.name} knows no compute capability before {oldest / 10}, so not {generation / 10}")
        image, size = ctypes.c_void_p(), ctypes.c_size_t()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TOFU_NVRTC", str(nvrtc))
            status = functions.TofuCudaCompile(
                file.encode(), dtype.encode(), generation, int(as_ptx), ctypes.byref(image), ctypes.byref(size)
            )
        assert status == 0, functions.TofuCudaError().decode()
        return ctypes.string_at(image, size.value)

    return compile_file


def test_the_locale_of_the_process_stays(compile_kernels):
    """NVRTC changes the locale. Python would then read text files as ASCII."""
    before = locale.setlocale(locale.LC_ALL), locale.nl_langinfo(locale.CODESET)
    compile_kernels("multi_fetch.cu", "float32", 70)
    assert (locale.setlocale(locale.LC_ALL), locale.nl_langinfo(locale.CODESET)) == before


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "generation"), [(dtype, GENERATIONS[i % 5]) for i, dtype in enumerate(TYPES)])
def test_fetches_compile_for_every_type(compile_kernels, dtype, generation):
    assert f"tofu_multi_fetch_{dtype}".encode() in compile_kernels("multi_fetch.cu", dtype, generation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "dtype", "generation"),
    [
        (file, dtype, GENERATIONS[(i + j) % 5])
        for i, file in enumerate(PARTS)
        for j, dtype in enumerate(("float16", ("float32", "float64")[i % 2]))
    ],
)
def test_parts_compile(compile_kernels, file, dtype, generation):
    code = compile_kernels(file, dtype, generation)
    assert all(f"{kernel}_{dtype}".encode() in code for kernel in PARTS[file])


def test_fetches_use_wide_instructions(compile_kernels):
    """One instruction moves 16, 8 or 4 bytes."""
    ptx = compile_kernels("multi_fetch.cu", "float32", 80, as_ptx=True).decode()
    for access in ("ld", "st"):
        for width in (r"v4\.[uf]32", r"v2\.[uf]32", r"[uf]32"):
            assert re.search(rf"{access}\.global\.{width}", ptx)
    assert not re.search(r"(ld|st)\.global\.[us](8|16)", ptx)
    assert not re.search(r"(ld|st)\.local|\.local \.align", ptx)
    assert "div." not in ptx
    assert "rem." not in ptx


def test_an_unknown_generation_gets_ptx_of_the_newest_known(compile_kernels):
    target = re.search(rb"\.target sm_(\d+)", compile_kernels("multi_fetch.cu", "float32", 990))
    assert target is not None
    assert 90 <= int(target[1]) < 990
