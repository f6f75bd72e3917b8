/*!
 * \file emulation.cc
 */
#include "emulation.h"

#include <ucontext.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "cuda/portable.cuh"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace tofu_test {
namespace {

using tofu::cuda::g_emulated;

constexpr size_t kStackBytes = 256 << 10;

/*! \brief The threads of a block, each with a stack of its own. */
class Block {
 public:
  Block(unsigned threads, const std::function<void()>& kernel) : kernel_(kernel), fibers_(threads) {
    for (Fiber& fiber : fibers_) fiber.stack.reset(new char[kStackBytes]);
  }

  /*! \brief Runs all threads to their end; those that wait go on when all of them wait. */
  void Run() {
    current_block_ = this;
    for (Fiber& fiber : fibers_) Start(&fiber);
    for (bool all_done = false; !all_done;) {
      all_done = true;
      for (unsigned thread = 0; thread < fibers_.size(); ++thread) {
        if (fibers_[thread].done) continue;
        Resume(thread);
        all_done = all_done && fibers_[thread].done;
      }
    }
  }

  /*! \brief What SyncThreads does in a fiber: the others run first. */
  static void Wait() {
    Fiber& fiber = current_block_->fibers_[g_emulated.thread];
    LeaveFor(&fiber.context, &current_block_->scheduler_, &fiber.fake_stack,
             current_block_->scheduler_stack_, current_block_->scheduler_bytes_);
  }

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    void* fake_stack = nullptr;
    bool done = false;
  };

  void Start(Fiber* fiber) {
    fiber->done = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = &scheduler_;
    makecontext(&fiber->context, &Block::Main, 0);
  }

  void Resume(unsigned thread) {
    g_emulated.thread = thread;
    void* fake_stack = nullptr;
    LeaveFor(&scheduler_, &fibers_[thread].context, &fake_stack, fibers_[thread].stack.get(),
             kStackBytes);
  }

  static void Main() {
    Block* block = current_block_;
    block->Arrive(nullptr);
    block->kernel_();
    Fiber& fiber = block->fibers_[g_emulated.thread];
    fiber.done = true;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(nullptr, block->scheduler_stack_, block->scheduler_bytes_);
#endif
  }

  /*! \brief Switches stacks, and says so to the sanitizer. */
  static void LeaveFor(ucontext_t* from, ucontext_t* to, void** fake_stack, const void* stack,
                       size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
    swapcontext(from, to);
#ifdef __SANITIZE_ADDRESS__
    if (from == &current_block_->scheduler_) {
      __sanitizer_finish_switch_fiber(*fake_stack, nullptr, nullptr);
    } else {
      current_block_->Arrive(*fake_stack);
    }
#endif
    static_cast<void>(stack);
    static_cast<void>(bytes);
    static_cast<void>(fake_stack);
  }

  /*! \brief On a fiber's stack after a switch: remembers where the scheduler's is. */
  void Arrive(void* fake_stack) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_bytes_);
#endif
    static_cast<void>(fake_stack);
  }

  static thread_local Block* current_block_;

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_bytes_ = 0;
};

thread_local Block* Block::current_block_ = nullptr;

}  // namespace

void RunThreads(LaunchShape shape, const std::function<void()>& kernel) {
  g_emulated.block_threads = shape.threads;
  g_emulated.num_blocks[0] = shape.blocks;
  g_emulated.num_blocks[1] = shape.blocks_y;
  g_emulated.sync = &Block::Wait;
  std::unique_ptr<Block> block;
  if (shape.threads_wait) block.reset(new Block(shape.threads, kernel));
  for (g_emulated.block[1] = 0; g_emulated.block[1] < shape.blocks_y; ++g_emulated.block[1]) {
    for (g_emulated.block[0] = 0; g_emulated.block[0] < shape.blocks; ++g_emulated.block[0]) {
      if (block != nullptr) {
        block->Run();
        continue;
      }
      for (g_emulated.thread = 0; g_emulated.thread < shape.threads; ++g_emulated.thread) kernel();
    }
  }
}

}  // namespace tofu_test
