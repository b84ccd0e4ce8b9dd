#include "serve/api/api.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/text.h"
#include "fs/http/protocol/conditions.h"

namespace weightfs::api {
struct Api::Endpoint {
  // What the result of an endpoint depends on, and how long it may take.
  enum class Kind {
    listing,      // directories, which may change
    row,          // a model in a directory, of which there may be many: from its header, and not kept
    description,  // of a model, from its header
    summary,      // the same of all tensors
    computation,  // reads tensors
    stream        // the same, and may send its progress
  };

  const char* name;
  Kind kind;
  Accepted<Content> (*make)(const Call&);
};

const Api::Endpoint* Api::find(const httpd::Target& target) {
  using Kind = Endpoint::Kind;
  static constexpr std::array kEndpoints = {
      Endpoint{"models", Kind::listing, list_models},         Endpoint{"model", Kind::summary, describe_model},
      Endpoint{"tensors", Kind::description, list_tensors},   Endpoint{"tree", Kind::description, list_names},
      Endpoint{"tensor", Kind::description, describe_tensor}, Endpoint{"histogram", Kind::computation, histogram},
      Endpoint{"channels", Kind::computation, channels},      Endpoint{"heatmap", Kind::computation, heat_map},
      Endpoint{"values", Kind::computation, values},          Endpoint{"statistics", Kind::stream, statistics},
      Endpoint{"overview", Kind::stream, overview},           Endpoint{"experts", Kind::stream, experts},
      Endpoint{"compare", Kind::stream, compare_models},      Endpoint{"duplicates", Kind::stream, find_equal_tensors},
      Endpoint{"deviation", Kind::stream, deviation},         Endpoint{"index", Kind::description, list_locations},
      Endpoint{"groups", Kind::summary, list_groups},         Endpoint{"line", Kind::computation, line},
      Endpoint{"entry", Kind::row, describe_entry},           Endpoint{"files", Kind::listing, list_files},
      Endpoint{"memory", Kind::description, describe_memory}, Endpoint{"metadata", Kind::description, list_metadata},
      Endpoint{"tokens", Kind::description, list_tokens},     Endpoint{"template", Kind::description, list_texts},
  };
  const auto& path = target.segments;
  const bool is_api = path.size() == 4 && path[0] == ".weightfs" && path[1] == "api" && path[2] == "v1";
  const auto found =
      std::ranges::find_if(kEndpoints, [&](const Endpoint& each) { return is_api && path[3] == each.name; });
  return found == kEndpoints.end() ? nullptr : &*found;
}

Api::Api(Forest& forest, std::string source, std::function<std::string(const std::string& path)> href, bool takes_files)
    : forest_(forest), source_(std::move(source)), href_(std::move(href)), takes_files_(takes_files), models_(forest) {}

std::optional<Accepted<httpd::Response>> Api::answer(const httpd::Request& request, const httpd::Target& target,
                                                     const std::function<bool()>& has_left) {
  const bool is_api = target.segments.size() >= 2 && target.segments[0] == ".weightfs" && target.segments[1] == "api";
  if (!is_api) return std::nullopt;
  const Endpoint* const endpoint = find(target);
  if (endpoint == nullptr) return httpd::refused(404, "the API has no such endpoint; see docs/api.md");
  // Someone who types or zooms asks again before the answer is there.
  if (has_left && has_left()) return httpd::refused(503, "the client has gone");
  const CancelScope scope(has_left ? has_left : [] { return false; });
  return answer(*endpoint, request, Query(target.query));
}

// The versions of the models that a request is about.
Accepted<std::string> Api::version_of(const Query& query) {
  std::string out;
  for (const char* const name : {"model", "model2", "a", "b"}) {
    const bool is_first = std::string_view(name) == "model" && !query.has("a") && !query.has("b");
    if (!is_first && !query.has(name) && !(std::string_view(name) == "model2" && query.has("t2"))) continue;
    const OpenModelPtr model = ACCEPT(models_.open(query.text(name), is_first ? query.text("v") : ""));
    out += model->version();
  }
  return out;
}

Accepted<ContentPtr> Api::compute(const Endpoint& endpoint, const Query& query, const std::string& key,
                                  const Report& report) {
  Call call{query, forest_, models_, source_, href_, takes_files_, report};
  Content content = ACCEPT(endpoint.make(call));
  const ContentPtr made = ACCEPT(results_.share(std::move(content)));
  if (endpoint.kind >= Endpoint::Kind::summary) results_.keep(key, made);
  return made;
}

Accepted<httpd::Response> Api::answer(const Endpoint& endpoint, const httpd::Request& request, const Query& query) {
  httpd::Response response;
  std::string key;
  if (endpoint.kind > Endpoint::Kind::row) {
    constexpr size_t kDigits = 32;
    key = fmt::format("{} {} {}", endpoint.name, ACCEPT(version_of(query)), query.key());
    const std::string tag = fmt::format("\"{}\"", std::string_view(sha256(key).hex()).substr(0, kDigits));
    response.add("ETag", tag);
    response.add("Cache-Control", query.has("v") ? "private, max-age=31536000, immutable" : "private, no-cache");
    const httpd::Validators validators{tag};
    const httpd::Verdict verdict = evaluate(request, validators, 0);
    if (verdict == httpd::Verdict::failed) return httpd::refused(412, "the result has another entity tag");
    if (verdict == httpd::Verdict::not_modified) {
      response.status = 304;
      return response;
    }
  } else {
    response.add("Cache-Control", "no-store");
  }
  ContentPtr content = endpoint.kind >= Endpoint::Kind::summary ? results_.find(key) : nullptr;
  const std::string* const accept = request.field("accept");
  const bool is_stream = endpoint.kind == Endpoint::Kind::stream && !request.is_head() && accept != nullptr &&
                         accept->find("text/event-stream") != std::string::npos;
  if (is_stream)
    return jobs_.stream([this, &endpoint, query, key, content](const Report& report) -> Accepted<ContentPtr> {
      return content != nullptr ? Accepted<ContentPtr>(content) : compute(endpoint, query, key, report);
    });
  const Compute make = [&](const Report& report) { return compute(endpoint, query, key, report); };
  if (content == nullptr && endpoint.kind >= Endpoint::Kind::computation) content = ACCEPT(jobs_.run(make));
  if (endpoint.kind == Endpoint::Kind::row) content = ACCEPT(rows_.run(make));
  if (content == nullptr) content = ACCEPT(make([](const char*, uint64_t, uint64_t) {}));
  response.add("Content-Type", content->type).add("X-Content-Type-Options", "nosniff");
  response.add("Cross-Origin-Resource-Policy", "same-origin");
  if (!content->grid.empty()) response.add("Weightfs-Grid", content->grid);
  response.body.emplace_back(httpd::SharedText{{content, &content->bytes}});
  return response;
}

}  // namespace weightfs::api
