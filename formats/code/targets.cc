// Reference: hydra/_internal/instantiate/_instantiate2.py of Hydra 1.3, nemo/core/classes/common.py of NeMo 2.
#include "formats/code/targets.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/text.h"
#include "formats/code/names.h"

namespace weightfs::code {
namespace {

// Packages whose classes are parts of models and of their training.
constexpr auto kTargetPackages = std::to_array<std::string_view>({"nemo",
                                                                  "megatron",
                                                                  "torch",
                                                                  "torchvision",
                                                                  "torchaudio",
                                                                  "torchmetrics",
                                                                  "lightning",
                                                                  "lightning_fabric",
                                                                  "pytorch_lightning",
                                                                  "transformers",
                                                                  "diffusers",
                                                                  "timm",
                                                                  "omegaconf",
                                                                  "einops",
                                                                  "peft",
                                                                  "hydra_plugins",
                                                                  "bionemo",
                                                                  "nemo_text_processing",
                                                                  "monai",
                                                                  "ignite"});

// What Hydra writes into the files of each run.
constexpr auto kHydra = std::to_array<std::string_view>({"hydra._internal", "hydra.core", "hydra.conf"});

bool is_harmless(std::string_view target, Instantiator instantiator) {
  const bool is_class = !target.empty() && target[0] >= 'A' && target[0] <= 'Z' && target.find('.') == target.npos;
  if (instantiator == Instantiator::monai && is_class) return !leads_to_danger(target);
  const auto is_below = [&](std::string_view module) {
    return target.starts_with(module) && target.substr(module.size()).starts_with('.');
  };
  if (std::ranges::any_of(kHydra, is_below)) return true;
  return is_one_of(package_of(target), kTargetPackages) && !leads_to_danger(target);
}

// The maximum length of a name; a longer one is cut.
constexpr size_t kMaxName = 1000;

// The maximum length of a tag that is shown.
constexpr size_t kMaxTag = 80;

// The maximum length of what is between the colon and the value.
constexpr size_t kMaxBefore = 4096;

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Tags of PyYAML that call functions: "!!python/object/apply:os.system".
void add_tags(std::string_view text, std::string_view path, CodeList& out) {
  constexpr auto kTags = std::to_array<std::string_view>({"python/object", "python/name:", "python/module:"});
  for (const std::string_view tag : kTags) {
    for (size_t at = text.find(tag); at != text.npos; at = text.find(tag, at + 1)) {
      if (at == 0 || (text[at - 1] != '!' && text[at - 1] != ':')) continue;
      const std::string_view rest = text.substr(at, kMaxTag);
      const std::string_view whole = rest.substr(0, rest.find_first_of(" \t\r\n,]}>"));
      out.add({fmt::format("tag {}", whole), std::string(path), "when PyYAML reads the file without safe_load"});
    }
  }
}

class Targets {
 public:
  Targets(std::string_view text, std::string_view path, Instantiator instantiator, CodeList& out)
      : text_(text), path_(path), instantiator_(instantiator), out_(out) {}

  // The values of a key.
  void find(std::string_view key, bool at_begin_of_line) {
    size_t line = 0, from = 0;  // the begin of the line, and what was read
    for (size_t at = text_.find(key); at != text_.npos; at = text_.find(key, std::max(from, at + 1))) {
      const size_t end = text_.substr(from, at - from).rfind('\n');
      if (end != text_.npos) line = from + end + 1;
      from = at;
      const bool is_whole = at == 0 || !is_of_name(text_[at - 1]);
      if (is_whole && (!at_begin_of_line || begins_line(at)) && !is_comment(line, at)) from = value(at + key.size());
    }
  }

 private:
  bool begins_line(size_t at) const {
    const size_t before = at == 0 ? text_.npos : text_.find_last_not_of(" \t-\"'", at - 1);
    return before == text_.npos || text_[before] == '\n';
  }

  bool is_comment(size_t line, size_t at) const {
    const size_t first = text_.find_first_not_of(" \t", line);
    return first < at && text_[first] == '#';
  }

  // Behind the colon of a key that ends at `at`; nothing if it is no key.
  std::optional<size_t> behind_colon(size_t at) const {
    if (at < text_.size() && (text_[at] == '"' || text_[at] == '\'')) ++at;
    at = std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());  // on the next line behind "? _target_"
    return at < text_.size() && text_[at] == ':' ? std::optional(at + 1) : std::nullopt;
  }

  // Behind an anchor, a tag, quotes, or the sign of a text on the next lines.
  size_t begin_of_value(size_t at) const {
    constexpr std::string_view kBefore = " \t\r\n\"'", kMarks = "&!>|";
    const size_t most = std::min(text_.size(), at + kMaxBefore);
    while (at < most) {
      if (kBefore.find(text_[at]) != kBefore.npos)
        ++at;
      else if (kMarks.find(text_[at]) != kMarks.npos)
        while (at < most && text_[at] != ' ' && text_[at] != '\n') ++at;
      else
        break;
    }
    return at;
  }

  // Returns the end of the value.
  size_t value(size_t end_of_key) {
    const auto behind = behind_colon(end_of_key);
    if (!behind) return end_of_key;
    const size_t at = begin_of_value(*behind);
    size_t end = at;
    while (end < text_.size() && end - at < kMaxName && is_of_name(text_[end])) ++end;
    const std::string_view target = text_.substr(at, end - at);
    const bool is_computed = at < text_.size() && (text_[at] == '*' || text_[at] == '$');
    if (target.empty() && !is_computed && at - *behind < kMaxBefore) return at;
    const std::string_view shown =
        target.empty() ? text_.substr(at, text_.substr(at, kMaxName).find_first_of(" \r\n")) : target;
    if (target != "null") add_target(shown, path_, instantiator_, out_);
    return end;
  }

  std::string_view text_, path_;
  Instantiator instantiator_;
  CodeList& out_;
};

}  // namespace

std::string without_escapes(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char kind = text[at] == '\\' && at + 1 < text.size() ? text[at + 1] : '\0';
    const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    const auto code = digits == 0 ? std::nullopt : parse_number<uint32_t>(text.substr(at + 2, digits), 16);
    if (code && *code < 0x80) {
      out += static_cast<char>(*code);
      at += 2 + digits;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool may_have_targets(std::string_view path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

void add_target(std::string_view target, std::string_view path, Instantiator instantiator, CodeList& out) {
  if (is_harmless(target, instantiator)) return;
  const bool is_monai = instantiator == Instantiator::monai;
  out.add({fmt::format("_target_: {}", target), std::string(path),
           fmt::format("when {} instantiates the configuration", is_monai ? "MONAI" : "NeMo or Hydra")});
}

void add_targets(std::string_view text, std::string_view path, Instantiator instantiator, CodeList& out) {
  const std::string plain = text.find('\\') == text.npos ? std::string(text) : without_escapes(text);
  Targets targets(plain, path, instantiator, out);
  targets.find("_target_", false);
  if (instantiator == Instantiator::nemo) targets.find("target", true);
  add_tags(plain, path, out);
}

}  // namespace weightfs::code
