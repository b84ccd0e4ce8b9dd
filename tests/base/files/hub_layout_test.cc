#include "base/files/hub_layout.h"

#include <gtest/gtest.h>

namespace weightfs::hub_layout_test {
namespace {

const std::string kHex(64, 'a'), kGitId(40, 'b');

TEST(HubLayout, RepositoriesHaveFolders) {
  EXPECT_EQ(hub_layout::folder_of("models", "org/name"), "models--org--name");
  EXPECT_EQ(hub_layout::folder_of("models", "gpt2"), "models--gpt2");
  EXPECT_EQ(hub_layout::model_of("models--org--name--2"), "org/name--2");
  EXPECT_EQ(hub_layout::model_of("models--gpt2"), "gpt2");
  EXPECT_EQ(hub_layout::model_of("datasets--org--name"), std::nullopt);
  EXPECT_TRUE(hub_layout::is_repository("spaces--org--name"));
  EXPECT_FALSE(hub_layout::is_repository("models"));
}

TEST(HubLayout, LinksLeadToBlobs) {
  EXPECT_EQ(hub_layout::blob_of_link("../../blobs/" + kHex), kHex);
  EXPECT_EQ(hub_layout::blob_of_link("../../../blobs/" + kGitId), kGitId);
  EXPECT_EQ(hub_layout::blob_of_link("/home/u/hub/models--org--name/blobs/" + kHex), kHex);
  for (const std::string& other :
       {"../blobs/" + kHex, "blobs/" + kHex, "../../other/" + kHex, "../../blobs/" + kHex + "0", "/x/blobs/" + kHex,
        std::string("../../blobs/"), std::string()})
    EXPECT_EQ(hub_layout::blob_of_link(other), std::nullopt) << other;
}

}  // namespace
}  // namespace weightfs::hub_layout_test
