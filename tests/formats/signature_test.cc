// model.sig: what is shown of a signature, and hostile ones.
#include "formats/signature.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/values/base64.h"
#include "base/values/rendering.h"

namespace weightfs::signature_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string resource(std::string_view name, const std::string& digest, std::string_view algorithm = "sha256") {
  return fmt::format(R"({{"name":"{}","algorithm":"{}","digest":"{}"}})", name, algorithm, digest);
}

std::string bundle_of(std::string_view payload) {
  return fmt::format(
      R"({{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{{}},"dsseEnvelope":)"
      R"({{"payload":"{}","payloadType":"application/vnd.in-toto+json","signatures":[{{"sig":"AAAA"}}]}}}})",
      base64(payload));
}

std::string statement_of(std::string_view resources) {
  return fmt::format(
      R"({{"_type":"https://in-toto.io/Statement/v1","subject":[],"predicateType":"https://model_signing/signature/v1.0",)"
      R"("predicate":{{"serialization":{{"method":"files"}},"resources":[{}]}}}})",
      resources);
}

// A model with two files whose digest is known, one without a digest, and this model.sig.
Model model_with(std::string signature) {
  Model model;
  for (const char* const name : {"a", "d/b"})
    model.parts.push_back({name, Later<SourcePtr>::of(in_memory(name)), FileChecksums(sha256(name))});
  model.parts.push_back({"c", Later<SourcePtr>::of(in_memory("c"))});
  model.parts.push_back({"model.sig", Later<SourcePtr>::of(in_memory(std::move(signature)))});
  return model;
}

Model described(std::string signature) {
  Model model = model_with(std::move(signature));
  Budget budget(0);
  describe_signature(model, budget);
  return model;
}

std::string shown(const Model& model) {
  const Value* const found = model.common.find("signature");
  return found == nullptr ? "" : to_json_line(*found);
}

TEST(ModelSignature, DigestsAreComparedWithKnownOnes) {
  const Model model = described(bundle_of(statement_of(
      resource("a", sha256("a").hex()) + "," + resource("c", sha256("c").hex()) + "," +
      resource("d/b", sha256("other").hex()) + "," + resource("missing", sha256("x").hex()) + "," +
      resource("a", sha256("a").hex(), "blake3") + "," + resource("a:0:8", sha256("a").hex(), "sha256-sharded-8"))));
  EXPECT_EQ(shown(model),
            R"({"bundle":"application/vnd.dev.sigstore.bundle.v0.3+json",)"
            R"("predicate":"https://model_signing/signature/v1.0","resources":6,"equal":1,"different":1,"unknown":4})");
  EXPECT_THAT(model.warnings, ElementsAre("model.sig: states another SHA-256 of \"d/b\" than its source"));
}

TEST(ModelSignature, OnlyTheSignatureIsRead) {
  Model model = model_with(bundle_of(statement_of(resource("far", sha256("a").hex()))));
  int reads = 0;
  const auto far = Later<SourcePtr>([&reads]() -> Result<SourcePtr> { return ++reads, in_memory("a"); });
  model.parts.push_back({"far", far, FileChecksums(sha256("a"))});
  Budget budget(0);
  describe_signature(model, budget);
  EXPECT_THAT(shown(model), HasSubstr(R"("equal":1)"));
  EXPECT_EQ(reads, 0);
}

TEST(ModelSignature, ModelWithoutItHasNoField) {
  Model model;
  model.parts.push_back({"d/model.sig", Later<SourcePtr>::of(in_memory("{}"))});
  Budget budget(0);
  describe_signature(model, budget);
  EXPECT_EQ(shown(model), "");
  EXPECT_THAT(model.warnings, IsEmpty());
}

TEST(ModelSignature, InvalidOnesAreWarnings) {
  const std::vector<std::pair<std::string, std::string>> invalid = {
      {"", ""},
      {"[]", "not a JSON object"},
      {"{}", "not a Sigstore bundle with a DSSE envelope"},
      {R"({"dsseEnvelope":[]})", "not a Sigstore bundle with a DSSE envelope"},
      {R"({"dsseEnvelope":{"payload":"?"}})", "the payload is not Base64"},
      {R"({"dsseEnvelope":{"payload":7}})", ""},
      {bundle_of("[]"), "the payload is not a JSON object"},
      {bundle_of("{"), ""},
      {bundle_of("{}"), "the statement lists no resources"},
      {bundle_of(R"({"predicate":{"resources":{}}})"), "the statement lists no resources"},
      {std::string((8 << 20) + 1, ' '), "at most 8.0 MiB are read"},
  };
  for (const auto& [text, problem] : invalid) {
    const Model model = described(text);
    EXPECT_EQ(shown(model), "") << text.substr(0, 100);
    EXPECT_THAT(model.warnings, ElementsAre(testing::AllOf(HasSubstr("model.sig: not read: "), HasSubstr(problem))));
  }
}

TEST(ModelSignature, HostileResourcesAreCounted) {
  const Model model =
      described(bundle_of(statement_of(R"(7,null,{},{"name":7,"algorithm":[],"digest":{}},)" + resource("a", "zz") +
                                       "," + resource("../a", sha256("a").hex()) + "," + resource("a\\n", "00"))));
  EXPECT_THAT(shown(model), HasSubstr(R"("resources":7,"equal":0,"different":0,"unknown":7)"));
}

TEST(ModelSignature, WarningsAndTypesAreBounded) {
  std::string resources = resource("a", sha256("other").hex());
  for (int i = 0; i < 1000; ++i) resources += "," + resource("a", sha256("other").hex());
  std::string statement = statement_of(resources);
  const std::string type = "https://model_signing/signature/v1.0";
  statement.replace(statement.find(type), type.size(), std::string(100'000, 'x'));
  const Model model = described(bundle_of(statement));
  EXPECT_EQ(model.warnings.size(), 101U);
  EXPECT_THAT(shown(model), HasSubstr(R"("different":1001)"));
  EXPECT_LT(shown(model).size(), 500U);
}

TEST(ModelSignature, BudgetIsCharged) {
  std::string resources = "{}";
  for (int i = 0; i < 400'000; ++i) resources += ",{}";
  const std::string signature = bundle_of(statement_of(resources));
  Model model = model_with(signature);
  Budget budget(0);
  describe_signature(model, budget);
  EXPECT_GT(budget.memory_used(), 400'000U * sizeof(Value));
}

}  // namespace
}  // namespace weightfs::signature_test
