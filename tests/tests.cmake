# The C++ tests: of csrc/core, and of csrc/cuda over kernels that are compiled as C++ and a driver that runs them.
file(GLOB core_tests CONFIGURE_DEPENDS tests/core/test_*.cc)
foreach(source ${core_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tofu_core)
  add_test(NAME ${name} COMMAND ${name})
endforeach()

file(GLOB cuda_sources CONFIGURE_DEPENDS csrc/cuda/*.cc)
add_library(tofu_cuda STATIC ${cuda_sources} ${kernel_sources} tests/cuda/emulation.cc)
target_include_directories(tofu_cuda PUBLIC csrc)
target_compile_options(tofu_cuda PUBLIC -fno-strict-aliasing)  # a kernel reads bytes as words, as GPUs do
target_link_libraries(tofu_cuda PUBLIC ${CMAKE_DL_LIBS})

add_library(emulated_gpu MODULE tests/cuda/emulated_driver.cc tests/cuda/emulation.cc)
target_include_directories(emulated_gpu PRIVATE csrc)
target_compile_options(emulated_gpu PRIVATE -fno-strict-aliasing -fvisibility=default)

file(GLOB cuda_tests CONFIGURE_DEPENDS tests/cuda/test_*.cc)
foreach(source ${cuda_tests})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE tofu_cuda)
  add_dependencies(${name} emulated_gpu)
  add_test(NAME ${name} COMMAND ${name})
endforeach()

# The program that checks every kernel on a GPU finds its kernels on the CPU by name.
add_executable(gpu_parts tests/cuda/gpu_parts.cc tests/cuda/gpu_fetches.cc)
set_target_properties(gpu_parts PROPERTIES ENABLE_EXPORTS ON)
target_compile_options(gpu_parts PRIVATE -fno-strict-aliasing -fvisibility=default)
target_link_libraries(gpu_parts PRIVATE tofu_cuda)
add_dependencies(gpu_parts emulated_gpu)
add_test(NAME gpu_parts COMMAND gpu_parts check --few)
set_tests_properties(gpu_parts PROPERTIES TIMEOUT 600)

foreach(source ${cuda_tests} gpu_parts)
  get_filename_component(name ${source} NAME_WE)
  set(emulated "$<TARGET_FILE:emulated_gpu>")
  set_tests_properties(${name} PROPERTIES ENVIRONMENT
    "TOFU_CUDA_DRIVER=${emulated};TOFU_NVRTC=${emulated};TOFU_KERNEL_CACHE=${CMAKE_BINARY_DIR}/kernels")
endforeach()
