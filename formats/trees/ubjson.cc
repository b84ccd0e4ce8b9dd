// UBJSON draft 12 (ubjson.org), as far as src/common/json.cc of XGBoost writes and reads it.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "formats/common/limits.h"
#include "formats/trees/document.h"

namespace weightfs::trees {
namespace {

class Ubjson final : public Document {
 public:
  Ubjson(const Source& source, uint64_t begin) : in_(source, begin, source.size(), std::endian::big) {}

  Result<Kind> kind() override {
    const char marker = TRY(next_marker());
    if (marker == '{') return Kind::object;
    if (marker == '[') return Kind::array;
    if (marker == 'S' || marker == 'H' || marker == 'C') return Kind::text;
    if (marker == 'T' || marker == 'F') return Kind::boolean;
    if (marker == 'Z') return Kind::null;
    if (bytes_of_marker(marker)) return Kind::number;
    return unexpected(marker);
  }

  Result<void> enter() override {
    if (open_.size() >= kMaxDepth) return failure(Code::corrupt, fmt::format("nested deeper than {}", kMaxDepth));
    const char marker = TRY(take_marker());
    Open open{.is_object = marker == '{'};
    if (TRY(passes('$'))) {
      open.type = TRY(take_byte());
      if (open.is_object || !bytes_of_marker(open.type).value_or(0))
        return failure(Code::unsupported, fmt::format("values of the type {} before byte {}",
                                                      quoted(std::string(1, open.type)), in_.position()));
    }
    if (TRY(passes('#'))) {
      // Each value has a byte at least.
      const uint64_t count = TRY(length());
      open.left = TRY(in_.bounded(count, bytes_of_marker(open.type).value_or(1)));
    } else if (open.type != 0) {
      return failure(Code::corrupt, fmt::format("a type without a count before byte {}", in_.position()));
    }
    open_.push_back(open);
    return {};
  }

  Result<std::optional<std::string>> next_key() override {
    if (!TRY(next_element())) return std::nullopt;
    const uint64_t size = TRY(length());
    if (size > kMaxNameLength)
      return failure(Code::corrupt,
                     fmt::format("a key of {} bytes at {}, at most {}", size, in_.position(), kMaxNameLength));
    return in_.text(size);
  }

  Result<bool> next_element() override {
    Open& open = open_.back();
    bool has_ended = false;
    if (open.left) {
      has_ended = *open.left == 0;
      if (!has_ended) --*open.left;
    } else {
      TRY_VOID(skip_nothing());
      has_ended = TRY(passes(open.is_object ? '}' : ']'));
    }
    if (has_ended) open_.pop_back();
    return !has_ended;
  }

  Result<std::string> text() override {
    const char marker = TRY(take_marker());
    const uint64_t size = marker == 'C' ? 1 : TRY(length());
    if (size > std::min(kMaxTextLength, in_.left()))
      return failure(Code::corrupt, fmt::format("a text of {} bytes at {}, at most {}, {} left", size, in_.position(),
                                                kMaxTextLength, in_.left()));
    return in_.text(size);
  }

  Result<std::optional<Number>> number() override {
    const char marker = TRY(take_marker());
    if (marker == 'Z') return std::nullopt;
    const size_t width = bytes_of_marker(marker).value_or(0);
    const std::string_view bytes = TRY(in_.ahead(width));
    if (bytes.size() < width) return failure(Code::corrupt, fmt::format("ends at byte {}", in_.position()));
    const Number number = number_of_marker(marker, bytes.substr(0, width));
    TRY_VOID(in_.skip(width));
    return number;
  }

  Result<Stored> stored_numbers(Element element) override {
    const Open& open = open_.back();
    Run run{.begin = in_.position(), .encoding = Encoding::marked, .element = element};
    if (open.type == 0) return Stored{run, std::nullopt};
    run.encoding = Encoding::typed;
    run.marker = open.type;
    if (!always_fits(open.type, element)) return Stored{run, std::nullopt};
    const uint64_t count = open.left.value_or(0);
    open_.pop_back();
    TRY_VOID(in_.skip(count * bytes_of_marker(run.marker).value_or(0)));
    return Stored{run, count};
  }

  uint64_t position() const override { return in_.position(); }

 private:
  // An object or array that was entered.
  struct Open {
    bool is_object;
    char type = 0;                      // of all values; 0 if each has a marker
    std::optional<uint64_t> left = {};  // values; nothing if a marker ends them
  };

  Result<char> take_byte() { return static_cast<char>(TRY(in_.number<uint8_t>())); }

  // The marker of the next value, which may stand before all values of an array.
  Result<char> next_marker() {
    if (!open_.empty() && open_.back().type != 0) return open_.back().type;
    TRY_VOID(skip_nothing());
    const std::string_view bytes = TRY(in_.ahead());
    if (bytes.empty()) return failure(Code::corrupt, fmt::format("ends at byte {}", in_.position()));
    return bytes.front();
  }

  Result<char> take_marker() {
    const char marker = TRY(next_marker());
    if (open_.empty() || open_.back().type == 0) TRY_VOID(in_.skip(1));
    return marker;
  }

  // `N` stands for no value.
  Result<void> skip_nothing() {
    while (TRY(passes('N'))) {
    }
    return {};
  }

  // Skips the next byte if it is this one.
  Result<bool> passes(char wanted) {
    const std::string_view bytes = TRY(in_.ahead());
    if (bytes.empty() || bytes.front() != wanted) return false;
    TRY_VOID(in_.skip(1));
    return true;
  }

  // A count or the length of a text: an integer with its marker.
  Result<uint64_t> length() {
    const uint64_t begin = in_.position();
    const char marker = TRY(take_byte());
    const size_t width = bytes_of_marker(marker).value_or(0);
    if (width == 0 || marker == 'd' || marker == 'D') return unexpected(marker);
    const Number number = number_of_marker(marker, TRY(in_.text(width)));
    if (number.integer < 0)
      return failure(Code::corrupt, fmt::format("a length of {} at byte {}", number.integer, begin));
    return static_cast<uint64_t>(number.integer);
  }

  tl::unexpected<Error> unexpected(char marker) const {
    return failure(Code::corrupt,
                   fmt::format("unexpected {} before byte {}", quoted(std::string(1, marker)), in_.position() + 1));
  }

  Cursor in_;
  std::vector<Open> open_;
};

}  // namespace

std::unique_ptr<Document> open_ubjson(const Source& source, uint64_t begin) {
  return std::make_unique<Ubjson>(source, begin);
}

}  // namespace weightfs::trees
