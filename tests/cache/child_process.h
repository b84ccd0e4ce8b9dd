// Child processes for tests of shared state. They are forked while the test has a single thread.
#pragma once

#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <new>

namespace weightfs::test {

/// Counters and semaphores in shared memory.
struct Shared {
  std::atomic<int> starts = 0;
  std::atomic<int> others = 0;
  sem_t first;
  sem_t second;
  sem_t third;

  Shared() {
    for (sem_t* signal : {&first, &second, &third}) ::sem_init(signal, /*pshared=*/1, 0);
  }
};

inline std::unique_ptr<Shared, void (*)(Shared*)> shared_memory() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return {new (memory) Shared, [](Shared* shared) { ::munmap(shared, sizeof(Shared)); }};
}

inline void wait_for(sem_t& signal) {
  while (::sem_wait(&signal) != 0 && errno == EINTR) {
  }
}

/// A process that runs `work` and exits with its result; killed by the destructor.
class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(work());
  }
  ~Child() {
    if (pid_ > 0) {
      kill();
      wait();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const { ::kill(pid_, SIGKILL); }
  /// Waits until the process has stopped itself, and continues it.
  void resume() const {
    int status = 0;
    while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
    ::kill(pid_, SIGCONT);
  }
  /// The exit status; 128 plus the signal for a killed process.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

}  // namespace weightfs::test
