// The names of the models in a store of Docker Model Runner.
#include "sources/disk/model_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "tests/support/temporary.h"

namespace weightfs::model_runner_test {
namespace {

const std::string kA(64, 'a');
const std::string kB(64, 'b');
const std::string kLikeA = std::string(12, 'a') + std::string(52, 'c');

std::string model(const std::string& digest, const std::string& tags) {
  return R"({"id": "sha256:)" + digest + R"(", "tags": [)" + tags + "]}";
}

using Names = std::vector<std::string>;

// "NAME=DIGEST" of each, with the first 14 digits.
Names names_of(const std::string& models) {
  const TemporaryDirectory here;
  here.write("models.json", R"({"models": [)" + models + "]}");
  const Location store{std::make_shared<const ConfinedDirectory>(
      Descriptor(::open(here.path("").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), here.path(""), Confinement{})};
  Names out;
  const auto models_of_store = read_model_runner_store(store);
  for (const TaggedModel& each : models_of_store.value())
    out.push_back(each.path + "=" + each.manifest.file_name().substr(0, 14));
  return out;
}

const std::string kAIs = "=" + kA.substr(0, 14);
const std::string kBIs = "=" + kB.substr(0, 14);

TEST(ModelRunner, ModelWhoseTagIsADirectoryHasTheNameOfItsDigest) {
  const std::string below = model(kB, R"("ai/a/b:c")");
  EXPECT_EQ(names_of(model(kA, R"("ai/a:b")") + "," + below), (Names{kA.substr(0, 12) + kAIs, "ai/a/b/c" + kBIs}));
  EXPECT_EQ(names_of(model(kA, R"("ai/a:b", "x:y")") + "," + below), (Names{"ai/a/b/c" + kBIs, "x/y" + kAIs}));
}

TEST(ModelRunner, ModelsWithTheSameFirstDigitsHaveNames) {
  EXPECT_EQ(names_of(model(kA, "") + "," + model(kLikeA, "") + "," + model(kA, "")),
            (Names{kA.substr(0, 12) + kAIs, kLikeA + "=" + kLikeA.substr(0, 14)}));
}

TEST(ModelRunner, TagThatIsADigestIsNoModelAndDirectory) {
  const std::string tag = "\"" + kA.substr(0, 12) + ":x\"";
  EXPECT_EQ(names_of(model(kA, "") + "," + model(kB, tag)), (Names{kA.substr(0, 12) + "/x" + kBIs, kA + kAIs}));
}

}  // namespace
}  // namespace weightfs::model_runner_test
