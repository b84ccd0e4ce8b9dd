#include "formats/pytorch/member.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/archive/zip.h"

namespace weightfs::pytorch {
namespace {

// The maximum size of a member with a number or a word.
constexpr uint64_t kMaxRecord = 256;

Result<SourcePtr> pickle_bytes(const archive::Archive& archive, const std::string& path,
                               const codec::DecodeChargePtr& charge) {
  const Part* const part = archive.resolve(path);
  if (part == nullptr) return failure(Code::corrupt, "not in the archive");
  const SourcePtr source = TRY(part->source.get());
  if (source->size() > pickle::kMaxPickleSize)
    return failure(Code::unsupported,
                   fmt::format("{} bytes, at most {} are read", source->size(), pickle::kMaxPickleSize));
  return archive::bytes_to_parse(source, charge);
}

}  // namespace

Result<void> add_member(const archive::Archive& archive, const Container& container, const MemberPickle& member,
                        const std::string& prefix, std::string_view subject, Contents& out) {
  const auto about = [&](const Error& error) {
    return Error{error.code, fmt::format("{}: {}", member.shown, error.message)};
  };
  const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
  const codec::DecodeCharge::Active active(charge);
  const SourcePtr bytes = TRY(pickle_bytes(archive, member.path, charge).map_error(about));
  Cursor cursor(*bytes, 0, bytes->size());
  const Pickle object = TRY(pickle::read_pickle(cursor, *container.budget).map_error(about));
  const pickle::File file{bytes, container.blobs, container.budget, container.depth};
  return add_pickle(object, file, member.storages, prefix, fmt::format("{}{}: ", subject, member.shown), out)
      .map_error(about);
}

Result<void> add_constants(const archive::Archive& archive, const Container& container, const MemberPickle& member,
                           const std::string& prefix, Contents& out) {
  const size_t before = out.tensors.size();
  TRY_VOID(add_member(archive, container, member, prefix, "", out));
  std::vector<size_t> numbers;
  for (size_t i = before; i < out.tensors.size(); ++i)
    if (out.tensors.shape(i).empty() && !out.tensors.is_refused(i)) numbers.push_back(i);
  erase_tensors(out, numbers);
  return {};
}

Result<Slice> storage_at(const archive::Archive& archive, const std::string& path, std::string_view key, Code absent) {
  const Part* const part = archive.find(path);
  if (part == nullptr || !part->link_target.empty())
    return failure(absent, fmt::format("its storage {} is not in the {}", quoted(key),
                                       absent == Code::not_found ? "directory" : "archive"));
  const SourcePtr bytes = TRY(part->source.get());
  return slice(bytes, 0, bytes->size());
}

Result<std::optional<std::string>> record_at(const archive::Archive& archive, const std::string& path) {
  auto text = archive.text(path, kMaxRecord);
  if (!text && text.error().code != Code::not_found && !is_about_the_bytes(text.error()))
    return tl::unexpected(text.error());
  if (!text) return std::nullopt;
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return std::optional(std::move(*text));
}

Result<bool> is_big_endian(const archive::Archive& archive, const std::string& root, Warnings& warnings) {
  const std::string order = TRY(record_at(archive, root + "byteorder")).value_or("little");
  if (order != "little" && order != "big")
    warnings.add("byteorder {} is unknown; little-endian is assumed", quoted(order));
  return order == "big";
}

}  // namespace weightfs::pytorch
