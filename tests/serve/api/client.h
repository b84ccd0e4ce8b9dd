// A client of the API of the page, without sockets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/source.h"
#include "base/values/json.h"
#include "serve/api/api.h"

namespace weightfs::api_client {

inline httpd::Request request(const std::string& target, std::vector<httpd::Field> fields = {}) {
  httpd::Request out;
  out.method = "GET";
  out.target = "/.weightfs/api/v1/" + target;
  out.fields = std::move(fields);
  return out;
}

inline std::string text_of(const httpd::Response& response) {
  std::string out;
  for (const httpd::BodyPart& part : response.body) {
    if (const auto* text = std::get_if<std::string>(&part)) out += *text;
    if (const auto* shared = std::get_if<httpd::SharedText>(&part)) out += *shared->text;
    if (const auto* next = std::get_if<httpd::Generator>(&part))
      for (std::string piece = (*next)().value(); !piece.empty(); piece = (*next)().value()) out += piece;
  }
  return out;
}

inline std::string field(const httpd::Response& response, const std::string& name) {
  const auto found = std::ranges::find(response.fields, name, &httpd::Field::name);
  return found == response.fields.end() ? "" : found->value;
}

/// The API of a forest with one tree.
class Client {
 public:
  explicit Client(TreePtr tree, std::string source = "m.safetensors")
      : forest(std::move(tree)), api(forest, std::move(source), [](const std::string& path) { return "/" + path; }) {}

  /// A refusal has its message as its body.
  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}) {
    const httpd::Request asked = request(target, std::move(fields));
    auto answered = api.answer(asked, httpd::parse_target(asked.target).value(), {});
    EXPECT_TRUE(answered.has_value());
    if (*answered) return std::move(**answered);
    return httpd::Response{(*answered).error().status, {}, {(*answered).error().message}};
  }

  std::string body(const std::string& target) { return text_of(ask(target)); }

  Map json(const std::string& target) {
    const std::string text = body(target);
    const SourcePtr source = in_memory(text);
    const auto value = parse_json(*source, 0, text.size());
    EXPECT_TRUE(value.has_value()) << text;
    return value ? std::get<Map>(*value) : Map();
  }

  /// The texts of a member of each element of a list.
  std::vector<std::string> names(const std::string& target, const char* list = "tensors", const char* key = "name") {
    std::vector<std::string> out;
    const Map all = json(target);
    for (const Value& each : *all.find_as<List>(list)) out.emplace_back(text_in(std::get<Map>(each), key));
    return out;
  }

  Forest forest;
  api::Api api;
};

}  // namespace weightfs::api_client
