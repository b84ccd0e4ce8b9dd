// Names in pickles of PyTorch: which are permitted, which are reported.
#include "formats/pytorch/globals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/pickle_builder.h"

namespace weightfs::pytorch::globals_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// What is reported about a pickle with these names.
ReportedGlobals reported_of(const std::vector<std::string>& names, std::string_view subject, Warnings& warnings) {
  test::PickleBuilder object;
  object.raw("]").mark();
  for (const std::string& name : names)
    object.text(name.substr(0, name.find('.'))).text(name.substr(name.find('.') + 1)).raw("\x93");
  const SourcePtr bytes = in_memory(object.raw("e").pickle());
  Cursor cursor(*bytes, 0, bytes->size());
  Budget budget(bytes->size());
  return report_globals(*pickle::read_pickle(cursor, budget), subject, warnings);
}

TEST(Globals, TensorsAndPlainValuesArePermitted) {
  for (const char* name : {"torch._utils._rebuild_tensor_v2", "torch.FloatStorage", "torch.cuda.HalfStorage",
                           "torch.storage.UntypedStorage", "torch.bfloat16", "torch.Size", "collections.OrderedDict",
                           "builtins.set", "__builtin__.set", "__torch__.Model"})
    EXPECT_TRUE(is_permitted(name)) << name;
  for (const char* name : {"os.system", "argparse.Namespace", "torch.load", "torch.nn.modules.linear.Linear",
                           "torch.a.b.FloatStorage", "torchx.FloatStorage", "torch._utils._rebuild_anything", "", "."})
    EXPECT_FALSE(is_permitted(name)) << name;
}

TEST(Globals, DangerousNamesHaveWarningsOfTheirOwn) {
  Warnings warnings;
  const auto reported = reported_of({"torch.Size", "a.B", "os.system", "c.D", "builtins.eval"}, "p: ", warnings);
  EXPECT_EQ(to_json_line(Value(reported.all)), R"(["a.B","os.system","c.D","builtins.eval"])");
  EXPECT_EQ(reported.dangerous, "os.system, builtins.eval");
  EXPECT_THAT(warnings.lines(),
              ElementsAre(HasSubstr("p: names os.system: "), HasSubstr("p: names builtins.eval: "),
                          HasSubstr("p: names globals that torch.load(weights_only=True) refuses: a.B, c.D")));
}

TEST(Globals, PermittedNamesHaveNoWarning) {
  Warnings warnings;
  EXPECT_THAT(reported_of({"torch.Size"}, "", warnings).all, IsEmpty());
  EXPECT_EQ(warnings.size(), 0U);
}

TEST(Globals, ManyNamesAreOneWarning) {
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) names.push_back("m.C" + std::to_string(i));
  Warnings warnings;
  reported_of(names, "", warnings);
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("m.C9 and 40 more")));
}

TEST(Globals, NamesAreEscapedInWarnings) {
  Warnings warnings;
  EXPECT_EQ(reported_of({"os.a\nb"}, "", warnings).dangerous, "os.a\\x0ab");
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("os.a\\x0ab")));
}

}  // namespace
}  // namespace weightfs::pytorch::globals_test
