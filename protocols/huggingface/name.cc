// Names of repositories (huggingface_hub, "HF URIs"), and their URLs.

#include "protocols/huggingface/name.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace weightfs::huggingface {
namespace {

constexpr size_t kMaxId = 200;  // the Hub permits 96 characters for each of the two parts
constexpr size_t kMaxRevision = 255;
constexpr size_t kMaxPath = 4096;

tl::unexpected<Error> invalid_name(std::string_view text, std::string_view problem) {
  return failure(Code::unsupported, fmt::format("{}: {}", quoted("hf:" + std::string(text)), problem));
}

bool is_alphanumeric(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// A part of an id: not the whole of a path component like `..`.
bool is_id_part(std::string_view part) {
  return is_file_name(part) && std::all_of(part.begin(), part.end(), [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

// "http://host:port" and "host" before a `/`; empty if there is none.
std::string cut_server(std::string_view& rest) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!rest.starts_with(scheme)) continue;
    rest.remove_prefix(scheme.size());
    return std::string(scheme) + std::string(cut_component(rest));
  }
  const std::string_view first = rest.substr(0, rest.find('/'));
  if (first != "localhost" && first.find_first_of(".:[") == first.npos) return {};
  return std::string(cut_component(rest));
}

Result<std::string> cut_kind(std::string_view& rest, std::string_view text) {
  constexpr auto kKinds = std::to_array<std::string_view>({"models", "datasets", "spaces"});
  const std::string_view first = rest.substr(0, rest.find('/'));
  if (first.size() == rest.size()) return "models";
  for (const std::string_view kind : kKinds) {
    if (first == kind) return std::string(cut_component(rest));
    if (first == kind.substr(0, kind.size() - 1))
      return invalid_name(text, fmt::format("{}/ expected instead of {}/", kind, first));
  }
  if (first == "buckets" || first == "kernels") return invalid_name(text, fmt::format("{} are not supported", first));
  return "models";
}

// A part of the id of a model: begins and ends with a letter, a digit or `_`.
bool is_part_on_hub(std::string_view part) {
  constexpr size_t kMaxPart = 96;
  const auto is_end = [](char c) { return is_alphanumeric(c) || c == '_'; };
  return !part.empty() && part.size() <= kMaxPart && is_id_part(part) && is_end(part.front()) && is_end(part.back()) &&
         part.find("--") == part.npos && part.find("..") == part.npos && !part.ends_with(".git");
}

// The length of the revision at the beginning of `rest`: refs/pr/N has slashes in it.
size_t revision_size(std::string_view rest) {
  for (const std::string_view special : {"refs/pr/", "refs/convert/"})
    if (rest.starts_with(special)) return std::min(rest.find('/', special.size()), rest.size());
  return std::min(rest.find('/'), rest.size());
}

Result<std::string> checked_path(std::string_view path, std::string_view text) {
  if (path.starts_with('/')) return invalid_name(text, "not a path in the repository");
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.size() > kMaxPath) return invalid_name(text, "the path is too long");
  if (!path.empty() && !is_plain_path(path)) return invalid_name(text, "not a path in the repository");
  return std::string(path);
}

std::string prefix_of_kind(const Name& name) { return name.kind == "models" ? "" : name.kind + "/"; }

}  // namespace

std::string Name::text() const {
  return fmt::format("hf://{}{}{}{}@{}{}{}", server, server.empty() ? "" : "/", prefix_of_kind(*this), id, revision,
                     path.empty() ? "" : "/", path);
}

bool is_repository_id(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  return text.size() <= kMaxId && is_id_part(text.substr(0, slash)) &&
         (slash == text.size() || is_id_part(text.substr(slash + 1)));
}

bool is_permitted_model(const std::string& id, const std::vector<std::string>& patterns) {
  std::string_view rest = id;
  const std::string_view organization = cut_component(rest);
  // They are no organizations, but the beginnings of other paths.
  constexpr auto kOtherPaths = std::to_array<std::string_view>({"api", "datasets", "models", "spaces"});
  if (!is_part_on_hub(organization) || !is_part_on_hub(rest) ||
      std::ranges::find(kOtherPaths, lower_case(organization)) != kOtherPaths.end())
    return false;
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), id.c_str(), FNM_NOESCAPE) == 0; });
}

bool is_of_permitted_model(std::string_view url, std::string_view below, const std::vector<std::string>& patterns) {
  constexpr std::string_view kApi = "api/models/";
  if (!url.starts_with(below)) return false;
  std::string_view rest = url.substr(below.size());
  const bool is_api = rest.starts_with(kApi);
  if (is_api) rest.remove_prefix(kApi.size());
  const std::string_view organization = cut_component(rest);
  const std::string_view name = cut_component(rest);
  const std::string_view what = cut_component(rest);
  const bool is_what = is_api ? what == "revision" || what == "tree" : what == "resolve";
  return is_what && !rest.empty() && is_permitted_model(fmt::format("{}/{}", organization, name), patterns);
}

// git-check-ref-format(1), as far as a name that breaks it could be mistaken for something else.
bool is_revision(std::string_view text) {
  const bool has_bad_character = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 0x7f ||
           std::string_view("~^:?*[\\").find(c) != std::string_view::npos;
  });
  return !text.empty() && text.size() <= kMaxRevision && !has_bad_character && text.find("..") == text.npos &&
         text.find("//") == text.npos && !text.starts_with('/') && !text.ends_with('/') && text != "." && is_utf8(text);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<Name> parse_name(std::string_view text) {
  if (!text.starts_with("//")) return invalid_name(text, "hf://ORG/REPO expected");
  std::string_view rest = text.substr(2);
  Name name;
  name.server = lower_case(cut_server(rest));
  if (name.server.find_first_of("@?#") != name.server.npos)
    return failure(Code::unsupported, "hf://: a server with user, password or query is not supported");
  name.kind = TRY(cut_kind(rest, text));
  const std::string_view organization = cut_component(rest);
  const std::string_view repository = rest.substr(0, rest.find_first_of("/@"));
  if (repository.empty() || organization.find('@') != organization.npos)
    return invalid_name(text, "names no repository; ORG/REPO expected");
  name.id = fmt::format("{}/{}", organization, repository);
  if (!is_repository_id(name.id)) return invalid_name(text, fmt::format("{} is not a repository", quoted(name.id)));
  rest.remove_prefix(repository.size());
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    const size_t size = revision_size(rest);
    bool is_valid = true;
    name.revision = http::url_decoded(rest.substr(0, size), &is_valid);
    if (!is_valid) return invalid_name(text, "two hex digits expected after the %");
    if (!is_revision(name.revision))
      return invalid_name(text, name.revision.empty() ? "a revision is expected after the @" : "not a valid revision");
    rest.remove_prefix(size);
  }
  if (rest.starts_with('/')) name.path = TRY(checked_path(rest.substr(1), text));
  return name;
}

std::string api_url(const std::string& endpoint, const Name& name, std::string_view method,
                    const std::string& revision) {
  return fmt::format("{}/api/{}/{}/{}/{}", endpoint, name.kind, name.id, method, http::url_encoded(revision));
}

std::string file_url(const std::string& endpoint, const Name& name, const std::string& commit,
                     const std::string& path) {
  return fmt::format("{}/{}{}/resolve/{}/{}", endpoint, prefix_of_kind(name), name.id, commit,
                     http::url_encoded(path, "/"));
}

std::vector<std::string> urls_of(const std::string& endpoint, const Name& name) {
  const std::string api = fmt::format("{}/api/{}/{}/", endpoint, name.kind, name.id);
  return {api + "revision/", api + "tree/", fmt::format("{}/{}{}/resolve/", endpoint, prefix_of_kind(name), name.id)};
}

std::string page_url(const std::string& endpoint, const Name& name) {
  return fmt::format("{}/{}{}", endpoint, prefix_of_kind(name), name.id);
}

}  // namespace weightfs::huggingface
