// Names of models, by types/model/name.go of Ollama.
#include "formats/ollama/name.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/text.h"

namespace weightfs::name_test {
namespace {

using namespace ollama;
using testing::HasSubstr;

const std::string kHex(64, 'a');

// "scheme host namespace model tag[ digest]", or the error.
std::string read(const std::string& text) {
  const auto name = parse_name(text);
  if (!name) return "error: " + name.error().message;
  return fmt::format("{} {} {} {} {}{}", name->scheme, name->host, name->name_space, name->model, name->tag,
                     name->digest ? " " + name->digest->hex() : "");
}

TEST(OllamaName, DefaultsToLibraryNamespace) {
  EXPECT_EQ(read("llama3.2"), "https registry.ollama.ai library llama3.2 latest");
  EXPECT_EQ(read("llama3.2:1b"), "https registry.ollama.ai library llama3.2 1b");
  EXPECT_EQ(read("me/pirate"), "https registry.ollama.ai me pirate latest");
  EXPECT_EQ(read("hf.co/Example-Org/Tiny-GGUF:Q4_K_M"), "https hf.co Example-Org Tiny-GGUF Q4_K_M");
}

TEST(OllamaName, HostMayHavePort) {
  EXPECT_EQ(read("localhost:5000/team/tiny"), "https localhost:5000 team tiny latest");
  EXPECT_EQ(read("http://localhost:5000/team/tiny:v1"), "http localhost:5000 team tiny v1");
  EXPECT_EQ(read("https://r.example/ns/m"), "https r.example ns m latest");
}

TEST(OllamaName, MayEndInDigest) {
  EXPECT_EQ(read("m:7b@sha256:" + kHex), "https registry.ollama.ai library m 7b " + kHex);
  EXPECT_EQ(read("m@sha256-" + std::string(64, 'A')), "https registry.ollama.ai library m latest " + kHex);
  for (const std::string& wrong :
       {std::string("m@"), std::string("m@sha256:"), std::string("m@md5:aa"), "m@sha512:" + kHex, "m@" + kHex})
    EXPECT_THAT(read(wrong), HasSubstr("sha256: and 64 hex digits expected after the @")) << wrong;
}

// A separator with an empty side is invalid.
TEST(OllamaName, EmptyPartIsRefused) {
  for (const char* const wrong :
       {"", ":", "/", "m:", ":tag", "/m", "ns/", "h//m", "/ns/m", "h/ns/", "@sha256:", "//", "///"})
    EXPECT_THAT(read(wrong), HasSubstr("error: ")) << wrong;
}

TEST(OllamaName, InvalidCharacterIsRefused) {
  EXPECT_EQ(read("a.b/m"), "error: \"a.b/m\": not a model's name: \"a.b\" cannot be a namespace");
  EXPECT_EQ(read("h/a/b/m"), "error: \"h/a/b/m\": not a model's name: \"h/a\" cannot be a host");
  EXPECT_EQ(read("m:a:b"), "error: \"m:a:b\": not a model's name: \"m:a\" cannot be a model");
  for (const char* const wrong :
       {"..", ".m", "-m", "m m", "m\n", "../m", "h/../m", "m:.", "m:..", "h/n/.m", "\xC3\xA9", "a%2F"})
    EXPECT_THAT(read(wrong), HasSubstr("not a model's name")) << wrong;
}

TEST(OllamaName, PartLengthIsBounded) {
  const std::string long_part(80, 'a');
  const std::string long_host(350, 'h');
  EXPECT_THAT(read(fmt::format("{}/{}/{}:{}", long_host, long_part, long_part, long_part)),
              testing::StartsWith("https h"));
  EXPECT_THAT(read(long_part + "a"), HasSubstr("cannot be a model"));
  EXPECT_THAT(read(fmt::format("m:{}a", long_part)), HasSubstr("cannot be a tag"));
  EXPECT_THAT(read(fmt::format("{}a/m", long_part)), HasSubstr("cannot be a namespace"));
  EXPECT_THAT(read(fmt::format("{}h/n/m", long_host)), HasSubstr("cannot be a host"));
}

TEST(OllamaName, SchemeIsHttpOrHttps) {
  EXPECT_THAT(read("ftp://h/n/m"), HasSubstr("scheme \"ftp\", http or https expected"));
  EXPECT_THAT(read("https+insecure://h/n/m"), HasSubstr("http or https expected"));
  EXPECT_THAT(read("http://h/m"), HasSubstr("host/namespace/model expected after http://"));
  EXPECT_THAT(read("http://"), HasSubstr("host/namespace/model expected"));
}

TEST(OllamaName, ShortestOmitsDefaults) {
  for (const char* const name :
       {"llama3.2:latest", "me/pirate:7b", "hf.co/Example-Org/Tiny-GGUF:Q4_K_M", "localhost:5000/library/tiny:v1"}) {
    EXPECT_EQ(parse_name(name)->shortest(), name);
    EXPECT_EQ(*parse_name(parse_name(name)->shortest()), *parse_name(name));
  }
  EXPECT_EQ(parse_name("registry.ollama.ai/library/m")->shortest(), "m:latest");
}

TEST(OllamaName, IsParsedFromStorePath) {
  const auto read_path = [](std::string_view path) {
    const auto name = name_of_path(path);
    return name ? name->shortest() : "none";
  };
  EXPECT_EQ(read_path("registry.ollama.ai/library/Tiny-Random/Latest"), "Tiny-Random:Latest");
  EXPECT_EQ(read_path("localhost:5000/team/tiny/v1"), "localhost:5000/team/tiny:v1");
  for (const char* const path : {"", "m", "library/m/latest", "h/n/m/t/more", "h/n/m/.DS_Store", "h/n/m/", "/n/m/t",
                                 "h/../m/t", "h//m/t", "h/n.s/m/t", "h/n/m/t:x"})
    EXPECT_EQ(read_path(path), "none") << path;
}

}  // namespace
}  // namespace weightfs::name_test
