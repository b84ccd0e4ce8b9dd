// Arguments that name no source, but look like the name of one: what the user probably meant.
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "cache/address_policy.h"
#include "cache/url.h"
#include "formats/format.h"
#include "protocols/huggingface.h"
#include "sources/kinds.h"

namespace weightfs {
namespace {

constexpr auto kSchemes =
    std::to_array<std::string_view>({"https", "http", "hf", "oci", "s3", "gs", "abfss", "abfs", "az"});
constexpr std::string_view kHubPage = "a page of the Hugging Face Hub, not a file";

// Whether one letter is missing, added, replaced, or swapped with the next.
bool is_one_error_away(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  const auto [at, other] = std::ranges::mismatch(a, b);
  const auto same = static_cast<size_t>(at - a.begin());
  if (a.size() < b.size()) return a.substr(same) == b.substr(same + 1);
  if (same == a.size() || a.substr(same + 1) == b.substr(same + 1)) return true;
  return same + 1 < a.size() && a[same] == b[same + 1] && a[same + 1] == b[same] &&
         a.substr(same + 2) == b.substr(same + 2);
}

bool is_hub_host(std::string_view host) {
  return host == "huggingface.co" || host == "www.huggingface.co" || host == "hf.co";
}

// "hf://org/repo@revision/path" for "org/repo/tree/revision/path" and "org/repo/blob/…"; empty for other paths.
std::string hub_name_of(std::string_view path) {
  std::string name = "//";
  for (const std::string_view kind : {"datasets/", "spaces/"})
    if (path.starts_with(kind)) {
      name += kind;
      path.remove_prefix(kind.size());
    }
  const std::string_view organization = cut_component(path);
  name += fmt::format("{}/{}", organization, cut_component(path));
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view view = cut_component(path);
  if (view == "tree" || view == "blob") {
    if (const std::string_view revision = cut_component(path); revision != "main") name += fmt::format("@{}", revision);
    if (!path.empty()) name += fmt::format("/{}", http::url_decoded(path));
  } else if (!view.empty()) {
    return {};
  }
  const bool is_site = organization == "api" || organization == "docs" || organization == "models";
  return !is_site && huggingface::parse_name(name) ? "hf:" + name : "";
}

// An argument with a scheme that weightfs does not know.
std::string text_about_scheme(const std::string& source, size_t end) {
  const std::string scheme = lower_case(source.substr(0, end));
  const std::string_view rest = std::string_view(source).substr(end);
  if (scheme == "file") {
    std::string_view path = rest.substr(3);
    if (path.starts_with("localhost/")) path.remove_prefix(std::string_view("localhost").size());
    return fmt::format("not a path; did you mean {}?", http::url_decoded(path));
  }
  if (scheme == "gcs") return fmt::format("unknown scheme {}; did you mean gs{}?", quoted(scheme), rest);
  if (scheme == "modelscope")
    return fmt::format("unknown scheme {}; did you mean {}?", quoted(scheme),
                       http::printable_url(fmt::format("ms{}", rest)));
  for (const std::string_view known : kSchemes)
    if (scheme == known || is_one_error_away(scheme, known))
      return fmt::format("unknown scheme {}; did you mean {}?", quoted(source.substr(0, end)),
                         http::printable_url(fmt::format("{}{}", known, rest)));
  return fmt::format(
      "unknown scheme {}; known are https://, http://, hf://, ms://, oci://, s3://, gs://, az:// and ollama:",
      quoted(scheme));
}

// "host:8080" and "host.example".
bool is_host(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const std::string_view port = text.substr(std::min(colon + 1, text.size()));
  const bool has_port = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.';
  });
  return is_name && !name.starts_with('.') && (has_port || (colon == text.size() && name.find('.') != name.npos));
}

bool exists(std::string_view path) {
  struct stat status {};
  return ::lstat(std::string(path).c_str(), &status) == 0;
}

// What was probably meant by a path that does not exist; empty if it may be one.
std::string probable_name(const std::string& path) {
  std::string_view rest = path;
  const std::string_view first = cut_component(rest);
  if (!is_file_name(first) || rest.empty() || exists(first)) return {};
  if (is_hub_host(first)) return hub_name_of(rest);
  if (is_host(first)) {
    const std::string_view last = rest.substr(rest.rfind('/') + 1);
    if (last.find_first_of(":@") != last.npos) return "oci://" + path;
    const std::string_view scheme = is_loopback_host(first.substr(0, first.find(':'))) ? "http" : "https";
    if (first.find(':') != first.npos || is_named_as_model(last))
      return fmt::format("{}://{} or oci://{}", scheme, path, path);
    return {};
  }
  const bool is_file = rest.find('/') == rest.npos && is_named_as_model(rest);
  return !is_file && huggingface::parse_name("//" + path) ? "hf://" + path : "";
}

}  // namespace

Error with_probable_source(const std::string& path, Error not_found) {
  const size_t scheme = path.find("://");
  const bool has_scheme = scheme != path.npos && scheme > 0 && scheme < path.find('/');
  if (has_scheme) {
    not_found.message = fmt::format("{}: {}", http::printable_url(path), text_about_scheme(path, scheme));
  } else if (const std::string name = probable_name(path); !name.empty()) {
    not_found.message += fmt::format("; did you mean {}?", name);
  }
  return not_found;
}

Result<void> check_not_a_page_of_the_hub(const std::string& url) {
  const std::string shown = http::printable_url(url);
  const std::string origin = http::origin_of(url);
  const std::string configured = environment("HF_ENDPOINT");
  const bool is_hub =
      std::ranges::any_of(std::to_array({"https://huggingface.co", "https://www.huggingface.co", "https://hf.co"}),
                          [&](const char* hub) { return origin == http::origin_of(hub); }) ||
      (!configured.empty() && origin == http::origin_of(configured) &&
       !is_named_as_model(shown));  // it may have files, too
  const size_t path = shown.find('/', shown.find("://") + 3);
  if (origin.empty() || !is_hub || path == shown.npos) return {};
  const std::string name = hub_name_of(std::string_view(shown).substr(path + 1));
  return name.empty() ? Result<void>()
                      : failure(Code::not_found, fmt::format("{}: {}; did you mean {}?", shown, kHubPage, name));
}

}  // namespace weightfs
