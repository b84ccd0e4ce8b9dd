#include "formats/completeness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/common/warnings.h"
#include "formats/model.h"

namespace weightfs::completeness_test {
namespace {

using ::testing::ElementsAre;

Model with(Warnings warnings) {
  Model model;
  std::move(warnings).move_to(model);
  return model;
}

TEST(Completeness, ModelThatLacksNothingIsComplete) {
  Warnings warnings;
  warnings.add("an unknown type");
  const Model model = with(std::move(warnings));
  EXPECT_TRUE(completeness_of(model).is_complete());
  EXPECT_EQ(to_sentence(completeness_of(model)), "");
  EXPECT_THAT(model.warnings, ElementsAre("an unknown type"));
}

TEST(Completeness, MissingFilesAndTheirTensorsAreCounted) {
  Warnings warnings;
  warnings.miss_file(Code::not_found, "shard \"b\": no such file");
  warnings.add_missing_tensors(7);
  warnings.miss_file(Code::not_found, "shard \"c\": no such file");
  const Completeness found = completeness_of(with(std::move(warnings)));
  EXPECT_EQ(found.files, 2u);
  EXPECT_EQ(found.unreadable, 7u);
  EXPECT_EQ(found.tensors, 7u);
  ASSERT_TRUE(found.reason);
  EXPECT_EQ(found.reason->code, Code::not_found);
  EXPECT_EQ(to_sentence(found), "7 of 7 tensors cannot be read: shard \"b\": no such file");
}

TEST(Completeness, CountThatTheSentenceBeginsWithIsNotRepeated) {
  const auto sentence = [](const char* reason, uint64_t tensors) {
    Warnings warnings;
    warnings.miss_file(Code::not_found, "{}", reason);
    warnings.add_missing_tensors(tensors);
    return to_sentence(completeness_of(with(std::move(warnings))));
  };
  EXPECT_EQ(sentence("x: no such file; 24 tensors are refused", 24),
            "24 of 24 tensors cannot be read: x: no such file");
  EXPECT_EQ(sentence("1 of 2 shards is missing: b; 1 tensor is missing", 1),
            "1 of 1 tensors cannot be read: 1 of 2 shards is missing: b");
  EXPECT_EQ(sentence("x: no such file; 4 tensors are refused", 24),
            "24 of 24 tensors cannot be read: x: no such file; 4 tensors are refused");
}

TEST(Completeness, TensorOfALostFileHasItsReason) {
  Warnings warnings;
  warnings.miss_file(Code::corrupt, "shard \"b\": missing");
  warnings.miss_file(Code::io, "shard \"c\": denied");
  warnings.add_missing_tensors(2);
  warnings.lose({Code::corrupt, "shard \"b\": missing"}, {"w"});
  warnings.lose({Code::io, "shard \"c\": denied"}, {"x"});
  const Model model = with(std::move(warnings));
  EXPECT_EQ(reason_of_missing(model, "w")->code, Code::corrupt);
  EXPECT_EQ(reason_of_missing(model, "x")->code, Code::io);
  EXPECT_EQ(reason_of_missing(model, "x")->message, "shard \"c\": denied");
  EXPECT_FALSE(reason_of_missing(model, "y")) << "no shard has it";
}

TEST(Completeness, TensorMayBeInAFileWhoseTensorsAreNotKnown) {
  Warnings warnings;
  warnings.miss_file(Code::io, "b: denied");
  const Model model = with(std::move(warnings));
  ASSERT_TRUE(reason_of_missing(model, "w"));
  EXPECT_EQ(reason_of_missing(model, "w")->code, Code::io);
  EXPECT_FALSE(reason_of_missing(Model(), "w"));
}

TEST(Completeness, ReasonIsTheWorstOne) {
  Warnings warnings;
  warnings.miss_file(Code::forbidden, "a: 403");
  warnings.miss_file(Code::not_found, "b: 404");
  warnings.refuse(Code::corrupt, "c: cut");
  EXPECT_EQ(completeness_of(with(std::move(warnings))).reason->message, "c: cut");
  const Error mismatch{Code::mismatch, ""}, corrupt{Code::corrupt, ""}, missing{Code::not_found, ""},
      forbidden{Code::forbidden, ""}, network{Code::network, ""}, io{Code::io, ""};
  EXPECT_EQ(&worse(corrupt, mismatch), &mismatch);
  EXPECT_EQ(&worse(corrupt, missing), &corrupt);
  EXPECT_EQ(&worse(forbidden, missing), &missing);
  EXPECT_EQ(&worse(network, forbidden), &forbidden);
  EXPECT_EQ(&worse(io, network), &network);
}

TEST(Completeness, BytesThatAFileLacksAreInTheSentence) {
  Warnings warnings;
  warnings.miss_tensors(3, Code::corrupt, "the file is cut");
  warnings.add_short_by(uint64_t{3} << 30);
  EXPECT_EQ(to_sentence(completeness_of(with(std::move(warnings)))),
            "the file ends 3.0 GiB early: 3 of 3 tensors refused; interrupted download?");
}

TEST(Completeness, WarningsAreLimitedButWhatIsMissingIsCounted) {
  Warnings warnings;
  for (int i = 0; i < 1000; ++i) warnings.miss_file(Code::not_found, "{}: missing", i);
  const Model model = with(std::move(warnings));
  EXPECT_EQ(model.warnings.size(), kMaxWarnings + 1);
  EXPECT_EQ(completeness_of(model).files, 1000u);
}

TEST(Completeness, WarningsOfAShardNameIt) {
  Warnings inner;
  inner.refuse(Code::corrupt, "tensor \"x\": cut");
  const Model shard = with(std::move(inner));
  Warnings outer;
  outer.append(shard, "shard 2: ");
  const Model model = with(std::move(outer));
  EXPECT_THAT(model.warnings, ElementsAre("shard 2: tensor \"x\": cut"));
  EXPECT_EQ(completeness_of(model).reason->message, "shard 2: tensor \"x\": cut");
}

}  // namespace
}  // namespace weightfs::completeness_test
