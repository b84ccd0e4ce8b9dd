#include "formats/common/json_outline.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/values/json.h"

namespace weightfs {
namespace {

// Longer outlines are of no format's file.
constexpr size_t kMaxKeys = 64;

class OutlineReader final : public JsonEvents {
 public:
  bool scalar(Value value) override { return add(std::move(value)); }
  bool unsigned_integer(uint64_t n) override { return add(n <= INT64_MAX ? Value(static_cast<int64_t>(n)) : Value(n)); }
  bool string(std::string& text) override { return depth_ == 1 ? add(std::move(text)) : depth_ > 0; }
  bool key(std::string& text) override {
    if (depth_ == 1) key_ = text;
    return true;
  }
  bool begin_object() override {
    if (depth_ == 1) add(Map{});
    ++depth_;
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool begin_array() override { return depth_ > 0 && add(List{}) && ++depth_ > 0; }
  bool end_array() override { return --depth_, true; }

  Map take() {
    outline_.keep_last_of_each_key();
    return std::move(outline_);
  }

 private:
  // False, which stops the parser, if the value is not an object.
  bool add(Value value) {
    if (depth_ == 1 && outline_.size() < kMaxKeys) outline_.append(std::move(key_), std::move(value));
    return depth_ > 0;
  }

  Map outline_;
  std::string key_;
  int depth_ = 0;
};

}  // namespace

Result<Map> outline(const Source& json, uint64_t most) {
  if (json.size() > most)
    return failure(Code::unsupported, fmt::format("JSON of {} bytes, at most {} are read", json.size(), most));
  OutlineReader reader;
  TRY_VOID(read_json(json, 0, json.size(), reader));
  return reader.take();
}

}  // namespace weightfs
