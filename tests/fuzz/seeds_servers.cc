// What servers send beside models: listings of S3 and of the Hugging Face Hub, and block lists.
#include <fmt/core.h>

#include <cstring>

#include "base/verity/block_list.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {
namespace {

constexpr std::string_view kDigest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view kGitId = "da39a3ee5e6b4b0d3255bfef95601890afd80709";

std::string object(std::string_view key, std::string_view size) {
  return fmt::format(
      "<Contents><Key>{}</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"
      "<ETag>&quot;fba9dede&quot;</ETag><Size>{}</Size></Contents>",
      key, size);
}

std::string listing(std::string_view content) {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}</ListBucketResult>",
      content);
}

void add_s3(Seeds& seeds) {
  seeds["s3_listing/page"] = listing(
      "<Name>b</Name><IsTruncated>true</IsTruncated><NextContinuationToken>1ue=</NextContinuationToken>"
      "<EncodingType>url</EncodingType>" +
      object("a/m.gguf", "434234") + object("a%20b/%C3%A9+c", "0"));
  seeds["s3_listing/hostile"] = listing("<!-- a > b --><x:y/>" + object("../&#x2e;/&amp;", "1") + object("a", "1") +
                                        object("a/b", "9223372036854775807") + object("a", "2") + object("a", "2"));
  seeds["s3_listing/wrong"] = listing(object("", "1") + object("%", "-1") + "<Contents/>");
  seeds["s3_listing/azure"] =
      "<EnumerationResults ContainerName=\"c\"><Blobs><Blob><Name>a/m.gguf</Name><Properties><Etag>"
      "0x8D</Etag><Content-Length>434234</Content-Length></Properties></Blob><Blob><Name>a</Name>"
      "<Properties><Content-Length>0</Content-Length></Properties><Metadata><hdi_isfolder>true</h"
      "di_isfolder></Metadata></Blob><Blob><Name>../&amp;</Name><Properties><Content-Length>1</Co"
      "ntent-Length></Properties></Blob></Blobs><NextMarker>2!x</NextMarker></EnumerationResults>";
  seeds["s3_listing/error"] =
      "<Error><Code>NoSuchKey</Code><Message>The key\ndoes not exist.</Message>"
      "<Region>eu-1</Region></Error>";
}

void add_hub(Seeds& seeds) {
  const auto file = [](std::string_view path, uint64_t size) {
    return fmt::format(R"({{"type":"file","oid":"{}","size":{},"path":"{}"}})", kGitId, size, path);
  };
  seeds["hub_listing/files"] = fmt::format(R"([{{"type":"directory","oid":"{0}","size":0,"path":"sub"}},{1},)"
                                           R"({{"type":"file","oid":"{0}","size":134,"path":"m.safetensors",)"
                                           R"("lfs":{{"oid":"{2}","size":9000000000,"pointerSize":134}}}}])",
                                           kGitId, file("sub/config.json", 20), kDigest);
  seeds["hub_listing/hostile"] =
      fmt::format("[{},{},{},{},{}]", file("../a", 1), file("a", 2), file("a/b", 3), file("a", 4), file("\\u0000", 5));
  seeds["hub_listing/wrong"] =
      R"([{"type":"file","path":"a","size":-1},{"type":"file","path":"b","size":1e3,"lfs":{}}])";
  seeds["hub_listing/modelscope"] =
      fmt::format(R"({{"Code":200,"Data":{{"Files":[{{"Type":"tree","Path":"d"}},{{"Type":"blob","Path":"d/m.gguf",)"
                  R"("Size":7,"CommittedDate":1700000000,"Sha256":"{}"}},{{"Type":"blob","Path":"../a","Size":1,)"
                  R"("Sha256":""}}]}},"Message":""}})",
                  kDigest);
  seeds["hub_listing/revision"] =
      fmt::format(R"({{"id":"org/demo","sha":"{}","lastModified":"2024-05-06T07:08:09.000Z","gated":"auto",)"
                  R"("library_name":"transformers","pipeline_tag":"t","tags":["license:mit","base_model:org/b"],)"
                  R"("cardData":{{"license":["mit","other"],"base_model":"org/b"}}}})",
                  kGitId);
}

// Two bytes with the size of the file, the file, and its list.
std::string with_list(const std::string& data, const std::string& of) {
  std::string list;
  BlockListBuilder builder(of.size(), [&](uint64_t offset, std::span<const std::byte> bytes) -> Result<void> {
    list.resize(std::max<size_t>(list.size(), offset + bytes.size()));
    std::memcpy(&list[offset], bytes.data(), bytes.size());
    return {};
  });
  std::ignore = builder.add(std::as_bytes(std::span(of)));
  std::ignore = builder.finish();
  return std::string{static_cast<char>(data.size() & 0xff), static_cast<char>(data.size() >> 8)} + data + list;
}

void add_block_lists(Seeds& seeds) {
  const std::string one = "a file of one block", two(4100, 'x'), many(600'000, 'y');
  seeds["block_list/empty"] = with_list("", "");
  seeds["block_list/one-block"] = with_list(one, one);
  seeds["block_list/two-blocks"] = with_list(two, two);
  seeds["block_list/two-levels"] = with_list("", many);
  seeds["block_list/of-another-file"] = with_list(one, two);
  seeds["block_list/short"] = with_list(two, two).substr(0, 2 + two.size() + 300);
}

}  // namespace

void add_servers(Seeds& seeds) {
  add_s3(seeds);
  add_hub(seeds);
  add_block_lists(seeds);
}

}  // namespace weightfs::test
