#include "formats/graphs/graph_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace weightfs::test::graph_writer_test {
namespace {

TEST(GraphWriter, ElementsAreSeparatedByCommas) {
  Budget budget(1'000'000);
  const auto text = graph_document(budget, [](GraphWriter& out) -> Result<void> {
    out.begin('{');
    TRY_VOID(out.text_attribute("name", "a\"b"));
    TRY_VOID(out.list("shape", 2, [](size_t i) -> Result<std::string> { return std::to_string(i); }));
    TRY_VOID(out.list("none", 0, [](size_t) -> Result<std::string> { return "0"; }));
    out.begin("nodes", '[');
    for (const char* id : {"7", "8"}) {
      out.begin_node(1);
      TRY_VOID(out.attribute("id", id));
      TRY_VOID(out.end("}"));
    }
    TRY_VOID(out.end("]"));
    out.line();
    TRY_VOID(out.attribute("last", "null"));
    return out.end("}");
  });
  EXPECT_EQ(text.value_or(""), R"({"name":"a\"b","shape":[0,1],"none":[],"nodes":[
  {"id":7},
  {"id":8}],
"last":null}
)");
}

TEST(GraphWriter, FailureOfAValueEndsTheDocument) {
  Budget budget(1'000'000);
  const auto text = graph_document(budget, [](GraphWriter& out) {
    return out.list("x", 3, [](size_t i) -> Result<std::string> {
      return i == 1 ? failure(Code::corrupt, "value 1") : Result<std::string>("0");
    });
  });
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "value 1");
}

}  // namespace
}  // namespace weightfs::test::graph_writer_test
