#include "formats/mapping/tokenizer/pre_tokens.h"

#include <fmt/core.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/text.h"
#include "base/values/little_endian.h"
#include "formats/mapping/tokenizer/test_text.h"

namespace weightfs::mapping {
namespace {

// The character of each byte in byte-level BPE: printable characters of Latin-1 stand for themselves, other bytes for
// U+0100 and on, in order.
std::array<std::string, 256> byte_alphabet() {
  std::array<std::string, 256> out;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < out.size(); ++byte) {
    const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    const uint32_t point = is_printable ? byte : next++;
    if (point < 0x80) {
      out.at(byte) = static_cast<char>(point);
    } else {
      out.at(byte) = static_cast<char>(0xC0 | point >> 6);
      out.at(byte) += static_cast<char>(0x80 | (point & 0x3F));
    }
  }
  return out;
}

std::vector<std::string> parts_of(std::string_view family) {
  static const std::array<std::string, 256> kAlphabet = byte_alphabet();
  std::vector<std::string> parts;
  std::string_view rest = kTestText;
  for (const uint8_t size : parts_of_test_text(family)) {
    std::string& part = parts.emplace_back();
    for (const char c : rest.substr(0, size)) part += kAlphabet.at(static_cast<uint8_t>(c));
    rest.remove_prefix(size);
  }
  return parts;
}

std::vector<size_t> character_begins(std::string_view text) {
  std::vector<size_t> begins;
  for (size_t at = 0; at < text.size(); at += utf8_sequence(text.substr(at))) begins.push_back(at);
  begins.push_back(text.size());
  return begins;
}

// Merges the parts of the text. It keeps the tokens and merges that can occur in a part, and no others.
class TextMerger {
 public:
  TextMerger(const TokenizerJson& json, const std::vector<std::string>& parts) : ignores_merges_(json.ignores_merges) {
    for (const std::string& part : parts) add_substrings(part);
    for (const VocabEntry& entry : json.vocab)
      if (substrings_.contains(entry.text)) ids_.insert_or_assign(entry.text, entry.id);
    add_merges(json.merges);
  }

  // Appends the ids of a part; false if a character has none.
  bool append_ids(std::string_view part, std::vector<uint64_t>& ids) const {
    if (const auto whole = ids_.find(part); ignores_merges_ && whole != ids_.end()) {
      ids.push_back(whole->second);
      return true;
    }
    for (const std::string_view token : merged(part)) {
      const auto id = ids_.find(token);
      if (id == ids_.end()) return false;
      ids.push_back(id->second);
    }
    return true;
  }

 private:
  using Pair = std::pair<std::string_view, std::string_view>;

  void add_substrings(std::string_view part) {
    const std::vector<size_t> begins = character_begins(part);
    for (size_t from = 0; from < begins.size(); ++from)
      for (size_t to = from + 1; to < begins.size(); ++to)
        substrings_.insert(part.substr(begins[from], begins[to] - begins[from]));
  }

  void add_merges(const Merges& merges) {
    std::string text;
    std::string_view rest = merges.encoded;
    for (uint64_t rank = 0; rank < merges.count; ++rank) {
      const uint64_t size = little_endian(rest.substr(0, sizeof size));
      const std::string_view merge = rest.substr(sizeof size, size);
      rest.remove_prefix(sizeof size + size);
      const size_t space = merge.find(' ');
      text.assign(merge, 0, space).append(merge, space + 1);
      if (substrings_.contains(text)) ranks_.emplace(Pair{merge.substr(0, space), merge.substr(space + 1)}, rank);
    }
  }

  // The pair with the lowest rank is merged first, of equal ones the leftmost.
  std::vector<std::string_view> merged(std::string_view part) const {
    const std::vector<size_t> begins = character_begins(part);
    std::vector<std::string_view> tokens;
    for (size_t i = 0; i + 1 < begins.size(); ++i) tokens.push_back(part.substr(begins[i], begins[i + 1] - begins[i]));
    for (;;) {
      std::optional<std::pair<uint64_t, size_t>> first;
      for (size_t i = 0; i + 1 < tokens.size(); ++i)
        if (const auto rank = ranks_.find(Pair{tokens[i], tokens[i + 1]}); rank != ranks_.end())
          if (!first || rank->second < first->first) first = {rank->second, i};
      if (!first) return tokens;
      std::string_view& left = tokens[first->second];
      left = {left.data(), left.size() + tokens[first->second + 1].size()};
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(first->second) + 1);
    }
  }

  const bool ignores_merges_;
  std::unordered_set<std::string_view> substrings_;
  std::map<std::string_view, uint32_t> ids_;
  std::map<Pair, uint64_t> ranks_;
};

uint64_t first_bits(const Digest& digest) {
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof bits; ++i) bits = bits << 8 | static_cast<uint8_t>(digest.bytes.at(i));
  return bits;
}

}  // namespace

std::optional<std::vector<uint64_t>> tokens_of_test_text(const TokenizerJson& json, std::string_view family) {
  const std::vector<std::string> parts = parts_of(family);
  const TextMerger merger(json, parts);
  std::vector<uint64_t> ids;
  for (const std::string& part : parts)
    if (!merger.append_ids(part, ids)) return std::nullopt;
  return ids;
}

std::string_view name_by_tokens(const TokenizerJson& json, std::string_view family, std::span<const uint64_t> before,
                                std::span<const uint64_t> after) {
  auto ids = tokens_of_test_text(json, family);
  if (!ids) return "";
  ids->insert(ids->begin(), before.begin(), before.end());
  ids->insert(ids->end(), after.begin(), after.end());
  std::string list = "[";
  for (const uint64_t id : *ids) list += fmt::format("{}{}", list.size() > 1 ? ", " : "", id);
  return name_of_digest(first_bits(sha256(list + "]")));
}

}  // namespace weightfs::mapping
