// Arguments that look like the name of a source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sources/source.h"
#include "tests/support/may_open.h"

namespace weightfs::mistyped_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string message_of(const std::string& source) {
  const auto found = find_source(source, {}, TestProcess::may_open());
  if (found) return "found";
  EXPECT_EQ(found.error().code, Code::not_found) << found.error().message;
  return found.error().message;
}

// semantics 1.5
TEST(MistypedSource, PageOfTheHubIsARepository) {
  const auto meant = [](const std::string& path) {
    const std::string message = message_of("https://huggingface.co/" + path);
    const size_t at = message.find("; did you mean ");
    return at == message.npos ? message : message.substr(at + 15);
  };
  EXPECT_EQ(message_of("https://huggingface.co/org/repo"),
            "https://huggingface.co/org/repo: a page of the Hugging Face Hub, not a file; did you mean hf://org/repo?");
  EXPECT_EQ(meant("org/repo/"), "hf://org/repo?");
  EXPECT_EQ(meant("org/repo?library=x"), "hf://org/repo?");
  EXPECT_EQ(meant("org/repo/tree/main"), "hf://org/repo?");
  EXPECT_EQ(meant("org/repo/tree/refs%2Fpr%2F1/sub"), "hf://org/repo@refs%2Fpr%2F1/sub?");
  EXPECT_EQ(meant("org/repo/blob/v1/a%20b.gguf"), "hf://org/repo@v1/a b.gguf?");
  EXPECT_EQ(meant("datasets/org/repo"), "hf://datasets/org/repo?");
}

TEST(MistypedSource, OtherUrlsAreRequested) {
  for (const char* const url :
       {"https://huggingface.co/org/repo/resolve/main/m.gguf", "https://huggingface.co/org/repo/raw/main/m.gguf",
        "https://huggingface.co/api/models", "https://huggingface.co/org", "https://example.com/org/repo",
        "HTTPS://Example.com/org/repo"}) {
    const auto found = find_source(url, {}, TestProcess::may_open());
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, EndsWith("URLs are not available here")) << url;
  }
}

TEST(MistypedSource, PageOfTheConfiguredHubIsARepository) {
  ::setenv("HF_ENDPOINT", "http://127.0.0.1:8/", 1);
  EXPECT_THAT(message_of("http://127.0.0.1:8/org/repo"), EndsWith("did you mean hf://org/repo?"));
  ::unsetenv("HF_ENDPOINT");
}

TEST(MistypedSource, UnknownSchemeIsNamed) {
  EXPECT_EQ(message_of("htps://h.example/m.gguf?key=secret"),
            "htps://h.example/m.gguf: unknown scheme \"htps\"; did you mean https://h.example/m.gguf?");
  for (const char* const typed : {"htpps", "htttps", "httpss", "https1"})
    EXPECT_THAT(message_of(std::string(typed) + "://h/m"), EndsWith("did you mean https://h/m?")) << typed;
  EXPECT_THAT(message_of("fh://org/repo"), EndsWith("did you mean hf://org/repo?"));
  EXPECT_THAT(message_of("oic://h/r:t"), EndsWith("did you mean oci://h/r:t?"));
  EXPECT_EQ(
      message_of("ftp://h/m"),
      "ftp://h/m: unknown scheme \"ftp\"; known are https://, http://, hf://, ms://, oci://, s3://, gs://, az:// and "
      "ollama:");
  EXPECT_THAT(message_of("modelscope://org/name"), EndsWith("did you mean ms://org/name?"));
  EXPECT_THAT(message_of("gcs://bucket/m"), EndsWith("did you mean gs://bucket/m?"));
}

TEST(MistypedSource, FileUrlIsAPath) {
  EXPECT_EQ(message_of("file:///a%20b/m.gguf"), "file:///a%20b/m.gguf: not a path; did you mean /a b/m.gguf?");
  EXPECT_THAT(message_of("file://localhost/m"), EndsWith("did you mean /m?"));
}

TEST(MistypedSource, NameWithoutASchemeIsCompleted) {
  EXPECT_THAT(message_of("org/repo"), EndsWith("; did you mean hf://org/repo?"));
  EXPECT_THAT(message_of("org/repo@v1/sub"), EndsWith("; did you mean hf://org/repo@v1/sub?"));
  EXPECT_THAT(message_of("huggingface.co/org/repo"), EndsWith("; did you mean hf://org/repo?"));
  EXPECT_THAT(message_of("localhost:8080/m.gguf"),
              EndsWith("; did you mean http://localhost:8080/m.gguf or oci://localhost:8080/m.gguf?"));
  EXPECT_THAT(message_of("h.example:8080/x"),
              EndsWith("; did you mean https://h.example:8080/x or oci://h.example:8080/x?"));
  EXPECT_THAT(message_of("ghcr.io/org/model:tag"), EndsWith("; did you mean oci://ghcr.io/org/model:tag?"));
}

TEST(MistypedSource, PathGetsNoHint) {
  for (const std::string& path : {std::string("/org/repo"), std::string("./org/repo"), std::string("../org/repo"),
                                  std::string("downloads/m.gguf"), std::string("m.gguf"), std::string("a/b/../c"),
                                  std::string("org/re po"), std::string("ollama")})
    EXPECT_THAT(message_of(path), Not(HasSubstr("did you mean"))) << path;
}

}  // namespace
}  // namespace weightfs::mistyped_test
