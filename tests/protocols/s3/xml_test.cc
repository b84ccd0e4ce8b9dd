#include "protocols/s3/xml.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weightfs::s3::xml_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The elements in the order of their ends, as "path=text"; or the error.
std::vector<std::string> elements(std::string_view text) {
  std::vector<std::string> found;
  const auto read = read_xml(text, [&](std::string_view path, const std::string& content) {
    found.push_back(fmt::format("{}={}", path, content));
  });
  return read ? found : std::vector{"error: " + read.error().message};
}

TEST(S3Xml, ElementsHaveTheirPathsAndTexts) {
  EXPECT_THAT(elements("<a><b>1</b><c>x<d/>y</c></a>"), ElementsAre("a/b=1", "a/c/d=", "a/c=xy", "a="));
  EXPECT_THAT(elements("\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- <x> --><s:a xmlns:s='u>v' b = \"<\">t</s:a >\n"),
              ElementsAre("a=t"));
}

TEST(S3Xml, ReferencesAreDecoded) {
  EXPECT_THAT(elements("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#233;&#x20AC;&#x1F600;</a>"),
              ElementsAre("a=<>&\"'AB\u00e9\u20ac\U0001F600"));
  for (const char* wrong : {"&x;", "&lt", "&;", "&#;", "&#x;", "&#0;", "&#8;", "&#xD800;", "&#x110000;",
                            "&#99999999999;", "&#-1;", "&#+1;", "& ", "&"})
    EXPECT_THAT(elements(fmt::format("<a>{}</a>", wrong)), ElementsAre(HasSubstr("error: not valid XML"))) << wrong;
}

TEST(S3Xml, InvalidTextsAreRefused) {
  for (const char* wrong : {"",
                            " ",
                            "x",
                            "<",
                            "<a",
                            "<a>",
                            "<a b='>",
                            "<a></b>",
                            "</a>",
                            "<a></a><b></b>",
                            "<a/>x",
                            "<a/><a/>",
                            "<>x</>",
                            "<a><!DOCTYPE b></a>",
                            "<!DOCTYPE a><a/>",
                            "<a><![CDATA[x]]></a>",
                            "<!-- <a/>",
                            "<?xml <a/>",
                            "<a <b></a>",
                            "<a></ a>",
                            "<a></a b>",
                            "<a:></a:>"})
    EXPECT_THAT(elements(wrong), ElementsAre(HasSubstr("error: not valid XML"))) << wrong;
}

TEST(S3Xml, DepthAndNamesAreLimited) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "<a>";
    for (int i = 0; i < depth; ++i) text += "</a>";
    return elements(text);
  };
  EXPECT_THAT(nested(16), SizeIs(16));
  EXPECT_THAT(nested(17), ElementsAre("error: not valid XML: nested too deep"));
  const std::string name(65, 'n');
  EXPECT_THAT(elements(fmt::format("<{}/>", name)), ElementsAre(HasSubstr("without a valid name")));
}

TEST(S3Xml, EveryTruncationIsRefused) {
  const std::string text =
      "<?xml version='1.0'?><ListBucketResult a='b'><!-- c --><Contents><Key>k&amp;</Key><Size>1</Size></Contents>"
      "</ListBucketResult>";
  ASSERT_TRUE(parse_listing(text));
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(parse_listing(text.substr(0, size))) << size;
}

std::string listing(const std::string& content) {
  return fmt::format("<ListBucketResult xmlns='x'>{}</ListBucketResult>", content);
}

TEST(S3Listing, ObjectsHaveKeysSizesTagsAndTimes) {
  const auto page = parse_listing(
      listing("<Name>b</Name><IsTruncated>true</IsTruncated><NextContinuationToken>t+/=&amp;</NextContinuationToken>"
              "<Contents><Key>a/b%2Bc+d%C3%A9</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
              "<ETag>&quot;e-2&quot;</ETag><Size>9223372036854775807</Size><Owner><ID>x</ID></Owner></Contents>"
              "<Contents><Size>0</Size><Key>z</Key></Contents>"
              "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes><EncodingType>url</EncodingType>"));
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->is_truncated);
  EXPECT_EQ(page->next, "t+/=&");
  ASSERT_THAT(page->objects, SizeIs(2));
  EXPECT_EQ(page->objects[0].key, "a/b+c d\u00e9");
  EXPECT_EQ(page->objects[0].size, uint64_t{INT64_MAX});
  EXPECT_EQ(page->objects[0].etag, "\"e-2\"");
  EXPECT_EQ(page->objects[0].modified, 1767323045'000'000'000);
  EXPECT_EQ(page->objects[1].key, "z");
  EXPECT_EQ(page->objects[1].etag, "");
  EXPECT_EQ(page->objects[1].modified, 0);
}

TEST(S3Listing, KeysWithoutEncodingAreTakenAsTheyAre) {
  const auto page = parse_listing(listing("<Contents><Key>a+%41&#10;</Key><Size>1</Size></Contents>"));
  ASSERT_TRUE(page);
  EXPECT_EQ(page->objects[0].key, "a+%41\n");
}

TEST(S3Listing, EmptyListingIsValid) {
  const auto page = parse_listing("<ListBucketResult/>");
  ASSERT_TRUE(page);
  EXPECT_THAT(page->objects, IsEmpty());
  EXPECT_FALSE(page->is_truncated);
}

TEST(S3Listing, InvalidEntriesAreRefused) {
  for (const char* wrong :
       {"<Size>1</Size>", "<Key/><Size>1</Size>", "<Key>k</Key>", "<Key>k</Key><Size/>", "<Key>k</Key><Size>-1</Size>",
        "<Key>k</Key><Size>+1</Size>", "<Key>k</Key><Size>1 </Size>", "<Key>k</Key><Size>9223372036854775808</Size>",
        "<Key>k</Key><Size>99999999999999999999</Size>", "<Key>k</Key><Size>0x1</Size>"})
    EXPECT_FALSE(parse_listing(listing(fmt::format("<Contents>{}</Contents>", wrong)))) << wrong;
  for (const char* key : {"%", "%4", "a%zz", "%-1", "%+1"})
    EXPECT_FALSE(parse_listing(
        listing(fmt::format("<EncodingType>url</EncodingType><Contents><Key>{}</Key><Size>1</Size></Contents>", key))))
        << key;
  EXPECT_FALSE(parse_listing("<Error><Code>x</Code></Error>"));
  EXPECT_FALSE(parse_listing("<ListBucketResultOther/>"));
}

TEST(S3Listing, KeysAreLimited) {
  const auto with = [](size_t size) {
    return parse_listing(
        listing(fmt::format("<Contents><Key>{}</Key><Size>1</Size></Contents>", std::string(size, 'k'))));
  };
  EXPECT_TRUE(with(1024));
  EXPECT_EQ(with(1025).error().message, "a key of 1025 bytes in the listing, at most 1024");
}

TEST(S3Listing, EntriesOfAPageAreLimited) {
  const auto with = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("<Contents><Key>{}</Key><Size>1</Size></Contents>", i);
    return parse_listing(listing(text));
  };
  EXPECT_TRUE(with(10'000));
  EXPECT_EQ(with(10'001).error().message, "10001 entries in a page of the listing, at most 10000");
}

TEST(S3Listing, TagsThatCannotBeSentAreLeftOut) {
  const auto tag = [](const std::string& text) {
    const auto page =
        parse_listing(listing(fmt::format("<Contents><Key>k</Key><Size>1</Size><ETag>{}</ETag></Contents>", text)));
    return page ? page->objects[0].etag : "error";
  };
  EXPECT_EQ(tag("\"abc\""), "\"abc\"");
  EXPECT_EQ(tag("abc"), "\"abc\"");
  for (const std::string wrong :
       {"", "W/\"a\"", "\"a\"b\"", "\"", "\"\"", "\"a", "\"a&#13;&#10;b\"", "\"a b\"", "\"é\""})
    EXPECT_EQ(tag(wrong), "") << wrong;
  EXPECT_EQ(tag(std::string(501, 'x')), "");
}

TEST(S3Errors, CodeAndMessageAreShown) {
  EXPECT_EQ(error_text("<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>It does not exist.</Message>"
                       "<Key>a</Key></Error>"),
            "NoSuchKey: It does not exist");
  EXPECT_EQ(error_text("<Error><Code>NoSuchKey</Code></Error>"), "NoSuchKey");
  EXPECT_EQ(parse_error("<Error><Region>eu-west-1</Region></Error>").region, "eu-west-1");
}

TEST(S3Errors, KeysAreHidden) {
  EXPECT_EQ(error_text("<Error><Code>InvalidAccessKeyId</Code><Message>no key AKIAIOSFODNN7EXAMPLE for "
                       "https://h/b?X-Amz-Signature=0a1b</Message></Error>"),
            "InvalidAccessKeyId: no key ... for https://h/b");
}

TEST(S3Errors, HostileBodiesAreHarmless) {
  EXPECT_EQ(error_text(""), "");
  EXPECT_EQ(error_text("<html>"), "");
  EXPECT_EQ(error_text("<Error><Code>a&#10;b\x1b[31m</Code></Error>"), "a\\x0ab\\x1b[31m");
  EXPECT_THAT(error_text("<Error><Code>" + std::string(5000, 'x') + "</Code></Error>"), SizeIs(303));
}

}  // namespace
}  // namespace weightfs::s3::xml_test
