// The names of cached files in listings of the cache: what they were read for.
#pragma once

#include <fmt/core.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/store/blob_backend.h"

namespace weightfs::blobs {

/// Thread-safe.
class BlobNames {
 public:
  /// `model` is that which this process reads; empty if it reads several.
  BlobNames(store::BlobBackendPtr backend, std::string model)
      : backend_(std::move(backend)), model_(std::move(model)) {}

  /// Adds names, and that of the model, to those of a cached blob, by its digest, or of the cached blocks of an
  /// identity. A failure has no effect.
  template <class File>
  void add(const File& file, std::vector<Name> names) const noexcept {
    std::ignore = exceptions_to_errors([&]() -> Result<void> {
      if (!model_.empty()) names.insert(names.begin(), {NameKind::model, model_});
      backend_->add_names(file, names);
      return {};
    });
  }
  /// Adds the model, and the path of the member, to the names of a decoded blob.
  void add_member(const Digest& blob, const std::string& member) const noexcept {
    std::ignore = exceptions_to_errors([&]() -> Result<void> {
      add(blob, {{NameKind::member, model_.empty() ? member : fmt::format("{}: {}", model_, member)}});
      return {};
    });
  }

 private:
  store::BlobBackendPtr backend_;
  std::string model_;
};

}  // namespace weightfs::blobs
