# tofu._mxnet: compiled with the headers, library and ABI of the installed MXNet. An isolated build cannot import MXNet; then it is
# searched in the environment that Tofu is installed into.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u, sysconfig
spec = u.find_spec('mxnet')
print(spec.submodule_search_locations[0] if spec else sysconfig.get_path('purelib') + '/mxnet')"
  OUTPUT_VARIABLE MXNET_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS "${MXNET_DIR}/libmxnet.so")
  message(NOTICE "MXNet is not installed for ${Python_EXECUTABLE}: tofu._mxnet is left out")
  return()
endif()

# The CUDA variant, mxnet-cu112, also needs the headers of CUDA, which are in the packages nvidia-*-cu11.
execute_process(COMMAND ${CMAKE_READELF} -d ${MXNET_DIR}/libmxnet.so OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
if(needed MATCHES "libcudart")
  file(GLOB cuda_includes ${MXNET_DIR}/../nvidia/*/include)
  if(NOT cuda_includes)
    message(FATAL_ERROR "The installed MXNet is for CUDA, but the headers of CUDA are missing: see README.md, MXNet for CUDA")
  endif()
  set(mxnet_flavour MXNET_USE_CUDA=1 MSHADOW_USE_CUDA=1 MXNET_USE_CUDNN=1 MSHADOW_USE_CUDNN=1
      MSHADOW_USE_CBLAS=0 MSHADOW_USE_MKL=0)
else()
  set(mxnet_flavour MXNET_USE_CUDA=0 MSHADOW_STAND_ALONE=1)  # no cblas.h
endif()

set(compat_dir ${CMAKE_BINARY_DIR}/compat)
set(compat_headers ${compat_dir}/bits/std_function.h ${compat_dir}/bits/hashtable.h)
add_custom_command(
  OUTPUT ${compat_headers}
  COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/csrc/nnvm/base/gen_compat.py ${CMAKE_CXX_COMPILER} ${compat_dir}
  DEPENDS ${CMAKE_SOURCE_DIR}/csrc/nnvm/base/gen_compat.py VERBATIM)
add_custom_target(compat_headers DEPENDS ${compat_headers})
file(MAKE_DIRECTORY ${compat_dir})  # include directories of imported libraries must exist

find_package(OpenMP REQUIRED COMPONENTS CXX)
file(GLOB mxnet_sources CONFIGURE_DEPENDS csrc/nnvm/*/*.cc csrc/cuda/*.cc)
add_shareable_library(tofu_mxnet ${mxnet_sources} ${kernel_sources})
target_include_directories(tofu_mxnet_usage BEFORE INTERFACE ${compat_dir})
target_include_directories(tofu_mxnet_usage INTERFACE csrc)
target_include_directories(tofu_mxnet_usage SYSTEM INTERFACE ${MXNET_DIR}/include ${MXNET_DIR}/include/mkldnn ${cuda_includes})
target_compile_definitions(tofu_mxnet_usage INTERFACE
  _GLIBCXX_USE_CXX11_ABI=0        # std::string and std::list of GCC 4.8
  MXNET_USE_MKLDNN=1              # a member of NDArray::Chunk depends on it
  MXNET_USE_OPENMP=1
  ${mxnet_flavour}
  MSHADOW_USE_F16C=0
  MSHADOW_INT64_TENSOR_SIZE=0
  DMLC_LOG_FATAL_THROW=1          # CHECK throws exceptions, as in libmxnet.so
)
target_compile_options(tofu_mxnet_usage INTERFACE -Wno-deprecated-declarations -Wno-attributes -Wno-unused-parameter
  -ffp-contract=off  # equal results on all processors
  -Wno-maybe-uninitialized)  # false positives of GCC 12 for short TShapes
target_link_libraries(tofu_mxnet_usage INTERFACE OpenMP::OpenMP_CXX ${CMAKE_DL_LIBS})
if(NOT TOFU_LIBRARIES)
  add_dependencies(tofu_mxnet compat_headers)
  target_precompile_headers(tofu_mxnet PRIVATE csrc/nnvm/base/mxnet_api.h)
endif()

file(GLOB mxnet_bindings CONFIGURE_DEPENDS csrc/bindings/mxnet_*.cc)
pybind11_add_module(_mxnet MODULE NO_EXTRAS ${mxnet_bindings})
compile_together(_mxnet 8)
add_dependencies(_mxnet compat_headers)
target_compile_definitions(_mxnet PRIVATE PYBIND11_BUILD_ABI="_tofu_gcc48")  # no other module has this ABI, so pybind11 shares no tables with others
# Link all objects: operators register themselves, and nothing refers to them.
target_link_libraries(_mxnet PRIVATE -Wl,--whole-archive tofu_mxnet -Wl,--no-whole-archive)
# No rpath: `import mxnet` has loaded the library before, and the loader finds it by its SONAME.
target_link_options(_mxnet PRIVATE -Wl,--no-as-needed -L${MXNET_DIR})
target_link_libraries(_mxnet PRIVATE -l:libmxnet.so)
set_target_properties(_mxnet PROPERTIES SKIP_BUILD_RPATH TRUE)
hide_symbols(_mxnet)
add_dependencies(modules _mxnet)
install(TARGETS _mxnet LIBRARY DESTINATION tofu COMPONENT modules)
