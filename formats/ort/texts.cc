#include "formats/ort/texts.h"

#include <span>
#include <utility>

#include "base/text.h"

namespace weightfs::ort {
namespace {

constexpr uint64_t kUtf8Growth = 3;  // U+FFFD for a byte

// Calls `take` with the position and the size of each text.
template <class Take>
Result<void> each_text(flatbuffer::Buffer& buffer, const Texts& texts, const Take& take) {
  for (uint64_t i = 0; i < texts.count; ++i) {
    const uint64_t at = TRY(buffer.target(texts.position + i * sizeof(uint32_t)));
    const auto size = TRY(buffer.number<uint32_t>(at));
    const uint64_t begin = at + sizeof(uint32_t);
    if (size > buffer.size() - begin) return failure(Code::corrupt, "a text is not inside the file");
    TRY_VOID(buffer.charge(Cost::input, sizeof(uint64_t) + size));
    TRY_VOID(take(begin, size));
  }
  return {};
}

// Their memory is charged to `charges`.
Result<std::vector<std::string>> read_texts(const Source& file, const Texts& texts, Budget& budget, Charges& charges) {
  flatbuffer::Buffer buffer(file, budget);
  std::vector<std::string> out;
  const auto read = [&](uint64_t at, uint32_t size) -> Result<void> {
    TRY_VOID(charges.charge(Cost::kept, kUtf8Growth * size + sizeof(std::string)));
    std::string text(size, '\0');
    TRY_VOID(buffer.copy(at, std::as_writable_bytes(std::span(text))));
    out.push_back(std::move(text));
    return {};
  };
  TRY_VOID(each_text(buffer, texts, read));
  return out;
}

}  // namespace

Result<uint64_t> size_of_lines(flatbuffer::Buffer& buffer, const Texts& texts) {
  uint64_t total = 0;
  const auto add = [&](uint64_t, uint32_t size) -> Result<void> {
    total += uint64_t{size} + 1;
    return {};
  };
  TRY_VOID(each_text(buffer, texts, add));
  return total;
}

SourcePtr string_lines(const SourcePtr& file, const Texts& texts, uint64_t size, const BudgetPtr& budget) {
  return lazy(size, Later<SourcePtr>([file, texts, size, budget]() -> Result<SourcePtr> {
                Charges charges(*budget);  // released with the texts
                const std::vector<std::string> all = TRY(read_texts(*file, texts, *budget, charges));
                std::string lines;
                lines.reserve(size);
                for (const std::string& text : all) lines.append(text).append(1, '\n');
                return in_memory(std::move(lines));
              }));
}

Later<Strings> strings_of(const SourcePtr& file, const Texts& texts, const BudgetPtr& budget) {
  return Later<Strings>([file, texts, budget]() -> Result<Strings> {
    Charges charges(*budget);
    auto strings = std::make_shared<std::vector<std::string>>(TRY(read_texts(*file, texts, *budget, charges)));
    for (std::string& text : *strings) text = to_utf8(text);
    charges.keep();
    return Strings(std::move(strings));
  });
}

}  // namespace weightfs::ort
