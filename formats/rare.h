// A value that few objects of a kind have: a list that is empty in most models.
#pragma once

#include <memory>

namespace weightfs {

/// A T that takes eight bytes until it is edited. Until then it reads as T().
template <class T>
class Rare {
 public:
  const T& operator*() const {
    static const T kDefault{};
    return value_ == nullptr ? kDefault : *value_;
  }
  const T* operator->() const { return &**this; }

  bool is_set() const { return value_ != nullptr; }  ///< whether it was edited

  T& edit() {
    if (value_ == nullptr) value_ = std::make_unique<T>();
    return *value_;
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace weightfs
