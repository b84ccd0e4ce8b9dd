#pragma once
// Whether the program has a sanitizer's runtime, which tests find out at run time: they are compiled without
// sanitizers.

extern "C" void __asan_init() __attribute__((weak));
extern "C" void __tsan_init() __attribute__((weak));

namespace weightfs::test {

/// Whether the program is linked with AddressSanitizer or ThreadSanitizer.
inline bool sanitized() { return __asan_init != nullptr || __tsan_init != nullptr; }

}  // namespace weightfs::test
