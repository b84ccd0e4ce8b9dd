#include "base/cancel.h"

#include <utility>

namespace weightfs {
namespace {

thread_local const CancelScope* innermost = nullptr;

}  // namespace

CancelScope::CancelScope(std::function<bool()> cancelled)
    : cancelled_(std::move(cancelled)), outer_(std::exchange(innermost, this)) {}

CancelScope::~CancelScope() { innermost = outer_; }

bool is_cancelled() {
  for (const CancelScope* scope = innermost; scope != nullptr; scope = scope->outer_)
    if (scope->cancelled_()) return true;
  return false;
}

bool is_cancellable() { return innermost != nullptr; }

}  // namespace weightfs
