// Pickles as trees of values.
#include "formats/pickle/pickle.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/pickle_builder.h"

namespace weightfs::pickle::pickle_test {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::StartsWith;

// A value as Python would write it; calls as they are in the pickle.
std::string repr(const Pickle& p, Index value, int depth = 0);

std::string joined(const Pickle& p, Index value, int depth) {
  std::vector<std::string> items;
  for (const Index item : p.items(value)) items.push_back(repr(p, item, depth + 1));
  return fmt::format("{}", fmt::join(items, ", "));
}

std::string repr_call(const Pickle& p, const Call& call, int depth) {
  std::string text = repr(p, call.callable, depth) + repr(p, call.arguments, depth);
  if (call.list != kNoValue) text += " += " + repr(p, call.list, depth);
  if (call.dict != kNoValue) text += " |= " + repr(p, call.dict, depth);
  if (call.state != kNoValue) text += " state " + repr(p, call.state, depth);
  return text;
}

std::string repr(const Pickle& p, Index value, int depth) {
  if (depth > 9) return "...";
  switch (p.kind(value)) {
    case Kind::none:
      return "None";
    case Kind::boolean:
      return *p.integer(value) != 0 ? "True" : "False";
    case Kind::integer:
      return std::to_string(*p.integer(value));
    case Kind::big_integer:
      return std::string(p.text(value));
    case Kind::real:
      return fmt::format("{}", p.real(value));
    case Kind::text:
      return fmt::format("'{}'", p.text(value));
    case Kind::buffer:
      return "buffer";
    case Kind::byte_array:
    case Kind::bytes:
      return fmt::format("b'{}'", p.text(value));
    case Kind::list:
      return fmt::format("[{}]", joined(p, value, depth));
    case Kind::tuple:
      return fmt::format("({})", joined(p, value, depth));
    case Kind::set:
      return fmt::format("set({})", joined(p, value, depth));
    case Kind::dict:
      return fmt::format("{{{}}}", joined(p, value, depth));
    case Kind::global:
      return std::string(p.global(value));
    case Kind::call:
      return repr_call(p, p.call(value), depth);
    case Kind::persistent:
      return fmt::format("<{}>", repr(p, p.identifier(value), depth));
  }
  return "?";
}

std::string read(std::string_view opcodes) {
  const auto bytes = in_memory(std::string(opcodes));
  Cursor cursor(*bytes, 0, bytes->size());
  Budget budget(bytes->size());
  const auto pickle = read_pickle(cursor, budget);
  return pickle ? repr(*pickle, pickle->root()) : "error: " + pickle.error().message;
}

TEST(Pickle, ReadsPlainValues) {
  EXPECT_EQ(read("N."), "None");
  EXPECT_EQ(read("\x80\x02\x88."), "True");
  EXPECT_EQ(read("I00\n."), "False");
  EXPECT_EQ(read("K\xFF."), "255");
  EXPECT_EQ(read("J\xFF\xFF\xFF\xFF."), "-1");
  EXPECT_EQ(read("I-12\n."), "-12");
  EXPECT_EQ(read("L12L\n."), "12");
  EXPECT_EQ(read("F0.5\n."), "0.5");
  EXPECT_EQ(read(PickleBuilder().real(-2.5).pickle()), "-2.5");
  EXPECT_EQ(read(PickleBuilder().text("naïve").pickle()), "'naïve'");
  EXPECT_EQ(read("S'a'\n."), "'a'");
  EXPECT_EQ(read("Va\\u00e9\\U0001F600\xE9\n."), "'aé😀é'");
  EXPECT_EQ(read("\x8C\x01z."), "'z'");
  EXPECT_EQ(read("C\x01z."), "b'z'");
}

TEST(Pickle, ReadsIntegersOfAnySize) {
  EXPECT_EQ(read(std::string_view("\x8A\0.", 3)), "0");
  EXPECT_EQ(read("\x8A\x01\x80."), "-128");
  EXPECT_EQ(read(std::string("\x8A\x09") + std::string(8, '\xFF') + std::string("\0.", 2)), "18446744073709551615");
  EXPECT_EQ(read("\x8A\x09" + std::string(8, '\0') + "\xFF."), "-18446744073709551616");
  EXPECT_EQ(read("\x8A\xFF" + std::string(254, '\0') + "\x01.").size(), 612U);  // 256 to the power of 254
  EXPECT_EQ(read("L123456789012345678901234567890L\n."), "123456789012345678901234567890");
}

TEST(Pickle, ReadsContainers) {
  EXPECT_EQ(read("](K\1K\2e."), "[1, 2]");
  EXPECT_EQ(read("(K\1K\2l."), "[1, 2]");
  EXPECT_EQ(read("]K\1a."), "[1]");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("K\1K\2K\3\x87."), "(1, 2, 3)");
  EXPECT_EQ(read("}(K\1NK\2\x88u."), "{1, None, 2, True}");
  EXPECT_EQ(read("(K\1Nd."), "{1, None}");
  EXPECT_EQ(read("\x8F(K\1\x90."), "set(1)");
  EXPECT_EQ(read("(K\1\x91."), "set(1)");
}

TEST(Pickle, SharesValuesThroughMemo) {
  EXPECT_EQ(read("(]q\5K\1ah\5t."), "([1], [1])");
  EXPECT_EQ(read("(N\x94K\1\x94h\1h" + le(0, 1) + "t."), "(None, 1, 1, None)");
  EXPECT_EQ(read("(Np70000\ng70000\nt."), "(None, None)");
  EXPECT_EQ(read("(Nr\xFF\xFF\xFF\xFFj\xFF\xFF\xFF\xFFt."), "(None, None)");
  EXPECT_THAT(read("]q\1h\1a."), StartsWith("[[[["));
}

TEST(Pickle, KeepsCallsAsNamesAndArguments) {
  EXPECT_EQ(read(PickleBuilder().call("os", "system", PickleBuilder().text("id")).pickle()), "os.system('id')");
  EXPECT_EQ(read("(S'id'\nios\nsystem\n."), "os.system('id')");
  EXPECT_EQ(read("(cos\nsystem\nS'id'\no."), "os.system('id')");
  EXPECT_EQ(read("S'os'\nS'system'\n\x93)\x81."), "os.system()");
  EXPECT_EQ(read("cos\nsystem\n)}\x92."), "os.system((), {})");
  EXPECT_EQ(read("N)R."), "None()");
  EXPECT_EQ(read("NN\x93."), "?.?");
}

TEST(Pickle, KeepsStateAndItemsOfObjects) {
  EXPECT_EQ(read("ca\nB\n)R}K\1NsbK\1a."), "a.B() += [1] state {1, None}");
  EXPECT_EQ(read("ca\nB\n)RK\1Ns."), "a.B() |= {1, None}");
  EXPECT_EQ(read("ca\nB\n)RK\1bK\2b."), "a.B() state (1, 2)");
  EXPECT_EQ(read("NK\1b."), "None");
}

TEST(Pickle, KeepsPersistentIdentifiers) {
  EXPECT_EQ(read("K\1Q."), "<1>");
  EXPECT_EQ(read("Pkey\n."), "<'key'>");
}

TEST(Pickle, ReadsUpToStop) {
  const auto bytes = in_memory("K\1.K\2.");
  Cursor cursor(*bytes, 0, bytes->size());
  Budget budget(0);
  ASSERT_TRUE(read_pickle(cursor, budget));
  EXPECT_EQ(cursor.position(), 3U);
}

TEST(Pickle, DoesNotKeepLongTexts) {
  const std::string text(kMaxText + 1, 't');
  const auto bytes = in_memory(PickleBuilder().text(text).pickle());
  Cursor cursor(*bytes, 0, bytes->size());
  Budget budget(0);
  const auto pickle = read_pickle(cursor, budget).value();
  EXPECT_EQ(pickle.text(pickle.root()), "");
  EXPECT_EQ(pickle.length(pickle.root()), text.size());
}

TEST(Pickle, RefusesWhatUnpicklingRefuses) {
  EXPECT_THAT(read(""), HasSubstr("no STOP"));
  EXPECT_THAT(read("N"), HasSubstr("no STOP"));
  EXPECT_THAT(read("."), HasSubstr("a value is missing"));
  EXPECT_THAT(read("(."), HasSubstr("MARK"));
  EXPECT_THAT(read("t."), HasSubstr("no MARK"));
  EXPECT_THAT(read("N(Na."), HasSubstr("a value is missing"));
  EXPECT_THAT(read("NK\1a."), HasSubstr("items for a value that has none"));
  EXPECT_THAT(read("}(K\1u."), HasSubstr("a key without a value"));
  EXPECT_THAT(read("h\1."), HasSubstr("slot 1"));
  EXPECT_THAT(read("\xF0."), HasSubstr("unknown opcode 0xf0"));
  EXPECT_THAT(read("\x82\1."), HasSubstr("extension"));
  EXPECT_THAT(read("\x80\x06."), HasSubstr("protocol 6"));
  EXPECT_THAT(read("Ix\n."), HasSubstr("not a valid integer"));
}

TEST(Pickle, RefusesLengthsBeyondItsEnd) {
  const std::string most(8, '\xFF');
  EXPECT_THAT(read("X" + most.substr(0, 4) + "."), HasSubstr("4294967295 bytes"));
  EXPECT_THAT(read("\x8D" + most + "."), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(read("\x96" + most + "."), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(read("T" + most.substr(0, 4) + "."), HasSubstr("bytes"));
  EXPECT_THAT(read("\x8B" + most.substr(0, 4) + "."), HasSubstr("negative"));
}

TEST(Pickle, RefusesTooManyMarks) { EXPECT_THAT(read(std::string(100'000, '(') + "."), HasSubstr("nested deeper")); }

TEST(Pickle, FreesDeepNestingWithoutRecursion) {
  const std::string deep = std::string(100'000, ']') + std::string(99'999, 'a') + ".";
  EXPECT_THAT(read(deep), StartsWith("[[[["));
}

TEST(Pickle, ReleasesItsChargeWhenItIsFreed) {
  Budget budget(0);
  {
    const auto bytes = in_memory("](K\1K\2e.");
    Cursor cursor(*bytes, 0, bytes->size());
    const auto pickle = read_pickle(cursor, budget);
    ASSERT_TRUE(pickle);
    EXPECT_GT(budget.memory_used(), 0U);
  }
  EXPECT_EQ(budget.memory_used(), 0U);
}

// Each byte makes a value that stays on the stack.
TEST(Pickle, ChargesValuesToBudget) {
  const std::string many = std::string(2'000'000, ']') + ".";
  const auto bytes = in_memory(many);
  Cursor cursor(*bytes, 0, bytes->size());
  Budget small(0);
  const auto refused = read_pickle(cursor, small);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the memory limit"));
}

}  // namespace
}  // namespace weightfs::pickle::pickle_test
