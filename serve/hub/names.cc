#include "serve/hub/names.h"

#include <algorithm>

namespace weightfs::hub {
namespace {

constexpr size_t kMaxName = 96;  // huggingface_hub, utils/_validators.py

bool is_base(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

}  // namespace

// llama.cpp permits `.` and `-` only between other characters, huggingface_hub neither `--` nor `..`.
std::string repository_name(std::string_view name) {
  constexpr std::string_view kGit = ".git";
  std::string out;
  for (const char c : name) {
    if (is_base(c))
      out += c;
    else if (!out.empty() && is_base(out.back()))
      out += c == '.' ? '.' : '-';
  }
  out.resize(std::min(out.size(), kMaxName));
  while (!out.empty() && !is_base(out.back())) out.pop_back();
  if (out.ends_with(kGit)) out[out.size() - kGit.size()] = '-';
  return out;
}

std::string name_of_source(std::string_view source) {
  const size_t scheme = source.find("://");
  if (scheme != source.npos) source = source.substr(scheme + 3, source.find('@', scheme) - scheme - 3);
  while (source.ends_with('/')) source.remove_suffix(1);
  std::string name = repository_name(source.substr(source.rfind('/') + 1));
  return name.empty() ? "model" : name;
}

bool is_repository_id(std::string_view id) {
  const size_t slash = id.find('/');
  const auto is_part = [](std::string_view part) {
    const bool has_other = std::ranges::any_of(part, [](char c) { return !is_base(c) && c != '.' && c != '-'; });
    return !part.empty() && part.size() <= kMaxName && !has_other && part != "." && part != "..";
  };
  return slash != id.npos && is_part(id.substr(0, slash)) && is_part(id.substr(slash + 1));
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace weightfs::hub
