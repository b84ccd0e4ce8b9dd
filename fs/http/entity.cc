#include "fs/http/entity.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>

#include "fs/tree/listing.h"

namespace weightfs::httpd {
namespace {

constexpr size_t kTagDigits = 32;

std::string random_text() {
  std::array<unsigned char, 16> bytes{};
  (void)!::getrandom(bytes.data(), bytes.size(), 0);
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string tag(std::string_view digits) { return fmt::format("\"{}\"", digits); }

}  // namespace

EntityTags::EntityTags(const Forest& forest, std::string layout)
    : forest_(forest), layout_(std::move(layout)), process_(random_text()) {}

std::string EntityTags::tag_of(Ino ino, const Source& source, const std::optional<Digest>& digest) const {
  if (digest) return tag(digest->hex());
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = known_.find(ino); known != known_.end()) return known->second;
  }
  const Digest hash = sha256(fmt::format("{} {}", layout_, identity_of(ino, source)));
  const std::string made = tag(std::string_view(hash.hex()).substr(0, kTagDigits));
  const std::scoped_lock lock(mutex_);
  if (known_.size() >= kMaxKnown) known_.clear();
  return known_.emplace(ino, made).first->second;
}

std::string EntityTags::identity_of(Ino ino, const Source& source) const {
  if (const std::string identity = source.identity(); !identity.empty()) return identity;
  const std::string path = forest_.path(ino);
  if (const auto ref = forest_.tensor_of(ino)) {
    const TensorView tensor = ref->model->tensors[ref->index];
    const std::string identity = tensor.source.identity();
    // The directory of the view is in the path.
    if (!identity.empty())
      return fmt::format("{} {} {} {} {}", identity, dtype_text(tensor), shape_text(tensor.shape), path, source.size());
  }
  return fmt::format("{} {} {} {}", process_, ino, path, source.size());
}

}  // namespace weightfs::httpd
