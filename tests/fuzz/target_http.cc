// Targets of what clients of `weightfs serve` send: requests, ranges and conditions.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "base/text.h"
#include "fs/http/protocol/conditions.h"
#include "fs/http/protocol/request_parser.h"
#include "fs/http/site.h"
#include "fs/http/transfer.h"
#include "fs/tree/tree.h"
#include "serve/s3/access.h"
#include "tests/fuzz/targets.h"

namespace weightfs::test {
namespace {

using namespace httpd;

// The length of the header, or the status of its refusal, negative; 0 if it is not complete.
int64_t outcome_of(const Accepted<size_t>& parsed) {
  return parsed ? static_cast<int64_t>(*parsed) : -int64_t{parsed.error().status};
}

Forest& forest() {
  static Forest kForest = [] {
    TreeBuilder builder(nullptr);
    builder.add_file("a", Later<SourcePtr>::of(in_memory("hello world")));
    builder.add_file("d/page.html", Later<SourcePtr>::of(in_memory(std::string(100, 'x'))));
    builder.add_link("link", "d");
    return Forest(std::move(builder).freeze());
  }();
  return kForest;
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// A client must not be able to add fields or end the header.
void check_response(const Response& response) {
  if (response.status < 200 || response.status > 599) complain(fmt::format("status {}", response.status));
  for (const Field& field : response.fields)
    if (has_control(field.name) || has_control(field.value) || field.name.empty() || field.value.empty())
      complain("a field with control characters: " + quoted(field.value));
  if (response.status == 206 && response.body.empty()) complain("a part without bytes");
}

void check_request(const Request& request, std::string_view header) {
  if (!header.ends_with("\r\n\r\n")) complain("a header without an end");
  if (request.fields.size() > kMaxFields || request.method.empty() || !is_visible_ascii(request.target))
    complain("not a valid request");
  const auto lengths = std::ranges::count(request.fields, "content-length", &Field::name);
  const auto codings = std::ranges::count(request.fields, "transfer-encoding", &Field::name);
  if (lengths > 0 && codings > 0) complain("both lengths");
  if (std::ranges::count(request.fields, "host", &Field::name) > 1) complain("two hosts");
  if (const auto target = parse_target(request.target))
    for (const std::string& segment : target->segments)
      if (segment.empty() || segment == "." || segment == ".." || segment.find('\0') != segment.npos)
        complain(quoted(segment) + " is not a name");
  SiteOptions options;
  options.access.is_any_host = true;
  options.access.origins = {"*"};
  const Site site(forest(), options);
  check_response(site.answer(request, {"127.0.0.1"}));
}

// A request is the same, whole and in pieces.
void run_http_request(std::string_view input) {
  RequestParser whole;
  const auto parsed = whole.parse(input);
  RequestParser pieces;
  int64_t last = 0;
  constexpr size_t kPiece = 7;
  for (size_t size = kPiece; last == 0 && size < input.size() + kPiece; size += kPiece)
    last = outcome_of(pieces.parse(input.substr(0, std::min(size, input.size()))));
  if (last > 0 && last != outcome_of(parsed)) complain("a request in pieces has another length");
  if (last <= 0 && parsed && *parsed > 0) complain("a request in pieces is refused");
  if (!parsed || *parsed == 0) return;
  check_request(whole.take(), input.substr(0, *parsed));
}

// Lines: the size of the file, the entity tag, then fields.
void run_http_conditions(std::string_view input) {
  const auto line = [&] {
    const size_t end = std::min(input.find('\n'), input.size());
    const std::string_view found = input.substr(0, end);
    input.remove_prefix(std::min(end + 1, input.size()));
    return found;
  };
  const uint64_t size = parse_number<uint64_t>(line()).value_or(11);
  const Validators validators{std::string(line()), std::time_t{1'700'000'000}};
  Request request;
  request.method = "GET";
  while (!input.empty()) {
    const std::string_view field = line();
    const size_t colon = std::min(field.find(':'), field.size());
    request.fields.push_back(
        {std::string(field.substr(0, colon)), std::string(trimmed(field.substr(std::min(colon + 1, field.size()))))});
  }
  const Verdict verdict = evaluate(request, validators, 1'800'000'000);
  const std::string* const range = request.field("range");
  if (verdict == Verdict::ranges && range == nullptr) complain("ranges without a range");
  if (range == nullptr) return;
  const Ranges ranges = ranges_of(*range, size);
  if (ranges.parts.size() > kMaxParts || (!ranges.is_satisfiable && !ranges.parts.empty())) complain("too many parts");
  std::string again = "bytes=";
  for (const ByteRange& part : ranges.parts) {
    if (part.from >= part.to || part.to > size) complain("a part outside of the file");
    for (const ByteRange& other : ranges.parts)
      if (&part != &other && part.from <= other.to && other.from <= part.to) complain("parts that touch");
    again += fmt::format("{}{}-{}", again.size() > 6 ? "," : "", part.from, part.to - 1);
  }
  if (!ranges.parts.empty() && ranges_of(again, size).parts.size() != ranges.parts.size())
    complain("the parts are other parts: " + again);
}

// A request with a signature; also a file of keys.
void run_s3_request(std::string_view input) {
  constexpr std::time_t kNow = 1'369'353'600;  // 20130524T000000Z
  static const objects::AccessKeys kKeys = {{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}};
  if (const auto keys = objects::parse_access_keys(input); keys && keys->empty()) complain("no keys");
  RequestParser parser;
  const auto parsed = parser.parse(input);
  if (!parsed || *parsed == 0) return;
  const Request request = parser.take();
  const auto denial = objects::check_signature(kKeys, request, kNow);
  if (denial && (denial->status < 400 || denial->status > 403)) complain(fmt::format("status {}", denial->status));
  // A signature is valid only with the date that it was made for.
  if (!denial && input.find("20130524T") == input.npos) complain("a request without a valid signature");
}

}  // namespace

const Target kHttpRequestTarget = {.name = "http_request",
                                   .run = run_http_request,
                                   .limits = {.memory = 300'000, .memory_per_byte = 300},
                                   .mutate = mutate_text};
const Target kHttpConditionsTarget = {.name = "http_conditions",
                                      .run = run_http_conditions,
                                      .limits = {.memory = 300'000, .memory_per_byte = 300},
                                      .mutate = mutate_text};

const Target kS3RequestTarget = {.name = "s3_request",
                                 .run = run_s3_request,
                                 .limits = {.memory = 300'000, .memory_per_byte = 300},
                                 .mutate = mutate_text};

}  // namespace weightfs::test
