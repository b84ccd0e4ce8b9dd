// Names of models as the registry has them.
#include "serve/registry/names.h"

#include <gtest/gtest.h>

#include <string>

namespace weightfs::distribution_names_test {
namespace {

using namespace distribution;

TEST(RegistryNames, NamesOfFilesBecomeComponents) {
  EXPECT_EQ(component_of("llama3.2"), "llama3.2");
  EXPECT_EQ(component_of("Qwen2 7B (it).gguf"), "qwen2-7b--it-gguf");
  EXPECT_EQ(component_of("__x__y___z--"), "x__y-z");
  EXPECT_EQ(component_of("\xC3\xA4\xC3\xB6"), "model");
  EXPECT_TRUE(is_component("Qwen2-7B"));
  EXPECT_FALSE(is_component(".weightfs"));
  EXPECT_FALSE(is_component("a..b"));
  EXPECT_FALSE(is_component(""));
}

TEST(RegistryNames, TagsHaveTheFormOfTheSpecification) {
  EXPECT_TRUE(is_tag("_1.0-Q4_K_M"));
  EXPECT_FALSE(is_tag("-x"));
  EXPECT_FALSE(is_tag("a/b"));
  EXPECT_FALSE(is_tag(std::string(129, 'a')));
}

TEST(RegistryNames, DigestsOfOtherAlgorithmsAreValid) {
  EXPECT_TRUE(is_other_digest("sha512:" + std::string(128, 'a')));
  EXPECT_TRUE(is_other_digest("blake3:" + std::string(64, '0')));
  EXPECT_FALSE(is_other_digest("sha512:" + std::string(127, 'a')));
  EXPECT_FALSE(is_other_digest("sha512:" + std::string(128, 'A')));
  EXPECT_FALSE(is_other_digest("sha256:" + std::string(64, 'a')));
  EXPECT_FALSE(is_other_digest("md5:" + std::string(32, 'a')));
}

TEST(RegistryNames, SourceNamesItsModelAndTag) {
  EXPECT_EQ(name_of_source("/models/tiny@2.gguf").name, "tiny@2.gguf");
  EXPECT_EQ(name_of_source("hf://org/Tiny@main/").name, "Tiny");
  EXPECT_EQ(name_of_source("ollama:llama3.2:1b").name, "llama3.2");
  EXPECT_EQ(name_of_source("ollama:llama3.2:1b").tag, "1b");
  EXPECT_EQ(name_of_source("oci://h:5000/a/b:v1@sha256:00").tag, "v1");
  EXPECT_EQ(name_of_source("oci://h:5000/a/b").tag, "");
  EXPECT_EQ(without_ending("tiny.gguf"), "tiny");
  EXPECT_EQ(without_ending("llama3.2"), "llama3.2");
}

}  // namespace
}  // namespace weightfs::distribution_names_test
