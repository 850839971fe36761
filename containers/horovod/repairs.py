"""What Horovod 0.28.1 needs to build with today's compilers and frameworks, and to be right with them."""

from change import Change, Edit

KERAS_3 = """\
    if not any(hasattr(optimizer, name) for name in
               ('_aggregate_gradients', 'aggregate_gradients', '_compute_gradients')):
        raise RuntimeError(
            "Horovod's DistributedOptimizer cannot average the gradients of a Keras 3 optimizer: every "
            "rank would train a model of its own. Set TF_USE_LEGACY_KERAS=1 before TensorFlow is "
            "imported (with tf-keras installed), or use horovod.tensorflow.DistributedGradientTape in "
            "a loop of your own.")
"""

STREAM_HEADER = "#endif // TENSORFLOW_VERSION >= 2011000000\n#endif // HAVE_GPU\n"

STREAM_VALUE = """\
namespace stream_executor::gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
} // namespace stream_executor::gpu
"""

GLOO_DEVICE = "  auto dev = CreateDevice(device_attr);\n\n  global_ctx = global_context.ctx;\n"

OPTIMIZER = "    class _DistributedOptimizer(*optimizer.__class__.__bases__):\n"

CHANGES = (
    Change(
        "the headers of PyTorch 2 and TensorFlow 2 need C++17",
        Edit(
            "CMakeLists.txt",
            "set(CMAKE_CXX_STANDARD 14)",
            "set(CMAKE_CXX_STANDARD 17)",
        ),
        Edit(
            "horovod/torch/CMakeLists.txt",
            "set(CMAKE_CXX_STANDARD 14)",
            "set(CMAKE_CXX_STANDARD 17)",
        ),
    ),
    Change(
        "C++17 for CUDA, too: current compilers know no older standard",
        Edit(
            "horovod/common/ops/cuda/CMakeLists.txt",
            "set(CMAKE_CUDA_STANDARD 11)",
            "set(CMAKE_CUDA_STANDARD 17)",
        ),
    ),
    Change(
        "it names std::logic_error: the headers of GCC 13 and newer no longer bring what they do not use",
        Edit(
            "horovod/common/common.h",
            "#include <memory>\n",
            "#include <memory>\n#include <stdexcept>\n",
        ),
    ),
    Change(
        "it names std::string, likewise",
        Edit(
            "horovod/common/group_table.h",
            "#include <queue>\n",
            "#include <queue>\n#include <string>\n",
        ),
    ),
    Change(
        "a member that is assigned to is not const: GCC 14 refuses it even where nobody assigns",
        Edit(
            "third_party/flatbuffers/include/flatbuffers/stl_emulation.h",
            "  const size_type count_;\n",
            "  size_type count_;\n",
        ),
    ),
    Change(
        "CMake 4 no longer reads what was written for a CMake before 3.5",
        Edit(
            "third_party/gloo/CMakeLists.txt",
            "cmake_minimum_required(VERSION 2.8.12 FATAL_ERROR)",
            "cmake_minimum_required(VERSION 3.5 FATAL_ERROR)",
        ),
    ),
    Change(
        "process set 0 obeys HOROVOD_GLOO_IFACE as the others do; without this, jobs of several nodes "
        "take whatever interface the host's name leads to",
        Edit(
            "horovod/common/gloo/gloo_context.cc",
            GLOO_DEVICE,
            "  device_attr.iface = global_context.gloo_iface_;\n" + GLOO_DEVICE,
        ),
    ),
    Change(
        "the list of ranks gets its size, not only room for it: it stayed empty, so over Gloo the stall "
        "check found no rank missing and never warned",
        Edit(
            "horovod/common/gloo/gloo_controller.cc",
            "global_ranks_.reserve(size_);",
            "global_ranks_.resize(size_);",
        ),
    ),
    Change(
        "the operations inside of XLA are left out: current TensorFlow ships no headers for them",
        Edit(
            "horovod/tensorflow/CMakeLists.txt",
            'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
            "",
        ),
    ),
    Change(
        "a GPU's stream is asked for its handle: TensorFlow no longer exports the function that did so",
        Edit(
            "horovod/tensorflow/mpi_ops.cc",
            STREAM_HEADER,
            STREAM_HEADER.replace("#endif // HAVE_GPU\n", STREAM_VALUE + "#endif // HAVE_GPU\n"),
        ),
    ),
    Change(
        "the backend of the Keras that TensorFlow uses, instead of another one that is installed, too",
        Edit(
            "horovod/tensorflow/keras/__init__.py",
            "from keras import backend as K",
            "from tensorflow.keras import backend as K",
        ),
        Edit(
            "horovod/tensorflow/keras/callbacks.py",
            "from keras import backend as K",
            "from tensorflow.keras import backend as K",
        ),
    ),
    Change(
        "an optimizer of Keras 3 is refused: its gradients were never averaged, without a word",
        Edit(
            "horovod/_keras/__init__.py",
            OPTIMIZER,
            KERAS_3 + OPTIMIZER,
        ),
    ),
)
