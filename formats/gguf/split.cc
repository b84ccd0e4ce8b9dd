#include "formats/gguf/split.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cstdio>

#include "base/text.h"
#include "formats/format.h"

namespace weightfs::gguf {
namespace {

// The number that exactly five digits make.
std::optional<uint32_t> five_digits(std::string_view text) {
  uint32_t number = 0;
  if (text.size() != 5 || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string ShardName::of(uint32_t other) const {
  std::array<char, 32> tail{};
  std::snprintf(tail.data(), tail.size(), "-%05u-of-%05u.gguf", other, count);
  return prefix + tail.data();
}

std::optional<ShardName> parse_shard_name(std::string_view name) {
  constexpr std::string_view kTail = "-00001-of-00002.gguf";
  if (name.size() < kTail.size()) return std::nullopt;
  const auto prefix = name.substr(0, name.size() - kTail.size());
  const auto tail = name.substr(prefix.size());
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count || *count < 2) return std::nullopt;
  ShardName shard{std::string(prefix), *number, *count};
  if (shard.of(*number) != name) return std::nullopt;
  return shard;
}

std::optional<ShardName> shard_of(std::string_view name, const File& file) {
  return file.unsigned_at("split.count").value_or(0) > 1 ? parse_shard_name(name) : std::nullopt;
}

void check_shard(File& file, const ShardName& name, uint32_t number) {
  const auto check = [&](std::string_view key, uint64_t expected) {
    const auto found = file.unsigned_at(key);
    if (found && found != expected)
      file.warnings.miss_tensors(0, Code::corrupt, "{} is {}; the file name implies {}", key, *found, expected);
    else if (!found)
      file.warnings.add("{} is missing; the file name implies {}", key, expected);
  };
  check("split.no", number - 1);
  check("split.count", name.count);
}

void explain_count(std::optional<uint64_t> stated, uint64_t found, Warnings& warnings) {
  if (!stated || *stated <= found) return;
  warnings.add_missing_tensors(*stated - found);
  warnings.add("split.tensors.count is {}, found {}", *stated, found);
}

void check_count(std::optional<uint64_t> stated, uint64_t found, Warnings& warnings) {
  if (stated && stated != found)
    warnings.miss_tensors(*stated > found ? *stated - found : 0, Code::corrupt, "split.tensors.count is {}, found {}",
                          *stated, found);
  else if (!stated)
    warnings.add("split.tensors.count is missing, found {}", found);
}

void check_alone(File& file) {
  const uint64_t count = file.unsigned_at("split.count").value_or(0);
  const auto stated = file.unsigned_at("split.tensors.count");
  const uint64_t found = file.tensors.size();
  if (count < 2 || stated == found) return;
  const std::string what = fmt::format(
      "one of {} files, by split.count, but not named NAME-00001-of-{:05}.gguf: the others are not read", count, count);
  if (stated)
    file.warnings.miss_tensors(*stated > found ? *stated - found : 0, Code::corrupt, "{}", what);
  else
    file.warnings.miss_file(Code::corrupt, "{}", what);
}

}  // namespace weightfs::gguf

namespace weightfs {

// The name alone is not enough: split.count must confirm it.
std::optional<std::string> split_model_named(std::string_view name) {
  const auto shard = gguf::parse_shard_name(name);
  return shard && shard->count <= gguf::kMaxShards ? std::optional(shard->of(1)) : std::nullopt;
}

std::optional<std::string> split_model_of(const Container& container) {
  if (!gguf::parse_shard_name(container.name)) return std::nullopt;
  const auto file = gguf::read_file(container.bytes, container.budget);
  const auto shard = file ? gguf::shard_of(container.name, *file) : std::nullopt;
  if (!shard || shard->count > gguf::kMaxShards) return std::nullopt;
  return shard->of(1);
}

}  // namespace weightfs
