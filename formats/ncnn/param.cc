#include "formats/ncnn/param.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "formats/grouped.h"

namespace weightfs::ncnn {
namespace {

// ncnn's buffers and NCNN_MAX_PARAM_COUNT.
constexpr size_t kLongestName = 255;
constexpr int kMaxParameters = 32;
// The number of an array parameter is this minus its own.
constexpr int kArrayBase = -23300;

// The memory of a layer and of a parameter, besides texts.
constexpr uint64_t kLayerSize = sizeof(Layer);
constexpr uint64_t kParameterSize = 64;

constexpr std::string_view kBlanks = " \t\r\n";

// Takes the words of a text one after another.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// The next word; empty at the end.
  std::string_view next() {
    const size_t begin = std::min(text_.find_first_not_of(kBlanks), text_.size());
    text_.remove_prefix(begin);
    const std::string_view word = text_.substr(0, std::min(text_.find_first_of(kBlanks), text_.size()));
    text_.remove_prefix(word.size());
    return word;
  }

 private:
  std::string_view text_;
};

class Parser {
 public:
  Parser(std::string_view text, Charges& charges) : text_(text), charges_(charges) {}

  Result<Network> parse() {
    if (trimmed(next_line()) != kMagic) return failure(Code::corrupt, fmt::format("the first line is not {}", kMagic));
    Words counts(next_line());
    const auto layers = parse_number<uint64_t>(counts.next());
    const auto blobs = parse_number<uint64_t>(counts.next());
    if (!layers || !blobs) return failure(Code::corrupt, "the second line is not two numbers");
    constexpr size_t kShortestLine = sizeof("T n 0 0");
    if (*layers > text_.size() / kShortestLine + 1)
      return failure(Code::corrupt, fmt::format("{} layers, {} left", *layers, counted_bytes(text_.size())));
    Network network;
    network.blobs = *blobs;
    while (network.layers.size() < *layers && !text_.empty()) {
      const std::string_view line = trimmed(next_line());
      if (line.empty()) continue;
      auto layer = read_layer(line).map_error([&](const Error& error) {
        return Error{error.code, fmt::format("layer {}: {}", network.layers.size(), error.message)};
      });
      if (!layer) return tl::unexpected(layer.error());
      network.layers.push_back(std::move(*layer));
    }
    if (network.layers.size() < *layers)
      return failure(Code::corrupt, fmt::format("{} layers, {} stated", network.layers.size(), *layers));
    network.ends_in_a_line = text_.empty() && !has_last_break_;
    return network;
  }

 private:
  std::string_view next_line() {
    const size_t end = std::min(text_.find('\n'), text_.size());
    const std::string_view line = text_.substr(0, end);
    has_last_break_ = end < text_.size();
    text_.remove_prefix(std::min(end + 1, text_.size()));
    return line;
  }

  Result<std::string> name(std::string_view word) {
    if (word.empty()) return failure(Code::corrupt, "a name is missing");
    if (word.size() > kLongestName)
      return failure(Code::corrupt, fmt::format("a name of {} bytes, at most {}", word.size(), kLongestName));
    TRY_VOID(charges_.charge(Cost::kept, sizeof(std::string) + word.size()));
    return std::string(word);
  }

  Result<Layer> read_layer(std::string_view line) {
    TRY_VOID(charges_.charge(Cost::step));
    TRY_VOID(charges_.charge(Cost::kept, kLayerSize));
    Words words(line);
    Layer layer;
    layer.type = TRY(name(words.next()));
    layer.name = TRY(name(words.next()));
    const auto bottoms = parse_number<uint32_t>(words.next());
    const auto tops = parse_number<uint32_t>(words.next());
    if (!bottoms || !tops) return failure(Code::corrupt, "the numbers of its blobs are missing");
    for (uint64_t i = 0; i < uint64_t{*bottoms} + *tops; ++i) {
      std::string blob = TRY(name(words.next()));
      (i < *bottoms ? layer.bottoms : layer.tops).push_back(std::move(blob));
    }
    for (std::string_view word = words.next(); !word.empty(); word = words.next())
      TRY_VOID(read_parameter(word, layer));
    return layer;
  }

  // "ID=VALUE". A text with blanks has several words, of which the later ones have no number.
  Result<void> read_parameter(std::string_view word, Layer& layer) {
    const size_t equals = word.find('=');
    auto id = parse_number<int>(word.substr(0, std::min(equals, word.size())));
    if (equals == word.npos || !id) return {};
    const bool is_array = *id <= kArrayBase;
    if (is_array) id = kArrayBase - *id;
    if (*id < 0 || *id >= kMaxParameters)
      return failure(Code::corrupt, fmt::format("parameter {}, {} are possible", *id, kMaxParameters));
    const auto value = parse_number<int64_t>(word.substr(equals + 1));
    if (is_array || !value) return {};
    TRY_VOID(charges_.charge(Cost::kept, kParameterSize));
    layer.integers[*id] = *value;
    return {};
  }

  std::string_view text_;
  Charges& charges_;
  bool has_last_break_ = false;  // the line that was taken last has a line break
};

}  // namespace

Result<Network> parse_param(std::string_view text, Charges& charges) { return Parser(text, charges).parse(); }

}  // namespace weightfs::ncnn
