#include "fs/http/entity.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>

namespace weightfs::httpd {
namespace {

constexpr size_t kTagDigits = 32;
constexpr size_t kMaxModels = 64;
constexpr size_t kMaxIdentified = 10'000;  // parts of a model without tensors

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
  std::string identity = source.identity();
  if (identity.empty()) {
    const ModelPtr model = forest_.model_of(ino);
    identity =
        fmt::format("{} {} {}", model == nullptr ? process_ : identity_of(model), forest_.path(ino), source.size());
  }
  return tag(std::string_view(sha256(fmt::format("{} {}", layout_, identity)).hex()).substr(0, kTagDigits));
}

// A hash of the identities of its files.
std::string EntityTags::identity_of(const ModelPtr& model) const {
  {
    const std::scoped_lock lock(mutex_);
    for (auto known = models_.begin(); known != models_.end(); ++known) {
      if (known->first.lock() != model) continue;
      models_.splice(models_.begin(), models_, known);
      return known->second;
    }
  }
  std::string files;
  const Source* last = nullptr;
  const auto add = [&](const Source& bytes) {
    const std::string identity = bytes.identity();
    files += (identity.empty() ? process_ : identity) + "\n";
  };
  for (size_t i = 0; i < model->tensors.size(); ++i) {
    const Slice& slice = model->tensors[i].source;
    if (slice.refused() || slice.whole().get() == last) continue;
    last = slice.whole().get();
    add(*last);
  }
  for (size_t i = 0; last == nullptr && i < std::min(model->parts.size(), kMaxIdentified); ++i)
    if (const auto bytes = model->parts[i].source.peek()) add(**bytes);
  if (files.empty()) files = process_;
  std::string identity = sha256(files).hex();
  const std::scoped_lock lock(mutex_);
  models_.emplace_front(model, identity);
  if (models_.size() > kMaxModels) models_.pop_back();
  return identity;
}

}  // namespace weightfs::httpd
