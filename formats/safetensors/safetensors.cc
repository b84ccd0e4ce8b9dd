#include "formats/safetensors/safetensors.h"

#include <algorithm>

#include "formats/directory/pieces.h"
#include "formats/format.h"

namespace weightfs::safetensors {
namespace {

bool is_white(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Whether eight bytes begin a text. JSON may have a brace at byte 8 too (`{"net": {`), but the length of a header that
// was cut off has zeros in it.
bool is_text(std::string_view bytes) {
  return is_utf8(bytes) && std::none_of(bytes.begin(), bytes.end(), [](char c) { return c >= 0 && c < '\t'; });
}

// The reference stores the tensors in a HashMap: of equal names the last one is kept.
void drop_replaced(flat::Header& header) { header.tensors.erase(flat::repeated_names(header.tensors)); }

Result<Model> read_file(const Container& container) {
  const uint64_t length = TRY(flat::read_length(*container.bytes));
  TRY_VOID(container.budget->charge(Cost::input, length));
  HeaderReader reader(length, *container.budget);
  const auto whole = read_json(*container.bytes, flat::kPrefix, length, reader);
  if (reader.problem) return failure(reader.problem->code, "header: " + reader.problem->message);
  if (!whole) return failure(whole.error().code, "header: " + whole.error().message);
  drop_replaced(reader.header);
  TRY_VOID(flat::place(reader.header, container.bytes, length, flat::Order::any, flat::Ends::anywhere));
  Map facts;
  facts.append("header_length", length);
  Model model = flat::model_of(std::move(reader.header), container, "safetensors", std::move(facts));
  model.string_pool = std::move(reader.string_pool);
  TRY_VOID(directory::warn_of_pieces(model, *container.budget));
  return model;
}

bool begins_an_object(std::string_view text) {
  return text.size() > 1 && text[0] == '{' && (text[1] == '"' || text[1] == '}' || is_white(text[1]));
}

}  // namespace
}  // namespace weightfs::safetensors

namespace weightfs {

Match matches_safetensors(const Probe& probe) {
  const auto& [name, head, tail, size] = probe;
  if (head.size() <= flat::kPrefix || size <= flat::kPrefix) return Match::no;
  const uint64_t length = flat::length_in(head);
  const std::string_view after = head.substr(flat::kPrefix);
  // A truncated download: reporting the missing bytes is better than an unknown format. A brace is not enough: in a
  // text, the eight bytes of the length are text, too.
  if (length > flat::kMaxHeaderSize || length > size - flat::kPrefix)
    return safetensors::begins_an_object(after) && !safetensors::is_text(head.substr(0, flat::kPrefix)) ? Match::yes
                                                                                                        : Match::no;
  const std::string_view header = after.substr(0, static_cast<size_t>(std::min<uint64_t>(length, after.size())));
  const auto* const first = std::find_if_not(header.begin(), header.end(), safetensors::is_white);
  if (first != header.end()) return *first == '{' ? Match::yes : Match::no;
  return header.size() < length ? Match::maybe : Match::no;
}

Result<Model> read_safetensors(const Container& container) { return safetensors::read_file(container); }

}  // namespace weightfs
