// An owned file descriptor, closed by the destructor.
#pragma once

#include <unistd.h>

#include <memory>
#include <utility>

namespace weightfs {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  /// Releases the descriptor: the caller has to close it.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

using SharedDescriptor = std::shared_ptr<const Descriptor>;

}  // namespace weightfs
