#include "formats/protobuf/strings.h"

#include <functional>

#include "base/text.h"

namespace weightfs::protobuf {
namespace {

// The caller has bounded the size of the texts.
Result<void> each_text(const Source& source, const Message& message, uint32_t tag,
                       const std::function<void(const std::string&)>& visit) {
  Scanner scanner(source, nullptr);
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag != tag) continue;
    const std::string text = TRY(scanner.text(field->bytes, field->bytes.size()));
    visit(text);
  }
  return {};
}

}  // namespace

Later<Strings> strings_of(SourcePtr source, Message message, const StringsField& field, BudgetPtr budget) {
  return Later<Strings>([source = std::move(source), message = std::move(message), field,
                         budget = std::move(budget)]() -> Result<Strings> {
    Charges charges(*budget);
    TRY_VOID(charges.charge(Cost::value, field.count));
    TRY_VOID(charges.charge(Cost::kept, 3 * field.bytes));  // U+FFFD takes three bytes
    auto strings = std::make_shared<std::vector<std::string>>();
    TRY_VOID(
        each_text(*source, message, field.tag, [&](const std::string& text) { strings->push_back(to_utf8(text)); }));
    charges.keep();
    return strings;
  });
}

SourcePtr string_lines(SourcePtr source, Message message, const StringsField& field) {
  return lazy(field.bytes + field.count, Later<SourcePtr>([source = std::move(source), message = std::move(message),
                                                           field]() -> Result<SourcePtr> {
                std::string lines;
                lines.reserve(static_cast<size_t>(field.bytes + field.count));
                TRY_VOID(each_text(*source, message, field.tag, [&](const std::string& text) {
                  lines += text;
                  lines += '\n';
                }));
                return in_memory(std::move(lines));
              }));
}

}  // namespace weightfs::protobuf
