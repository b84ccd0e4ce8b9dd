#include "sources/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/builders/safetensors_builder.h"
#include "tests/support/may_open.h"
#include "tests/support/temporary.h"

namespace weightfs::kinds_test {
namespace {

using testing::HasSubstr;

TEST(SourceKind, OnlyPrefixMakesAName) {
  EXPECT_TRUE(is_path("model.gguf"));
  EXPECT_TRUE(is_path("/models/ollama:x"));
  EXPECT_TRUE(is_path("./ollama:x"));
  EXPECT_TRUE(is_path("with:colon/model.gguf"));
  EXPECT_FALSE(is_path("ollama:llama3.2"));
  EXPECT_FALSE(is_path("ollama:"));
}

// Refused before a request: there is no store, which is the next error.
TEST(SourceKind, RequireDigestNeedsADigestOrACommit) {
  OpenOptions options;
  options.require_digest = true;
  const auto refused = [&](const std::string& source) {
    const auto found = find_source(source, options, TestProcess::may_open());
    return !found && found.error().message.find("no digest in the name") != std::string::npos;
  };
  const std::string digest = "sha256:" + std::string(64, 'a');
  EXPECT_TRUE(refused("oci://localhost/a:tag"));
  EXPECT_TRUE(refused("oci://localhost/a@sha256:12"));
  EXPECT_FALSE(refused("oci://localhost/a@" + digest));
  EXPECT_TRUE(refused("ollama:tiny"));
  EXPECT_FALSE(refused("ollama:tiny:latest@" + digest));
  EXPECT_TRUE(refused("hf://a/b@main"));
  EXPECT_TRUE(refused("hf://a/b@" + std::string(39, 'a')));
  EXPECT_FALSE(refused("hf://a/b@" + std::string(40, 'a') + "/m.gguf"));
  EXPECT_TRUE(refused("https://localhost/m.gguf"));
  EXPECT_FALSE(refused("no-such-path"));
}

TEST(SourceKind, PathWithAColonIsFound) {
  const TemporaryDirectory here;
  const std::string model = test::SafetensorsBuilder().tensor("w", "U8", "1", "x").build();
  const std::string path = here.write("ollama:x", model);
  const auto found = find_source(path, {}, TestProcess::may_open());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, "ollama:x");
}

// Reading the header to check it would double the time to open a single model.
TEST(SourceKind, HeaderIsReadOnlyForTheCheckOfAModel) {
  const TemporaryDirectory here;
  const std::string path = here.write("notes.txt", "no model");
  EXPECT_TRUE(find_source(path, {}, TestProcess::may_open(), Check::existence));
  EXPECT_FALSE(find_source(path, {}, TestProcess::may_open(), Check::model));
}

TEST(SourceKind, InvalidNameIsRefusedByItsKind) {
  const auto found = find_source("ollama:..", {}, TestProcess::may_open());
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("not a model's name"));
}

TEST(SourceKind, MissingPathIsNotFound) {
  EXPECT_EQ(find_source("/does/not/exist", {}, TestProcess::may_open()).error().code, Code::not_found);
}

}  // namespace
}  // namespace weightfs::kinds_test
