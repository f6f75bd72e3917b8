# tofu._mxnet: compiled against the headers and the library of the installed MXNet, with the ABI of the compiler it was built with.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; s = u.find_spec('mxnet'); print(s.submodule_search_locations[0] if s else '')"
  OUTPUT_VARIABLE MXNET_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS "${MXNET_DIR}/libmxnet.so")
  message(NOTICE "MXNet is not installed for ${Python_EXECUTABLE}: tofu._mxnet is left out")
  return()
endif()

# The CUDA flavour, mxnet-cu112, has other headers: those of CUDA are in the nvidia-*-cu11 packages beside it.
execute_process(COMMAND ${CMAKE_READELF} -d ${MXNET_DIR}/libmxnet.so OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
if(needed MATCHES "libcudart")
  file(GLOB cuda_includes ${MXNET_DIR}/../nvidia/*/include)
  if(NOT cuda_includes)
    message(FATAL_ERROR "The installed MXNet is one for CUDA, whose headers are missing: see README.md, MXNet for CUDA")
  endif()
  set(mxnet_flavour MXNET_USE_CUDA=1 MSHADOW_USE_CUDA=1 MXNET_USE_CUDNN=1 MSHADOW_USE_CUDNN=1
      MSHADOW_USE_CBLAS=0 MSHADOW_USE_MKL=0)
else()
  set(mxnet_flavour MXNET_USE_CUDA=0 MSHADOW_STAND_ALONE=1)  # the second: no cblas.h
endif()

set(compat_dir ${CMAKE_BINARY_DIR}/compat)
set(compat_headers ${compat_dir}/bits/std_function.h ${compat_dir}/bits/hashtable.h)
add_custom_command(
  OUTPUT ${compat_headers}
  COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/csrc/nnvm/base/gen_compat.py ${CMAKE_CXX_COMPILER} ${compat_dir}
  DEPENDS ${CMAKE_SOURCE_DIR}/csrc/nnvm/base/gen_compat.py VERBATIM)
add_custom_target(compat_headers DEPENDS ${compat_headers})

find_package(OpenMP REQUIRED COMPONENTS CXX)
file(GLOB mxnet_sources CONFIGURE_DEPENDS csrc/nnvm/*/*.cc csrc/cuda/*.cc csrc/bindings/mxnet_*.cc)
pybind11_add_module(_mxnet MODULE NO_EXTRAS ${mxnet_sources} ${kernel_sources})
add_dependencies(_mxnet compat_headers)
target_include_directories(_mxnet BEFORE PRIVATE ${compat_dir})
target_include_directories(_mxnet PRIVATE csrc)
target_include_directories(_mxnet SYSTEM PRIVATE ${MXNET_DIR}/include ${MXNET_DIR}/include/mkldnn ${cuda_includes})
target_compile_definitions(_mxnet PRIVATE
  _GLIBCXX_USE_CXX11_ABI=0        # std::string and std::list of GCC 4.8
  MXNET_USE_MKLDNN=1              # a member of NDArray::Chunk depends on it
  MXNET_USE_OPENMP=1
  ${mxnet_flavour}
  MSHADOW_USE_F16C=0
  MSHADOW_INT64_TENSOR_SIZE=0
  DMLC_LOG_FATAL_THROW=1          # a failed CHECK is an exception, as in libmxnet.so
  PYBIND11_BUILD_ABI="_tofu_gcc48"  # pybind11 shares its tables between modules of one ABI, and this ABI is nobody else's
)
target_compile_options(_mxnet PRIVATE -Wno-deprecated-declarations -Wno-attributes -Wno-unused-parameter
  -ffp-contract=off  # the same numbers in the vectors of every processor
  -Wno-maybe-uninitialized)  # GCC 12 takes the unused places of a short TShape for values that are read
# No rpath: `import mxnet` comes first, and the loader finds the loaded library by its SONAME.
target_link_options(_mxnet PRIVATE -Wl,--no-as-needed -L${MXNET_DIR})
target_link_libraries(_mxnet PRIVATE -l:libmxnet.so OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})
set_target_properties(_mxnet PROPERTIES SKIP_BUILD_RPATH TRUE)
hide_symbols(_mxnet)
