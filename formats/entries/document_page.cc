#include "formats/entries/document_page.h"

#include <algorithm>
#include <optional>

#include "base/cancel.h"
#include "base/text.h"
#include "base/values/json.h"

namespace weightfs::metadata {
namespace {

constexpr size_t kMaxItem = 4096;         // bytes of an item
constexpr uint64_t kMaxValues = 100'000;  // of an item of a document

// What is nested becomes a text of JSON.
Value item_of(Value value) {
  if (const auto* const text = std::get_if<std::string>(&value)) return std::string(begin_of_text(*text, kMaxItem));
  const bool is_nested = std::holds_alternative<List>(value) || std::holds_alternative<Map>(value);
  return is_nested ? Value(std::string(begin_of_text(to_json_line(value), kMaxItem))) : value;
}

// Takes the items of the outermost list or object that a page has.
class PageReader final : public JsonEvents {
 public:
  PageReader(uint64_t offset, uint64_t limit) : offset_(offset), limit_(limit) {}

  bool scalar(Value value) override {
    return add([&] { return builder_->scalar(std::move(value)); });
  }
  bool unsigned_integer(uint64_t n) override {
    return add([&] { return builder_->unsigned_integer(n); });
  }
  bool string(std::string& text) override {
    if (depth_ == 0) {
      page_.total = text.size();
      page_.text = begin_of_text(text, kMaxPageText);
      return true;
    }
    return add([&] { return builder_->string(text); });
  }
  bool key(std::string& text) override {
    if (depth_ == 1 && is_shown()) page_.keys.push_back(text);
    return depth_ == 1 || !builder_ || builder_->key(text);
  }
  bool begin_object() override {
    return open([&] { return builder_->begin_object(); });
  }
  bool end_object() override {
    return close([&] { return builder_->end_object(); });
  }
  bool begin_array() override {
    return open([&] { return builder_->begin_array(); });
  }
  bool end_array() override {
    return close([&] { return builder_->end_array(); });
  }

  Page take() && { return std::move(page_); }

 private:
  bool is_shown() const { return page_.total >= offset_ && page_.total - offset_ < limit_; }

  void begin_item() {
    if (is_shown()) builder_.emplace(kMaxValues);
  }
  bool end_item() {
    if (builder_) page_.items.push_back(item_of(builder_->take()));
    builder_.reset();
    constexpr uint64_t kPart = 10'000;
    return ++page_.total % kPart != 0 || !is_cancelled();
  }

  template <class Build>
  bool add(const Build& build) {
    if (depth_ <= 1) begin_item();
    if (builder_ && !build()) return false;
    return depth_ > 1 || end_item();
  }
  template <class Build>
  bool open(const Build& build) {
    ++depth_;
    if (depth_ == 1) return true;
    if (depth_ == 2) begin_item();
    return !builder_ || build();
  }
  template <class Build>
  bool close(const Build& build) {
    --depth_;
    if (depth_ == 0) return true;
    if (builder_ && !build()) return false;
    return depth_ > 1 || end_item();
  }

  const uint64_t offset_;
  const uint64_t limit_;
  int depth_ = 0;
  std::optional<ValueBuilder> builder_;
  Page page_;
};

template <class Container, class Use>
void use_items(const Container& items, uint64_t offset, uint64_t limit, Page& page, const Use& use) {
  page.total = items.size();
  for (uint64_t i = offset; i < items.size() && i - offset < limit; ++i)
    use(*(items.begin() + static_cast<std::ptrdiff_t>(i)));
}

}  // namespace

Page page_of_value(const Value& value, uint64_t offset, uint64_t limit) {
  Page page;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    page.total = text->size();
    page.text = begin_of_text(*text, kMaxPageText);
  } else if (const auto* const list = std::get_if<List>(&value)) {
    use_items(*list, offset, limit, page, [&](const Value& item) { page.items.push_back(item_of(item)); });
  } else if (const auto* const map = std::get_if<Map>(&value)) {
    use_items(*map, offset, limit, page, [&](const Map::Entry& entry) {
      page.keys.push_back(entry.first);
      page.items.push_back(item_of(entry.second));
    });
  } else {
    page.total = 1;
    page.items.push_back(value);
  }
  return page;
}

Result<Page> page_of_document(const Source& json, uint64_t offset, uint64_t limit) {
  PageReader reader(offset, limit);
  const auto read = read_json(json, 0, json.size(), reader);
  if (is_cancelled()) return cancelled();
  if (!read) return tl::unexpected(read.error());
  return std::move(reader).take();
}

}  // namespace weightfs::metadata
