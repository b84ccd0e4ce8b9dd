#include "tests/support/lock_count.h"

#include <dlfcn.h>
#include <pthread.h>

namespace {

thread_local uint64_t locks = 0;  // taken by this thread

}  // namespace

#ifndef __SANITIZE_THREAD__
// Counts the calls of the function of the C library.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int(pthread_mutex_t*);
  static const auto lock = reinterpret_cast<Lock*>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++locks;
  return lock(mutex);
}
#endif

namespace weightfs::test {

uint64_t locks_taken() { return locks; }

}  // namespace weightfs::test
