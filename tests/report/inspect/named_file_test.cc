// Which tensors of a model on a server the paths of a command need.
#include "report/inspect/named_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weightfs::named_file_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pointee;

TEST(TensorsNeededFor, FilesNeedNone) {
  for (const char* const path : {"files", "files/", "files/config.json", "files/sub/vocab.txt"})
    EXPECT_THAT(tensors_needed_for({path}), Pointee(IsEmpty())) << path;
}

TEST(TensorsNeededFor, PathsOfTensorsAreTheirNames) {
  EXPECT_THAT(tensors_needed_for({"tensors/model.layers.0.weight", "tensors/a/b"}),
              Pointee(ElementsAre("model.layers.0.weight", "a/b")));
}

// A listing, another view, a path that leaves files/, an escaped or truncated name.
TEST(TensorsNeededFor, OtherPathsNeedAll) {
  const std::string long_name = "tensors/" + std::string(256, 'x');
  std::string deep = "tensors/d";
  for (int i = 0; i < 32; ++i) deep += "/d";
  for (const std::string& path :
       {std::string(), std::string("tensors"), std::string("tensors/"), std::string("a"), std::string("npy/a.npy"),
        std::string("metadata.json"), std::string("files/../tensors"), std::string("filesystem"),
        std::string("tensors/a%2Fb"), std::string("tensors/../files"), long_name, deep})
    EXPECT_EQ(tensors_needed_for({path}), nullptr) << path;
  EXPECT_EQ(tensors_needed_for({"tensors/a", "files/config.json"}), nullptr);
}

}  // namespace
}  // namespace weightfs::named_file_test
