#include "cache/blobs/local_copies.h"

#include <sys/stat.h>

#include "base/cancel.h"
#include "base/text.h"

namespace weightfs {
namespace {

// That a file holds a blob is remembered when to compute its digest takes a while.
constexpr uint64_t kWorthRemembering = 4 << 20;

constexpr size_t kStep = 1 << 20;

Result<Digest> digest_of(Store& store, const Source& bytes) {
  Sha256 hash;
  std::vector<std::byte> buffer(kStep);
  for (uint64_t offset = 0; offset < bytes.size();) {
    TRY_VOID(store.go_on());
    if (is_cancelled()) return failure(Code::resource, "cancelled");
    const size_t got = TRY(bytes.read(offset, buffer));
    if (got == 0) return failure(Code::io, "the file ended before its size");
    hash.update(std::span(buffer).first(got));
    offset += got;
  }
  return hash.finish();
}

// Under which the digest of that very file is noted; empty when it is not.
std::string key_of(const Source& bytes) {
  const std::string identity = bytes.size() < kWorthRemembering ? "" : bytes.identity();
  return identity.empty() ? "" : "digest of " + identity;
}

std::optional<Digest> noted_digest_of(Store& store, const Source& bytes) {
  const std::string key = key_of(bytes);
  return key.empty() ? std::nullopt : store.shelf().noted(Shelf::Of::elsewhere, key);
}

// The digest, computed only if nobody of this user's processes did it before for this very file.
Result<Digest> known_digest_of(Store& store, const Source& bytes) {
  if (const auto known = noted_digest_of(store, bytes)) return *known;
  const Digest digest = TRY(digest_of(store, bytes));
  if (const std::string key = key_of(bytes); !key.empty())
    std::ignore = store.shelf().note(Shelf::Of::elsewhere, key, digest);
  return digest;
}

// Whether only this user and root may write to the file that the bytes lie in. Directories above it do not matter: a
// file that takes its path is another one, which is noticed (base/source.h), and verified.
bool is_private(const Source& bytes) {
  const auto extent = bytes.extent();
  struct stat file {};
  return !extent || (::fstat(extent->fd, &file) == 0 && is_private_file(file));
}

class SourceStream final : public Stream {
 public:
  explicit SourceStream(SourcePtr source) : source_(std::move(source)) {}
  Result<size_t> next(std::span<std::byte> out) override {
    const size_t got = TRY(source_->read(at_, out));
    at_ += got;
    return got;
  }

 private:
  SourcePtr source_;
  uint64_t at_ = 0;
};

// Verified while it is copied. Another process or thread that wants the same copy waits for this one.
Result<Copy> copied_into_cache(Store& store, const Wanted& wanted, Copy copy) {
  Name name = Store::name_of(wanted.digest, copy.bytes->size());
  if (store.shelf().find(name, copy.bytes->size())) {
    copy.is_cached = true;
    return copy;
  }
  name.text = "copy-" + name.text;
  name.resumable = false;
  Recipe recipe{copy.name, copy.bytes->size(), wanted.digest, "", {}};
  recipe.start = [bytes = copy.bytes]() -> Result<StreamPtr> { return std::make_unique<SourceStream>(bytes); };
  const Filling::Pause pause;
  for (;;) {
    const auto filling = TRY(store.filling(recipe, name));
    const auto phase = TRY(filling->wait());
    if (phase == Filling::Phase::cancelled) continue;
    if (phase == Filling::Phase::failed) return tl::unexpected(filling->error());
    if (phase == Filling::Phase::unkept)
      return failure(Code::io, str(copy.name, ": other users may write to it, and it cannot be copied into the cache: ",
                                   filling->error().message));
    copy.is_cached = true;
    return copy;
  }
}

// The copy once it is verified.
Result<Copy> verified(Store& store, const Wanted& wanted, Copy copy) {
  if (!is_private(*copy.bytes)) return copied_into_cache(store, wanted, std::move(copy));
  const auto digest = known_digest_of(store, *copy.bytes);
  if (!digest) return failure(digest.error().code, str(copy.name, ": ", digest.error().message));
  if (*digest == wanted.digest) return copy;
  return failure(Code::mismatch,
                 str(copy.name, ": the digest of its bytes is ", digest->hex(), ", not ", wanted.digest.hex()));
}

}  // namespace

Copies copies_of(Store& store, const Wanted& wanted) {
  Copies copies;
  if (auto here = here_of(wanted)) {
    copies.found.push_back({wanted.name, "beside the container", std::move(*here)});
  } else if (here.error().code != Code::not_found) {
    store.say(here.error().message);
    copies.wrong = here.error();
  }
  std::vector<std::string> wrong;
  for (Candidate& candidate : store.elsewhere().find(wanted.digest, wanted.size, wrong))
    copies.found.push_back({candidate.path, candidate.path, std::move(candidate.bytes)});
  for (const std::string& line : wrong) store.say(line);
  return copies;
}

Result<Copy> proved_copy(Store& store, const Wanted& wanted) {
  Copies copies = copies_of(store, wanted);
  Error last = copies.wrong.value_or(Error{Code::not_found, str(wanted.name, ": not at hand")});
  for (Copy& copy : copies.found) {
    auto right = verified(store, wanted, std::move(copy));
    if (right) return right;
    TRY_VOID(store.go_on());
    if (is_cancelled()) return tl::unexpected(right.error());
    last = right.error();
    store.say(last.message);
  }
  return tl::unexpected(std::move(last));
}

bool may_hold(Store& store, const Copy& copy, const Digest& digest) {
  if (copy.bytes->size() >= kWorthRemembering) return noted_digest_of(store, *copy.bytes).value_or(digest) == digest;
  const auto computed = digest_of(store, *copy.bytes);
  return computed && *computed == digest;
}

}  // namespace weightfs
