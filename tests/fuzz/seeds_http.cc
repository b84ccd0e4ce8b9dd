// What clients of `weightfs serve` send: requests, ranges, conditions, and signatures that AWS published.
#include "tests/fuzz/seeds.h"

namespace weightfs::test {

void add_http(Seeds& seeds) {
  const std::string host = "Host: localhost:8421\r\n";
  seeds["http_request/get"] =
      "GET /d/ HTTP/1.1\r\n" + host + "Accept: text/html\r\nUser-Agent: x\r\n\r\nGET / HTTP/1.1\r\n";
  seeds["http_request/range"] = "GET /a HTTP/1.1\r\n" + host + "Range: bytes=0-1, 4-5,-1\r\nIf-Range: \"x\"\r\n\r\n";
  seeds["http_request/listing"] =
      "GET /?q=a%20b&after=d&limit=2 HTTP/1.1\r\n" + host + "Accept: application/json\r\nOrigin: http://x\r\n\r\n";
  seeds["http_request/old"] = "HEAD /link/page.html HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  seeds["http_request/absolute"] = "OPTIONS http://[::1]:80/%64/../%2e%2E/a HTTP/1.1\r\n" + host + "\r\n";
  seeds["http_request/body"] = "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc";
  seeds["http_request/smuggling"] =
      "GET / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\nX: a\r\n b\r\n\r\n0\r\n\r\n";
  seeds["http_request/wrong"] = "GET  /\0 HTTP/2.0\nHost : a\r\r\n\n";
  seeds["http_conditions/ranges"] = "100\n\"abc\"\nrange: bytes=0-9,20-29, 5-21,-1,99-\nif-range: \"abc\"";
  seeds["http_conditions/tags"] =
      "11\n\"abc\"\nif-match: \"x\", \"abc\"\nif-none-match: W/\"abc\", *\nif-modified-since: Sun, 06 Nov 1994 "
      "08:49:37 GMT";
  seeds["http_conditions/dates"] =
      "11\n\"abc\"\nif-unmodified-since: Sunday, 06-Nov-94 08:49:37 GMT\nif-range: Sun Nov  6 08:49:37 1994\nrange: "
      "bytes=-0";
  const std::string amazon = " HTTP/1.1\r\nHost: examplebucket.s3.amazonaws.com\r\n";
  seeds["s3_request/header"] =
      "GET /?max-keys=2&prefix=J" + amazon +
      "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n"
      "x-amz-date: 20130524T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 "
      "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
      "SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
      "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7\r\n\r\n";
  seeds["s3_request/presigned"] =
      "GET /test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
      "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400"
      "&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404" +
      amazon + "\r\n";
  seeds["s3_request/wrong"] = "HEAD /%zz?X-Amz-Signature=%&a+b=%2f" + amazon + "Authorization: AWS x:y\r\n\r\n";
  seeds["s3_request/keys"] = "# of a team\nAKID secret/+=\r\n\nOTHER  two \n";
}

}  // namespace weightfs::test
