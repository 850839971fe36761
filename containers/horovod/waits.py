"""How ranks wait: a core is left to those that compute, where there are no more cores than ranks."""

from change import Change, Edit

QUEUE_MEMBERS = """\
  void WaitForTensor(std::chrono::milliseconds longest);

  void Wake();

protected:
  std::condition_variable filled_;

  bool woken_ = false;

"""

QUEUE_WAIT = """\
// Wait until there is a tensor, somebody calls Wake, or the time is over.
void TensorQueue::WaitForTensor(std::chrono::milliseconds longest) {
  std::unique_lock<std::mutex> lock(mutex_);
  filled_.wait_for(lock, longest, [this] { return woken_ || !tensor_table_.empty(); });
  woken_ = false;
}

void TensorQueue::Wake() {
  std::lock_guard<std::mutex> guard(mutex_);
  woken_ = true;
  filled_.notify_one();
}

"""

POP = "// Pop out all the messages from the queue\n"

CYCLE = "  state.last_cycle_start = std::chrono::steady_clock::now();\n\n  if (state.mark"

# Others need cycles of a rank that has nothing itself in sets that it is not in.
CYCLE_WAIT = """\
  if (!state.shut_down && state.process_set_table.Ids().size() == 1) {
    state.process_set_table.Get(0).tensor_queue.WaitForTensor(
        std::chrono::milliseconds(100));
  }
"""

SHUT_DOWN = "    horovod_global.shut_down = true;\n"
WAKE = "    horovod_global.process_set_table.Get(0).tensor_queue.Wake();\n"

PUSHED = "  message_queue_.push(std::move(message));\n  return Status::OK();\n"
ALL_PUSHED = "    message_queue_.push(std::move(messages[i]));\n  }\n"

HANDLE_WAIT = """\
// Wait until the handle is done, or no longer known.
void HandleManager::WaitHandle(int handle) {
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this, handle] {
    auto found = results_.find(handle);
    return found == results_.end() || found->second != nullptr;
  });
}

"""

RELEASE = "std::shared_ptr<Status> HandleManager::ReleaseHandle(int handle) {\n"

SPIN = """\
  while (true) {
    if (handle_manager.PollHandle(handle)) break;
    {
      py::gil_scoped_release release_python_gil;
      std::this_thread::yield();
    }
  }
"""

WAIT = """\
  {
    py::gil_scoped_release release_python_gil;
    handle_manager.WaitHandle(handle);
  }
"""

DONE = "  results_[handle] = std::make_shared<Status>(status);\n"
CLEARED = "  results_.clear();\n"
NOTIFY = "  done_.notify_all();\n"

LOOP = "third_party/gloo/gloo/transport/tcp/loop.cc"
TICK = "    cv_.notify_all();\n"
# The lock is free once who waits for the tick does wait, so none is missed.
HEARD_TICK = """\
    {
      std::lock_guard<std::mutex> guard(m_);
    }
    cv_.notify_all();
"""

CHANGES = (
    Change(
        "a rank without anything to exchange rests until it has something or ends, or for a tenth of a "
        "second: it asked all others every millisecond, which took a seventh of what two ranks on two "
        "cores computed",
        Edit("horovod/common/operations.cc", CYCLE, CYCLE_WAIT + CYCLE),
        Edit("horovod/common/operations.cc", SHUT_DOWN, SHUT_DOWN + WAKE),
        Edit(
            "horovod/common/tensor_queue.h",
            "#include <iostream>\n",
            "#include <chrono>\n#include <condition_variable>\n#include <iostream>\n",
        ),
        Edit(
            "horovod/common/tensor_queue.h",
            "  void RemoveJoinTensor();\n\nprotected:\n",
            "  void RemoveJoinTensor();\n\n" + QUEUE_MEMBERS,
        ),
        Edit("horovod/common/tensor_queue.cc", POP, QUEUE_WAIT + POP),
        Edit(
            "horovod/common/tensor_queue.cc",
            PUSHED,
            PUSHED.replace("  return", "  filled_.notify_one();\n  return"),
        ),
        Edit(
            "horovod/common/tensor_queue.cc",
            ALL_PUSHED,
            ALL_PUSHED + "  filled_.notify_one();\n",
        ),
    ),
    Change(
        "a rank that waits for its exchange sleeps: it asked again and again, and took the core from the "
        "thread that exchanges",
        Edit("horovod/torch/mpi_ops_v2.cc", SPIN, WAIT),
        Edit(
            "horovod/torch/handle_manager.h",
            "#include <atomic>\n",
            "#include <atomic>\n#include <condition_variable>\n",
        ),
        Edit(
            "horovod/torch/handle_manager.h",
            "  bool PollHandle(int handle);\n",
            "  bool PollHandle(int handle);\n  void WaitHandle(int handle);\n",
        ),
        Edit(
            "horovod/torch/handle_manager.h",
            "private:\n",
            "private:\n  std::condition_variable done_;\n",
        ),
        Edit("horovod/torch/handle_manager.cc", RELEASE, HANDLE_WAIT + RELEASE),
        Edit("horovod/torch/handle_manager.cc", DONE, DONE + NOTIFY),
        Edit("horovod/torch/handle_manager.cc", CLEARED, CLEARED + NOTIFY),
    ),
    Change(
        "Gloo's thread lets run who holds what it needs: it tried again and again, on a core that they "
        "share for as long as its time slice",
        Edit(
            "third_party/gloo/gloo/transport/tcp/pair.cc",
            "#include <sstream>\n",
            "#include <sstream>\n#include <thread>\n",
        ),
        Edit(
            "third_party/gloo/gloo/transport/tcp/pair.cc",
            "  if (!lock) {\n",
            "  if (!lock) {\n    std::this_thread::yield();\n",
        ),
    ),
    Change(
        "Gloo's threads, two a rank, wake when there is something to do, and not a hundred times a second: "
        "below proot that took two hundredths of a core",
        Edit(LOOP, "events.size(), 10);\n", "events.size(), 1000);\n"),
        Edit(LOOP, TICK, HEARD_TICK),
        Edit(LOOP, "    cv_.wait(lock);\n", "    defer([] {});\n    cv_.wait(lock);\n"),
        Edit(LOOP, "    done_ = true;\n", "    done_ = true;\n    defer([] {});\n"),
    ),
)
