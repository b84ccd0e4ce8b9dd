#include "serve/registry/mirror.h"

#include <fmt/core.h>

#include <utility>

#include "base/cancel.h"
#include "base/text.h"
#include "serve/mirror/for_client.h"

namespace weightfs::distribution {
namespace {

bool is_answer_of_registry(const Error& error) { return error.code == Code::not_found; }

// Registries refuse what does not exist with 401 or 403, too. Clients repeat a request after 429.
mirror::Refusal refusal_by_registry(const std::string& name, const char* unknown, const Error& error) {
  const bool is_repository = error.name != nullptr && error.name == kNoRepository;
  if (error.code == Code::not_found)
    return {404, is_repository ? "NAME_UNKNOWN" : unknown, fmt::format("{}: the registry has none", name)};
  if (error.code == Code::forbidden) return {403, "DENIED", fmt::format("{}: the mirror has no access", name)};
  if (is_timeout(error)) return {504, "UNKNOWN", fmt::format("{}: the registry does not respond", name)};
  if (may_pass(error)) return {503, "TOOMANYREQUESTS", fmt::format("{}: the registry cannot be reached", name)};
  return {502, "UNKNOWN", fmt::format("{}: the registry sent no valid answer", name)};
}

}  // namespace

Mirror::Mirror(std::unique_ptr<MirrorOrigin> origin, mirror::Rules rules)
    : origin_(std::move(origin)), now_(rules.now), names_(std::move(rules)) {}

bool Mirror::is_permitted(const std::string& name, const std::string& name_space) const {
  return origin_->is_permitted(name) && (name_space.empty() || origin_->is_namespace(name_space));
}

Mirror::Found<Mirror::Manifest> Mirror::manifest(const std::string& name, const std::string& reference) {
  const bool is_final = parse_digest(reference).has_value();
  const std::string key = fmt::format("{}{}{}", name, is_final ? '@' : ':', reference);
  const auto refuse = [name](const Error& error) { return refusal_by_registry(name, "MANIFEST_UNKNOWN", error); };
  const auto found = names_.find({.key = key,
                                  .is_final = is_final,
                                  .ask = [this, name, reference] { return origin_->resolve(name, reference); },
                                  .is_answer = is_answer_of_registry,
                                  .refuse = refuse});
  if (!found) return tl::unexpected(found.error());
  const auto digest = digest_of_hex(*found);
  auto text = digest ? exceptions_to_errors([&] { return origin_->manifest(name, *digest); })
                     : Result<std::string>(failure(Code::corrupt, "not a digest"));
  if (text) return Manifest{std::move(*text), *digest};
  names_.log(mirror::line_about(key, text.error()));
  return tl::unexpected(refuse(text.error()));
}

Mirror::Found<SourcePtr> Mirror::blob(const std::string& name, const Digest& digest) {
  const std::string key = fmt::format("{}/blobs/sha256:{}", name, digest.hex());
  if (SourcePtr bytes = blobs_.find(key)) return bytes;
  const auto refuse = [name](const Error& error) { return refusal_by_registry(name, "BLOB_UNKNOWN", error); };
  const auto ask = [this, name, digest, key]() -> Result<mirror::State> {
    blobs_.keep(key, TRY(open(name, digest)));
    return mirror::State{digest.hex()};
  };
  const auto found =
      names_.find({.key = key, .is_final = true, .ask = ask, .is_answer = is_answer_of_registry, .refuse = refuse});
  if (!found) return tl::unexpected(found.error());
  if (SourcePtr bytes = blobs_.find(key)) return bytes;
  // It is known, and was closed for others, or its bytes did not match.
  auto again = open(name, digest);
  if (again) return blobs_.keep(key, std::move(*again));
  names_.log(mirror::line_about(key, again.error()));
  return tl::unexpected(refuse(again.error()));
}

// With --wait-for-network, and if the registry does not state the size, it would take a thread of the server for long.
Result<SourcePtr> Mirror::open(const std::string& name, const Digest& digest) {
  const auto until = now_() + mirror::kMaxRead;
  const CancelScope scope([this, until] { return now_() >= until; });
  auto bytes = exceptions_to_errors([&] { return origin_->open(name, digest); });
  if (bytes || is_permanent(bytes.error()) || !is_cancelled()) return bytes;
  return failure(timeout("the registry does not respond"));
}

}  // namespace weightfs::distribution
