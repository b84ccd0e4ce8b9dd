// JSON that is written value by value.
#include "base/values/json_printer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weightfs::json_printer_test {
namespace {

// Lists and objects in each other, `depth` deep.
Value nested(int depth) {
  Value value = "text\nwith a line";
  for (int i = 0; i < depth; ++i) {
    Map map;
    map.append("key", i % 2 == 0 ? Value(List{value, 1.5}) : value);
    value = std::move(map);
  }
  return value;
}

class JsonPrinterTest : public testing::TestWithParam<JsonPrinter::Form> {
 protected:
  std::string whole(const Value& value) const {
    return GetParam() == JsonPrinter::Form::line ? to_json_line(value) : to_json(value);
  }

  std::string out_;
  JsonPrinter printer_{GetParam(), [this](std::string_view text) { out_ += text; }};
};

INSTANTIATE_TEST_SUITE_P(Forms, JsonPrinterTest, testing::Values(JsonPrinter::Form::indented, JsonPrinter::Form::line));

TEST_P(JsonPrinterTest, ObjectHasTheBytesOfTheWhole) {
  List items;
  Map map;
  map.append("empty", List{});
  for (int depth = 0; depth < 24; ++depth) items.push_back(nested(depth));
  map.append("items\n", items);
  map.append("one", nested(20));
  map.append("number", 1.0);
  printer_.begin_list("empty");
  printer_.end_list();
  printer_.begin_list("items\n");
  for (const Value& item : items) printer_.item(item);
  printer_.end_list();
  printer_.member("one", nested(20));
  printer_.member("number", 1.0);
  printer_.end();
  EXPECT_EQ(out_, whole(map));
}

TEST_P(JsonPrinterTest, ObjectMayBeEmpty) {
  printer_.end();
  EXPECT_EQ(out_, whole(Map{}));
}

}  // namespace
}  // namespace weightfs::json_printer_test
