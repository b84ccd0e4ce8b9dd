#include "formats/signature.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "base/values/base64.h"
#include "base/values/json.h"
#include "formats/common/warnings.h"

namespace weightfs {
namespace {

constexpr std::string_view kSignature = "model.sig";
constexpr uint64_t kMaxSignature = 8 << 20;  // a resource takes about 200 bytes
constexpr size_t kMaxType = 200;             // bytes of a media type

using KnownDigests = std::map<std::string_view, const Digest*>;  // by the path of the part

const Map* map_in(const Value& value) { return std::get_if<Map>(&value); }

std::string type_in(const Map& map, std::string_view key) { return std::string(text_in(map, key).substr(0, kMaxType)); }

Result<Value> read_statement(const Map& bundle, Budget& budget) {
  const Map* const envelope = bundle.find_as<Map>("dsseEnvelope");
  if (envelope == nullptr) return failure(Code::unsupported, "not a Sigstore bundle with a DSSE envelope");
  const auto payload = from_base64(text_in(*envelope, "payload"));
  if (!payload) return failure(Code::corrupt, "the payload is not Base64");
  TRY_VOID(budget.charge(Cost::kept, payload->size()));
  return parse_json(*in_memory(*payload), 0, payload->size(), budget);
}

// Counts the resources of the statement by whether their digest is known.
Map compared(const List& resources, const KnownDigests& known, Warnings& warnings) {
  uint64_t equal = 0;
  uint64_t different = 0;
  for (const Value& value : resources) {
    const Map* const resource = map_in(value);
    if (resource == nullptr || text_in(*resource, "algorithm") != "sha256") continue;
    const auto found = known.find(text_in(*resource, "name"));
    const auto digest = digest_of_hex(text_in(*resource, "digest"));
    if (found == known.end() || !digest) continue;
    if (*digest == *found->second) {
      ++equal;
      continue;
    }
    ++different;
    warnings.add("{}: states another SHA-256 of {} than its source", kSignature, quoted(found->first));
  }
  Map counts;
  counts.append("resources", resources.size());
  counts.append("equal", equal);
  counts.append("different", different);
  counts.append("unknown", resources.size() - equal - different);
  return counts;
}

Result<Map> read_signature(const Part& part, const KnownDigests& known, Budget& budget, Warnings& warnings) {
  const SourcePtr bytes = TRY(part.source.get());
  if (bytes->size() > kMaxSignature)
    return failure(Code::unsupported,
                   fmt::format("{}, at most {} are read", human_size(bytes->size()), human_size(kMaxSignature)));
  const Value bundle = TRY(parse_json(*bytes, 0, bytes->size(), budget));
  const Map* const fields = map_in(bundle);
  if (fields == nullptr) return failure(Code::corrupt, "not a JSON object");
  const Value statement = TRY(read_statement(*fields, budget));
  const Map* const claims = map_in(statement);
  if (claims == nullptr) return failure(Code::corrupt, "the payload is not a JSON object");
  Map signature;
  signature.append("bundle", type_in(*fields, "mediaType"));
  signature.append("predicate", type_in(*claims, "predicateType"));
  const Map* const predicate = claims->find_as<Map>("predicate");
  const List* const resources = predicate == nullptr ? nullptr : predicate->find_as<List>("resources");
  if (resources == nullptr) return failure(Code::unsupported, "the statement lists no resources");
  for (auto& [key, count] : compared(*resources, known, warnings)) signature.append(key, count);
  return signature;
}

}  // namespace

void describe_signature(Model& model, Budget& budget) {
  const auto part = std::ranges::find_if(
      model.parts, [](const Part& each) { return each.path == kSignature && each.link_target.empty(); });
  if (part == model.parts.end()) return;
  KnownDigests known;
  for (const Part& each : model.parts)
    if (const auto* const digest = each.checksums.get<Digest>()) known.emplace(each.path, digest);
  Warnings warnings;
  auto signature = read_signature(*part, known, budget, warnings);
  if (!signature) warnings.add("{}: not read: {}", kSignature, signature.error().message);
  if (signature) model.common.set("signature", std::move(*signature));
  std::move(warnings).move_to(model);
}

}  // namespace weightfs
