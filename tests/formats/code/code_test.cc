// What runs code in models that no builder of Python writes, and the list itself. The table is
// tests/mount/test_cases_code.py.
#include "formats/code/code.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "formats/code/keras.h"
#include "formats/code/template.h"
#include "tests/support/hdf5_reading.h"

namespace weightfs::test::code_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> code_in(const Model& model) {
  std::vector<std::string> whats;
  for (const CodeItem& item : code_of(model).items) whats.push_back(item.what);
  return whats;
}

Model h5_with(const std::string& attribute, const std::string& text) {
  Hdf5Builder b;
  return read_h5_well(b.build(b.group({}, {Hdf5Builder::text_attribute(attribute, text)})));
}

std::string of_layer(const std::string& layer) {
  return fmt::format(R"({{"class_name": "Sequential", "config": {{"layers": [{}]}}}})", layer);
}

// semantics 2.7
TEST(Code, ConfigurationsInHdf5AreExamined) {
  const auto found = [](const std::string& layer) { return code_in(h5_with("model_config", of_layer(layer))); };
  EXPECT_THAT(found(R"({"class_name": "Lambda", "config": {"name": "twice"}})"), ElementsAre("Lambda layer \"twice\""));
  EXPECT_THAT(found(R"({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}})"),
              ElementsAre("TFOpLambda of tf.io.write_file"));
  EXPECT_THAT(found(R"({"class_name": "Custom>Mine", "config": {}})"), ElementsAre("custom class Custom>Mine"));
  EXPECT_THAT(found(R"({"class_name": "function", "module": "os", "config": "system"})"), ElementsAre("os.system"));
  EXPECT_THAT(found(R"({"class_name": "Dense", "config": {"name": "d", "activation": "relu"}})"), IsEmpty());
  EXPECT_THAT(found(R"({"class_name": "TFOpLambda", "config": {"function": "math.add"}})"), IsEmpty());
}

// json.loads() of Python accepts both.
TEST(Code, ConfigurationsWithWhiteSpaceOrNanAreExamined) {
  const std::string lambda = of_layer(R"({"class_name": "Lambda", "config": {"name": "l", "rate": NaN}})");
  EXPECT_THAT(code_in(h5_with("model_config", lambda)), ElementsAre("Lambda layer \"l\""));
  EXPECT_THAT(code_in(h5_with("model_config", " \n" + of_layer(R"({"class_name": "Lambda", "config": {}})"))),
              ElementsAre("Lambda layer"));
}

TEST(Code, LossesInHdf5AreExamined) {
  EXPECT_THAT(code_in(h5_with("training_config", R"({"loss": {"module": "mine", "class_name": "Loss"}})")),
              ElementsAre("mine.Loss"));
}

TEST(Code, ItemsAreKeptOnceAndFurtherOnesAreCounted) {
  CodeList list;
  for (int i = 0; i < 300; ++i) list.add({fmt::format("f{}", i % 299), "file", "when"});
  EXPECT_EQ(list.items().size(), kMaxCodeItems + 1);
  EXPECT_EQ(list.items().back().what, "and 43 others");
  Map common;
  std::move(list).move_to(common);
  CodeList again;
  again.append(common, "");
  EXPECT_EQ(again.items().back().what, "and 43 others");
}

TEST(Code, LongAndOddTextsAreCutAndPrintable) {
  CodeList list;
  list.add({"a\x1b" + std::string(1000, 'x'), "", ""});
  EXPECT_TRUE(list.items()[0].what.starts_with("a\\x1bx"));
  EXPECT_LT(list.items()[0].what.size(), 310u);
}

TEST(Code, TemplatesThatBreakAreReadToTheirEnd) {
  for (const char* text :
       {"{{", "{%", "{{ '", "{{ x[", "{#", "{% raw %}", "{% raw %} endraw", "{", "{{ '\\", "{{ '\\x'"})
    EXPECT_THAT(code::reached_by(text), IsEmpty()) << text;
  EXPECT_THAT(code::reached_by("{{ x.__class__"), ElementsAre(".__class__"));
}

}  // namespace
}  // namespace weightfs::test::code_test
