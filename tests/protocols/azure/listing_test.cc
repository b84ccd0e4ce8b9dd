// Lists of blobs, names of hosts and containers, and which URLs belong to a container.
#include "protocols/azure/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace weightfs::azure::listing_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string blob(const std::string& name, const std::string& properties, const std::string& metadata = "") {
  return "<Blob><Name>" + name + "</Name><Properties>" + properties + "</Properties><Metadata>" + metadata +
         "</Metadata></Blob>";
}

std::string list(const std::string& blobs, const std::string& marker = "") {
  return "\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"c\"><Blobs>" +
         blobs + "</Blobs><NextMarker>" + marker + "</NextMarker></EnumerationResults>";
}

TEST(AzureListing, BlobsHaveQuotedTags) {
  const auto page =
      parse_listing(list(blob("a &amp; b",
                              "<Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Etag>0x8D</Etag>"
                              "<Content-Length>12</Content-Length>") +
                             blob("quoted", "<Etag>\"0x8E\"</Etag><Content-Length>0</Content-Length>"),
                         "next!"));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_THAT(page->blobs, SizeIs(2));
  EXPECT_EQ(page->blobs[0].name, "a & b");
  EXPECT_EQ(page->blobs[0].size, 12U);
  EXPECT_EQ(page->blobs[0].etag, "\"0x8D\"");
  EXPECT_EQ(page->blobs[0].modified, Time{1767323045} * 1'000'000'000);
  EXPECT_EQ(page->blobs[1].etag, "\"0x8E\"");
  EXPECT_EQ(page->next, "next!");
}

TEST(AzureListing, DirectoriesOfAHierarchicalNamespaceAreLeftOut) {
  const std::string empty = "<Content-Length>0</Content-Length>";
  const auto page = parse_listing(list(blob("a", empty + "<ResourceType>directory</ResourceType>") +
                                       blob("b", empty, "<hdi_isfolder>true</hdi_isfolder>") +
                                       blob("c", empty + "<ResourceType>file</ResourceType>")));
  ASSERT_TRUE(page);
  ASSERT_THAT(page->blobs, SizeIs(1));
  EXPECT_EQ(page->blobs[0].name, "c");
}

TEST(AzureListing, EmptyPageMayHaveAMarker) {
  const auto page = parse_listing(list("", "more"));
  ASSERT_TRUE(page);
  EXPECT_THAT(page->blobs, IsEmpty());
  EXPECT_EQ(page->next, "more");
}

TEST(AzureListing, InvalidListsAreRefused) {
  for (const std::string& text :
       {std::string("<html/>"), std::string("{}"), list(blob("a", "")),
        list(blob("", "<Content-Length>1</Content-Length>")), list(blob("a", "<Content-Length>-1</Content-Length>")),
        list(blob("a", "<Content-Length>99999999999999999999</Content-Length>"))})
    EXPECT_EQ(parse_listing(text).error().code, Code::corrupt) << text;
  std::string many;
  for (int i = 0; i < 10'001; ++i) many += "<Blob/>";
  EXPECT_THAT(parse_listing(list(many)).error().message, HasSubstr("10001 entries"));
}

TEST(AzureListing, EncodedNamesAreDecoded) {
  const std::string rest = "<Properties><Content-Length>1</Content-Length></Properties></Blob>";
  const auto page =
      parse_listing(list("<Blob><Name Encoded=\"true\">a%EF%BF%BE+b</Name>" + rest + "<Blob><Name>a%41</Name>" + rest));
  ASSERT_TRUE(page) << page.error().message;
  ASSERT_THAT(page->blobs, SizeIs(2));
  EXPECT_EQ(page->blobs[0].name, "a\xEF\xBF\xBE+b");
  EXPECT_EQ(page->blobs[1].name, "a%41");
  EXPECT_FALSE(parse_listing(list("<Blob><Name Encoded=\"true\">a%4</Name>" + rest)));
}

TEST(AzureListing, NamesAreLimited) {
  const std::string size = "<Content-Length>1</Content-Length>";
  EXPECT_TRUE(parse_listing(list(blob(std::string(4096, 'a'), size))));
  EXPECT_EQ(parse_listing(list(blob(std::string(4097, 'a'), size))).error().message,
            "a name of 4097 bytes in the list, at most 4096");
}

TEST(AzureListing, ErrorsAreWithoutTheIdOfTheRequest) {
  const std::string body =
      "<?xml version=\"1.0\"?><Error><Code>BlobNotFound</Code><Message>The specified blob does not exist.\n"
      "RequestId:1234\nTime:2026-01-02T03:04:05Z</Message></Error>";
  EXPECT_EQ(error_code(body), "BlobNotFound");
  EXPECT_EQ(error_text(body), "BlobNotFound: The specified blob does not exist");
  EXPECT_EQ(error_text("no XML"), "");
  EXPECT_EQ(error_text("<Error><Code>AuthenticationFailed</Code><Message>/m?sv=1&amp;sig=secret has expired"
                       "</Message></Error>"),
            "AuthenticationFailed: /m has expired")
      << "the signature is in the URL";
}

TEST(AzureNames, HostsOfAllCloudsHaveAnAccount) {
  using Found = std::pair<std::string, std::string>;
  EXPECT_EQ(account_of_host("abc.blob.core.windows.net"), Found("abc", "core.windows.net"));
  EXPECT_EQ(account_of_host("ABC.dfs.core.usgovcloudapi.net"), Found("abc", "core.usgovcloudapi.net"));
  for (const char* host : {"abc.blob.core.windows.net.evil.example", "blob.core.windows.net", ".blob.core.windows.net",
                           "a.b.blob.core.windows.net", "abc.queue.core.windows.net", "", "localhost"})
    EXPECT_EQ(account_of_host(host), std::nullopt) << host;
}

TEST(AzureNames, EndpointIsForItsAccountOnly) {
  Settings settings;
  settings.account = "abc";
  settings.endpoint = "http://127.0.0.1:10000/abc/";
  EXPECT_EQ((Place{"abc", "models"}.url(settings)), "http://127.0.0.1:10000/abc/models");
  EXPECT_EQ((Place{"xyz", "models"}.url(settings)), "https://xyz.blob.core.windows.net/models");
  Place named{"abc", "models"};
  named.is_url = true;
  EXPECT_EQ(named.url(settings), "https://abc.blob.core.windows.net/models");
}

TEST(AzureNames, InvalidNamesAreRefused) {
  EXPECT_TRUE((Place{"abc1", "my-models"}.is_valid()));
  EXPECT_TRUE((Place{"abc1", "$root"}.is_valid()));
  for (const auto& [account, container] :
       {std::pair("ab", "models"), std::pair("evil.example/", "models"), std::pair("abc", ""),
        std::pair("abc", "Models"), std::pair("abc", "a$b"), std::pair("a-bc", "models"), std::pair("abc", "../x")})
    EXPECT_FALSE((Place{account, container}.is_valid())) << account << " " << container;
}

TEST(AzureNames, OnlyBlobsAndListsBelowTheFolderBelongToIt) {
  const std::string below = "https://abc.blob.core.windows.net:443/c/";
  const std::string list = "https://abc.blob.core.windows.net:443/c?comp=list&include=metadata&";
  const auto is_in = [&](const std::string& url) { return is_of_container(url, below, "my models/"); };
  EXPECT_TRUE(is_in(below + "my%20models/a.gguf"));
  EXPECT_TRUE(is_in(list + "maxresults=5000&prefix=my%20models%2F&restype=container"));
  EXPECT_TRUE(is_in(list + "marker=x&prefix=my%20models%2Fa%2F&restype=container"));
  for (const std::string& url :
       {below + "other/a.gguf", below + "my%20models/a?comp=tags", list + "prefix=my%20&restype=container",
        list + "restype=container", list + "prefix=my%20models%2F&prefix=&restype=container",
        list + "prefix=my%20models%2F&comp=acl", list + "prefix=my%20models%2F&sig=x",
        std::string("https://abc.blob.core.windows.net:443/c?restype=container&prefix=my%20models%2F"),
        std::string("https://abc.blob.core.windows.net:443/c2/my%20models/a")})
    EXPECT_FALSE(is_in(url)) << url;
}

}  // namespace
}  // namespace weightfs::azure::listing_test
