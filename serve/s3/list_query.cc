#include "serve/s3/list_query.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/values/base64.h"
#include "serve/s3/xml.h"

namespace weightfs::objects {
namespace {

// All bytes but those of a path escaped, and a space as clients with either form of escapes read it.
std::string key_text(std::string_view key, Names names) {
  if (names == Names::plain) return std::string(key);
  std::string out;
  for_each_component(key, [&](std::string_view part) { out += httpd::url_segment(part) + "/"; });
  out.pop_back();
  return out;
}

std::string tag_element(std::string_view name, std::string_view text, Names names) {
  return element(name, key_text(text, names));
}

// What a listing has before its entries.
std::string head_of(const std::string& bucket, const httpd::Target& target, const ListQuery& query, const Page& page) {
  const Names names = query.page.names;
  const auto echoed = [&](const char* parameter, const char* name) {
    const auto text = httpd::parameter(target.query, parameter);
    return text && !text->empty() ? tag_element(name, *text, names) : std::string();
  };
  std::string out = element("Name", bucket) + tag_element("Prefix", query.page.prefix, names);
  out += query.is_second ? echoed("start-after", "StartAfter") : tag_element("Marker", query.page.after, names);
  if (query.is_second) {
    if (const auto token = httpd::parameter(target.query, "continuation-token"); token && !token->empty())
      out += element("ContinuationToken", *token);
    out += element("KeyCount", std::to_string(page.entries.size()));
  }
  out += element("MaxKeys", std::to_string(query.page.most)) + echoed("delimiter", "Delimiter");
  if (names == Names::escaped) out += element("EncodingType", "url");
  out += element("IsTruncated", page.is_truncated ? "true" : "false");
  if (page.is_truncated) {
    const std::string& last = page.entries.back().name;
    out += query.is_second ? element("NextContinuationToken", base64(last)) : tag_element("NextMarker", last, names);
  }
  return out;
}

}  // namespace

httpd::Accepted<ListQuery> list_query_of(const httpd::Target& target) {
  const auto text = [&](const char* name) { return httpd::parameter(target.query, name).value_or(""); };
  ListQuery query;
  query.is_second = text("list-type") == "2";
  const std::string encoding = text("encoding-type");
  if (!encoding.empty() && encoding != "url")
    return httpd::refused(400, "Invalid Encoding Method specified in Request");
  query.page.names = encoding == "url" ? Names::escaped : Names::plain;
  query.page.prefix = text("prefix");
  query.page.delimiter = text("delimiter");
  query.page.after = query.is_second ? text("start-after") : text("marker");
  if (const std::string token = text("continuation-token"); query.is_second && !token.empty()) {
    auto after = from_base64(token);
    if (!after) return httpd::refused(400, "The continuation token provided is incorrect");
    query.page.after = std::move(*after);
  }
  for (const std::string* const each : {&query.page.prefix, &query.page.delimiter, &query.page.after})
    if (each->size() > kMaxKeySize) return httpd::refused(400, "A prefix, delimiter or key has more than 1024 bytes");
  if (const std::string most = text("max-keys"); !most.empty()) {
    const auto number = parse_number<int64_t>(most);
    if (!number || *number < 0) return httpd::refused(400, "Argument max-keys must be an integer from 0 on");
    query.page.most = std::min(static_cast<size_t>(*number), kMaxKeys);
  }
  return query;
}

Result<std::string> listing_text(const std::string& bucket, const httpd::Target& target, const ListQuery& query,
                                 const Page& page, const std::function<Result<ObjectFacts>(size_t file)>& facts_of) {
  std::string objects, groups;
  for (const PageEntry& entry : page.entries) {
    const std::string key = key_text(entry.name, query.page.names);
    if (!entry.file) {
      groups += fmt::format("<CommonPrefixes>{}</CommonPrefixes>", element("Prefix", key));
      continue;
    }
    const ObjectFacts facts = TRY(facts_of(*entry.file));
    objects += fmt::format("<Contents>{}{}{}{}{}</Contents>", element("Key", key),
                           element("LastModified", xml_time(facts.modified)), element("ETag", facts.tag),
                           element("Size", std::to_string(facts.size)), element("StorageClass", "STANDARD"));
  }
  return document("ListBucketResult", head_of(bucket, target, query, page) + objects + groups);
}

}  // namespace weightfs::objects
