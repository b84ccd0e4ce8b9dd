#include "base/values/packing.h"

#include "base/text.h"

namespace weightfs {
namespace {

constexpr size_t kMaxMessage = 4096;

// The names that programs compare are literals: another process may only choose one of them.
const char* known_name(std::string_view name) {
  for (const std::string_view known : {kTimeout, kChangedFile, kGivenUp})
    if (name == known) return known.data();
  return nullptr;
}

}  // namespace

void add_error(Packer& out, const std::optional<Error>& error) {
  out.number(error.has_value());
  if (!error) return;
  out.number(static_cast<uint64_t>(error->code)).text(begin_of_text(error->message, kMaxMessage));
  out.text(error->name == nullptr ? "" : error->name);
}

std::optional<Error> error_in(Unpacker& in) {
  if (!in.flag()) return std::nullopt;
  Error error(static_cast<Code>(in.number_below(kCodes)), "");
  error.message = in.text();
  error.name = known_name(in.text());
  return error;
}

}  // namespace weightfs
