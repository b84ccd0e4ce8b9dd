// The metadata, tokens and texts of a model in the API, without sockets.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

#include "fs/layout/layout.h"
#include "serve/api/api.h"
#include "tests/builders/gguf_builder.h"
#include "tests/support/surroundings.h"

namespace weightfs::api_metadata_test {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

class ApiMetadata : public testing::Test {
 protected:
  static TreePtr tree() {
    GgufBuilder b;
    std::string words, types;
    for (int i = 0; i < 3000; ++i) words += b.text(i == 1 ? "<|im_start|>" : fmt::format("\xC4\xA0w{}", i));
    for (int i = 0; i < 3000; ++i) types += b.number(i == 1 ? 3 : 1);
    b.string("general.architecture", "llama").u32("llama.block_count", 2).string("tokenizer.ggml.model", "gpt2");
    b.key("tokenizer.ggml.tokens", kArray, b.array(kString, 3000, words));
    b.key("tokenizer.ggml.token_type", kArray, b.array(kI32, 3000, types));
    b.string("tokenizer.chat_template", "{{ x }}<|im_start|>").string("long", std::string(5000, 'x'));
    b.string("\x1B[31m", "\xFF");
    return lay_out(std::make_shared<Model>(read_model({"m.gguf", in_memory(b.build())}).value()), "m",
                   1'700'000'000'000'000'000);
  }

  struct Answer {
    int status;
    std::string text;
  };
  Answer ask(const std::string& target) {
    httpd::Request request;
    request.method = "GET";
    request.target = "/.weightfs/api/v1/" + target;
    const auto answered = api_.answer(request, httpd::parse_target(request.target).value(), {});
    if (!*answered) return {(*answered).error().status, (*answered).error().message};
    Answer out{(**answered).status, ""};
    for (const httpd::BodyPart& part : (**answered).body)
      if (const auto* shared = std::get_if<httpd::SharedText>(&part)) out.text += *shared->text;
    return out;
  }
  std::string body(const std::string& target) { return ask(target).text; }

  Forest forest_{tree()};
  api::Api api_{forest_, "m.gguf", [](const std::string& path) { return "/" + path; }};
};

TEST_F(ApiMetadata, EntriesHaveTheTypesOfGguf) {
  EXPECT_THAT(
      body("metadata?q=block_count"),
      HasSubstr(R"("key":"llama.block_count","from":"gguf","type":"uint32","shown":"2","opens":null,"count":0)"));
  EXPECT_THAT(body("metadata?q=block_count"), HasSubstr(R"("total":1,"offset":0,"from":["model","gguf"])"));
  EXPECT_THAT(body("metadata?from=gguf&limit=1"), HasSubstr("general.architecture"));
  EXPECT_THAT(body("metadata?from=gguf&limit=1&offset=1"), Not(HasSubstr("general.architecture")));
  EXPECT_EQ(ask("metadata?limit=1001").status, 400);
}

TEST_F(ApiMetadata, LongValuesAreOpenedByTheirEntry) {
  const auto place = [&](const std::string& key) {
    const std::string all = body("metadata?q=" + key);
    const size_t at = all.find("\"entry\":") + 8;
    return all.substr(at, all.find(',', at) - at);
  };
  const std::string list = place("ggml.tokens");
  EXPECT_THAT(
      body("metadata?limit=2&offset=2998&entry=" + list),
      HasSubstr("\"total\":3000,\"offset\":2998,\"keys\":null,\"items\":[\"\xC4\xA0w2998\",\"\xC4\xA0w2999\"]"));
  EXPECT_THAT(body("metadata?entry=" + place("long")),
              HasSubstr("\"total\":5000,\"text\":\"" + std::string(5000, 'x')));
  EXPECT_EQ(ask("metadata?entry=9999").status, 404);
  EXPECT_EQ(ask("metadata?entry=x").status, 400);
}

TEST_F(ApiMetadata, TokensAreSearchedByTheServer) {
  EXPECT_THAT(
      body("tokens?q=id%202999"),
      HasSubstr("{\"id\":2999,\"token\":\"\xC4\xA0w2999\",\"text\":\" w2999\",\"type\":\"normal\",\"score\":null}"));
  EXPECT_THAT(body("tokens?q=%20w12&limit=1&offset=3"), HasSubstr("\"total\":111,\"offset\":3"));
  EXPECT_THAT(body("tokens?type=control"), HasSubstr("\"total\":1,"));
  EXPECT_THAT(body("tokens?limit=0"),
              HasSubstr(R"("stated_in":"tokenizer.ggml.tokens","has_scores":false,"types":["normal","control"])"));
  EXPECT_EQ(ask("tokens?type=colour").status, 400);
  EXPECT_EQ(ask("tokens?limit=1001").status, 400);
}

TEST_F(ApiMetadata, TemplateHasItsSpecialTokens) {
  EXPECT_THAT(body("template"), HasSubstr(R"("parts":[["{{ x }}",null],["<|im_start|>",1]])"));
  EXPECT_THAT(body("template"),
              HasSubstr(R"("kind":"template","name":"default","stated_in":"tokenizer.chat_template")"));
  EXPECT_EQ(ask("template?model=elsewhere").status, 404);
}

}  // namespace
}  // namespace weightfs::api_metadata_test
