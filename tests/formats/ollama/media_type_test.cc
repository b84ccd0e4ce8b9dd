// Media types as Go's mime.ParseMediaType reads them, but for values without quotes.
#include "formats/ollama/media_type.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace weightfs::media_type_test {
namespace {

using namespace ollama;
using testing::HasSubstr;

// "type|name=value|name=value", or the error.
std::string read(std::string_view text) {
  const auto type = parse_media_type(text);
  if (!type) return "error: " + type.error().message;
  std::string out = type->type;
  for (const auto& [name, value] : type->parameters) out += fmt::format("|{}={}", name, value);
  return out;
}

TEST(MediaType, TypeIsLowerCaseAndParametersKeepOrder) {
  EXPECT_EQ(read("application/vnd.ollama.image.model"), "application/vnd.ollama.image.model");
  EXPECT_EQ(read(" Application/X ; Name = w ;dtype=F32"), "application/x|name=w|dtype=F32");
  EXPECT_EQ(read("form-data; name=w"), "form-data|name=w") << "Go takes a disposition too";
}

TEST(MediaType, QuotedValuesMayHaveAnyCharacter) {
  EXPECT_EQ(read(R"(a/b; name="quoted; name=x"; c=d)"), "a/b|name=quoted; name=x|c=d");
  EXPECT_EQ(read(R"(a/b; name="say \"hi\" \\ there")"), R"(a/b|name=say "hi" \ there)");
  EXPECT_EQ(read(R"(a/b; name="C:\dev\go")"), R"(a/b|name=C:\dev\go)") << "an escape that needs none is itself";
  EXPECT_EQ(read(R"(a/b; name="")"), "a/b|name=");
}

// The document's own example is `shape=1,2,3`, which is not a token by RFC 2045.
TEST(MediaType, UnquotedValuesEndAtSemicolon) {
  EXPECT_EQ(read("a/b; shape=1,2,3; name=x/y[0]"), "a/b|shape=1,2,3|name=x/y[0]");
  EXPECT_EQ(read("a/b; shape=; name=n"), "a/b|shape=|name=n");
  EXPECT_EQ(read("a/b; shape="), "a/b|shape=");
}

TEST(MediaType, TrailingSemicolonsAreIgnored) {
  EXPECT_EQ(read("a/b;"), "a/b");
  EXPECT_EQ(read("a/b; c=d ; "), "a/b|c=d");
}

TEST(MediaType, ConflictingParametersAreRefused) {
  EXPECT_EQ(read("a/b; c=d; C=d"), "a/b|c=d") << "the same again says nothing new";
  EXPECT_EQ(read("a/b; c=d; c=e"), "error: media type: repeated: \"c\"");
}

TEST(MediaType, InvalidTypeIsRefused) {
  for (const char* const text : {"", ";", "/", "a/", "/b", "a/b/c", "a b/c", "a/b c", "\xFF/b"})
    EXPECT_THAT(read(text), HasSubstr("error: not a media type: ")) << text;
  EXPECT_EQ(read("a/b; [name=<name>]"), "error: media type: not a name of a parameter: \"[name\"");
  EXPECT_EQ(read("a/b; c"), "error: media type: no value in \"c\"");
  EXPECT_EQ(read("a/b; c; d=e"), "error: media type: no value in \"c\"");
  EXPECT_EQ(read("a/b; =d"), "error: media type: not a name of a parameter: \"\"");
  EXPECT_EQ(read("a/b; c=\"d"), "error: media type: no closing quote in the value of \"c\"");
  EXPECT_EQ(read("a/b; c=\"d\ne\""), "error: media type: no closing quote in the value of \"c\"");
  EXPECT_EQ(read("a/b; c=\"d\"e"), "error: media type: `;` expected before \"e\"");
}

TEST(MediaType, NumberOfParametersIsBounded) {
  std::string many = "a/b";
  for (int i = 0; i < 17; ++i) many += fmt::format("; p{}={}", i, i);
  EXPECT_EQ(read(many), "error: media type: more than 16 parameters");
}

TEST(MediaType, TypeIsReadDespiteInvalidParameters) {
  EXPECT_EQ(without_parameters(" A/B ; c=\"d"), "a/b");
  EXPECT_EQ(without_parameters(""), "");
}

}  // namespace
}  // namespace weightfs::media_type_test
