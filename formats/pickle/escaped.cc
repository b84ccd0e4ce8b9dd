#include "formats/pickle/escaped.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/common/cursor.h"
#include "formats/grouped.h"

namespace weightfs::pickle {
namespace {

// Decoding a byte takes six times what examining one does.
Result<void> charge_decoding(std::string_view text, const File& file) {
  return file.budget->charge(Cost::input, 6 * text.size());
}

Error wide() { return Error{Code::corrupt, "a text that is not Latin-1"}; }

// Decodes one text. Sequential. Fails if it has more bytes than `most`.
class EscapedStream final : public Stream {
 public:
  EscapedStream(SourcePtr bytes, Spelling spelling, uint64_t most)
      : bytes_(std::move(bytes)), in_(*bytes_, 0, bytes_->size()), spelling_(spelling), most_(most) {}

  Result<size_t> next(std::span<std::byte> out) override {
    size_t made = 0;
    while (made < out.size() && in_.left() > 0)
      if (const auto byte = TRY(decode())) out[made++] = static_cast<std::byte>(*byte);
    // Found before the last byte is given.
    if (made > most_ || (made == most_ && in_.left() > 0))
      return failure(Code::corrupt, "a text with more bytes than the array");
    most_ -= made;
    return made;
  }

 private:
  using Decoded = std::optional<uint8_t>;  // nothing for an escape that stands for nothing

  Result<Decoded> decode() {
    const auto first = TRY(in_.number<uint8_t>());
    switch (spelling_) {
      case Spelling::stored:
        return utf8(first);
      case Spelling::unicode_escape:
        return first == '\\' ? unicode_escape() : Result<Decoded>(first);
      case Spelling::string_escape:
        return first == '\\' ? string_escape() : Result<Decoded>(first);
    }
    return Decoded();
  }

  Result<Decoded> utf8(uint8_t first) {
    if (first < 0x80) return Decoded(first);
    if (first != 0xC2 && first != 0xC3) return tl::unexpected(wide());
    const auto second = TRY(in_.number<uint8_t>());
    if ((second & 0xC0) != 0x80) return failure(Code::corrupt, "a text that is not UTF-8");
    return Decoded(static_cast<uint8_t>(first << 6 | (second & 0x3F)));
  }

  // \uXXXX and \UXXXXXXXX. A backslash before anything else stands for itself; the writer escapes it.
  Result<Decoded> unicode_escape() {
    const auto kind = TRY(in_.number<uint8_t>());
    if (kind != 'u' && kind != 'U') return failure(Code::corrupt, "a backslash that is not escaped");
    const uint32_t code = TRY(digits(kind == 'u' ? 4 : 8, 16));
    if (code > 0xFF) return tl::unexpected(wide());
    return Decoded(static_cast<uint8_t>(code));
  }

  // https://docs.python.org/2/reference/lexical_analysis.html#string-literals
  Result<Decoded> string_escape() {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const auto kind = TRY(in_.number<uint8_t>());
    if (const size_t letter = kLetters.find(static_cast<char>(kind)); letter != kLetters.npos)
      return Decoded(static_cast<uint8_t>(kMeanings[letter]));
    if (kind == '\n') return Decoded();
    if (kind == 'x') return Decoded(static_cast<uint8_t>(TRY(digits(2, 16))));
    return failure(Code::corrupt, "an escape that Python's repr() does not write");
  }

  Result<uint32_t> digits(int count, int base) {
    uint32_t code = 0;
    for (int i = 0; i < count; ++i) {
      const auto digit = static_cast<char>(TRY(in_.number<uint8_t>()));
      const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : base;
      if (value >= base || code > UINT32_MAX / 16) return failure(Code::corrupt, "an escape without its digits");
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(value);
    }
    return code;
  }

  SourcePtr bytes_;
  Cursor in_;
  Spelling spelling_;
  uint64_t most_;  // bytes that are left to decode
};

// Decodes all of a text that is short.
Result<std::string> decode_all(SourcePtr bytes, Spelling spelling) {
  const uint64_t most = bytes->size();  // no byte takes less than one
  std::string decoded(static_cast<size_t>(most) + 1, '\0');
  EscapedStream stream(std::move(bytes), spelling, most);
  const size_t size = TRY(stream.next(std::as_writable_bytes(std::span(decoded))));
  decoded.resize(size);
  return decoded;
}

// The text in the arguments (text, 'latin1') of a call; no value for other arguments.
Index text_in_latin_1(const Pickle& pickle, Index call) {
  const std::vector<Index> arguments = pickle.items(pickle.call(call).arguments, 3);
  constexpr std::array<std::string_view, 4> kLatin1 = {"latin1", "latin-1", "iso-8859-1", "iso8859-1"};
  const bool encodes = arguments.size() == 2 && pickle.kind(arguments[0]) == Kind::text &&
                       std::find(kLatin1.begin(), kLatin1.end(), pickle.text(arguments[1])) != kLatin1.end();
  return encodes ? arguments[0] : kNoValue;
}

// Whether the value is a call of this function.
bool is_call_of(const Pickle& pickle, Index value, std::string_view function) {
  return pickle.kind(value) == Kind::call && in_python_3(pickle.global(pickle.call(value).callable)) == function;
}

// The text that a call makes bytes of; itself for other values.
Index encoded_text(const Pickle& pickle, Index value) {
  const Index text = is_call_of(pickle, value, "_codecs.encode") ? text_in_latin_1(pickle, value) : kNoValue;
  return text == kNoValue ? value : text;
}

// bytes() without arguments.
bool is_empty_bytes(const Pickle& pickle, Index value) {
  return is_call_of(pickle, value, "builtins.bytes") && pickle.item_count(pickle.call(value).arguments) == 0;
}

// The quoted string without its quotes.
Result<Place> without_quotes(Place place) {
  if (place.spelling != Spelling::string_escape) return place;
  if (place.size < 2) return failure(Code::corrupt, "a string without quotes");
  return Place{place.offset + 1, place.size - 2, place.spelling};
}

// `most`: at most so many bytes.
Result<BlobProducer> producer_of(const Place& place, const File& file, uint64_t most) {
  const Slice text = TRY(slice(file.bytes, place.offset, place.size));
  BlobProducer producer{.name = fmt::format("array at {}", place.offset), .depth = file.depth};
  if (const std::string identity = file.bytes->identity(); !identity.empty())
    producer.key = fmt::format("{} pickled text {} of {}", identity, place.offset, most);
  producer.start = [text, spelling = place.spelling, most]() -> Result<StreamPtr> {
    return std::make_unique<EscapedStream>(std::make_shared<Slice>(text), spelling, most);
  };
  return producer;
}

Result<Slice> decoded_in_cache(const Place& place, const File& file, uint64_t size) {
  // Each decoded byte takes at least one of the file.
  if (size > place.size) return failure(Code::corrupt, fmt::format("{} bytes in a text of {}", size, place.size));
  BlobProducer producer = TRY(producer_of(place, file, size));
  producer.size = size;
  const auto make = [producer = std::move(producer), blobs = file.blobs]() -> Result<SourcePtr> {
    return blobs->blob(producer);
  };
  return slice(lazy(size, Later<SourcePtr>(make)), 0, size);
}

// The text of a value, and how it is stored.
struct Text {
  Index index;
  Place place;
  bool is_plain;  // the bytes are a range of the file
};

Text text_in(const Pickle& pickle, Index value) {
  const Index text = encoded_text(pickle, value);
  const Place place = pickle.place(text);
  return {text, place, pickle.is_text(text) && text == value && place.spelling == Spelling::stored};
}

// Why the bytes of a value that is neither plain nor kept cannot be decoded from the file.
std::optional<Error> undecodable(const Pickle& pickle, Index value, Index text) {
  if (pickle.kind(value) == Kind::buffer) return Error{Code::unsupported, "its bytes are in another file"};
  if (!pickle.is_text(text)) return Error{Code::corrupt, "its bytes are not bytes"};
  if (!pickle.text(text).empty()) return wide();  // kept, and could not be decoded
  return std::nullopt;
}

// The bytes of a text that is kept. `is_encoded`: it has the code points of the bytes; else Python 2's text is bytes.
std::optional<std::string> kept_bytes_of(const Pickle& pickle, Index text, bool is_encoded, uint64_t most) {
  const Place place = pickle.place(text);
  const std::string_view kept = pickle.text(text);
  constexpr uint64_t kLongest = 10;  // \UXXXXXXXX
  if (kept.size() != pickle.length(text) || kept.size() / kLongest > most || !pickle.is_text(text)) return std::nullopt;
  const bool is_bytes =
      place.spelling == Spelling::string_escape || (!is_encoded && place.spelling == Spelling::stored);
  if (pickle.kind(text) != Kind::text || is_bytes) return std::string(kept);
  auto decoded = decode_all(in_memory(std::string(kept)), Spelling::stored);
  return decoded ? std::optional(std::move(*decoded)) : std::nullopt;
}

// All bytes of a text that is not plain.
Result<Slice> decoded_of(const Pickle& pickle, Index value, Index text, const File& file) {
  TRY_VOID(charge_decoding(pickle.text(text), file));
  if (is_empty_bytes(pickle, value)) return slice(in_memory({}), 0, 0);
  if (auto kept = kept_bytes_of(pickle, text, text != value, UINT64_MAX)) {
    const uint64_t size = kept->size();
    TRY_VOID(file.budget->charge(Cost::kept, size));
    return slice(in_memory(std::move(*kept)), 0, size);
  }
  if (auto problem = undecodable(pickle, value, text)) return tl::unexpected(std::move(*problem));
  const Place content = TRY(without_quotes(pickle.place(text)));
  TRY_VOID(file.budget->charge(Cost::output, content.size));
  BlobProducer producer = TRY(producer_of(content, file, content.size));
  const SourcePtr decoded = TRY(file.blobs->materialize(std::move(producer)));
  return slice(decoded, 0, decoded->size());
}

}  // namespace

std::optional<std::string> kept_bytes(const Pickle& pickle, Index value, uint64_t most) {
  if (is_empty_bytes(pickle, value)) return std::string();
  const Index text = encoded_text(pickle, value);
  return kept_bytes_of(pickle, text, text != value, most);
}

Result<Slice> bytes_of(const Pickle& pickle, Index value, const File& file, uint64_t size) {
  const auto wrong_size = [&](uint64_t found) {
    return failure(Code::corrupt, fmt::format("{} needed, the pickle has {}", counted_bytes(size), found));
  };
  const auto [text, place, is_plain] = text_in(pickle, value);
  if (is_plain && place.size != size) return wrong_size(place.size);
  if (is_plain) return slice(file.bytes, place.offset, place.size);
  TRY_VOID(charge_decoding(pickle.text(text), file));
  if (auto kept = kept_bytes(pickle, value)) {
    if (kept->size() != size) return wrong_size(kept->size());
    TRY_VOID(file.budget->charge(Cost::kept, size));
    return slice(in_memory(std::move(*kept)), 0, size);
  }
  if (auto problem = undecodable(pickle, value, text)) return tl::unexpected(std::move(*problem));
  const Place content = TRY(without_quotes(place));
  return decoded_in_cache(content, file, size);
}

Result<Slice> bytes_of(const Pickle& pickle, Index value, const File& file) {
  const auto [text, place, is_plain] = text_in(pickle, value);
  return is_plain ? slice(file.bytes, place.offset, place.size) : decoded_of(pickle, value, text, file);
}

bool is_bytearray(const Pickle& pickle, Index value) { return is_call_of(pickle, value, "builtins.bytearray"); }

Result<Slice> bytearray_of(const Pickle& pickle, Index call, const File& file) {
  if (const Index text = text_in_latin_1(pickle, call); text != kNoValue) return decoded_of(pickle, call, text, file);
  const std::vector<Index> arguments = pickle.items(pickle.call(call).arguments, 2);
  if (arguments.size() != 1 || !pickle.is_text(arguments[0]))
    return failure(Code::corrupt, "a bytearray of other values than bytes");
  return bytes_of(pickle, arguments[0], file);
}

}  // namespace weightfs::pickle
