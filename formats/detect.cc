#include <algorithm>
#include <array>

#include "base/text.h"
#include "formats/archive/archive.h"
#include "formats/common/compromise.h"
#include "formats/format.h"

namespace weightfs {
namespace {

Match never(const Clues&) { return Match::no; }

// Formats with a magic number first: the others may see themselves in anything.
constexpr std::array kFormats = {
    Format{"gguf", ".gguf", matches_gguf, read_gguf},
    Format{"rten", ".rten", matches_rten, read_rten},
    Format{"tvm-params", ".params", matches_tvm_params, read_tvm_params},
    Format{"zip", ".zip .carton", matches_zip, read_zip},
    Format{"tar", ".tar .tar.gz .tgz .tar.xz .txz .tar.zst .tzst .tar.bz2 .tbz2", matches_tar, read_tar,
           Settled::by_name},
    Format{"carton", "", matches_carton_directory, read_carton},
    Format{"tensor-cache", "", matches_tensor_cache, read_tensor_cache},
    Format{"tvm-mlf", "", matches_mlf_directory, read_mlf},
    Format{"ollama", "", matches_ollama, read_ollama},
    Format{"safetensors", ".safetensors", matches_safetensors, read_safetensors},
    Format{"safetensors-index", ".json", matches_safetensors_index, read_safetensors_index},
    Format{"bintensors", ".bt .bintensors", matches_bintensors, read_bintensors},
    Format{"bintensors-release", "", never, read_bintensors_release},
    Format{"bintensors-legacy", "", never, read_bintensors_legacy},
};

// What there is to see of a container without reading it all.
class Look {
 public:
  /// At the beginning.
  static Result<Look> at(const Container& container) {
    Look look;
    look.name_ = container.name;
    look.size_ = container.bytes->size();
    look.head_ = TRY(read_text(*container.bytes, 0, std::min<uint64_t>(look.size_, kHeadSize)));
    return look;
  }

  /// And at the end, unless the beginning tells all: a cold disk takes as long for one as for the other.
  static Result<Look> at_both_ends(const Container& container) {
    Look look = TRY(at(container));
    if (look.find_sure() != nullptr) return look;
    const uint64_t shown = look.head_.size();
    look.tail_ = TRY(read_text(*container.bytes, look.size_ - shown, shown));
    return look;
  }

  /// The first format that this surely is; null when there is none.
  const Format* find_sure() const;

  Match match(const Format& format) const { return format.matches({name_, head_, tail_, size_}); }

 private:
  std::string name_, head_, tail_;
  uint64_t size_ = 0;
};

const Format* Look::find_sure() const {
  const auto sure = std::find_if(kFormats.begin(), kFormats.end(),
                                 [this](const Format& format) { return match(format) == Match::yes; });
  return sure == kFormats.end() ? nullptr : &*sure;
}

// Whether `name` ends as the names of the format's files usually do.
bool is_named_as(const Format& format, std::string_view name) {
  std::string_view left = format.suffixes;
  while (!left.empty()) {
    const std::string_view suffix = left.substr(0, left.find(' '));
    if (name.ends_with(suffix)) return true;
    left.remove_prefix(std::min(suffix.size() + 1, left.size()));
  }
  return false;
}

// An error is about a container; its name comes first, once.
Error about(const Container& container, const Error& error) {
  const std::string name = printable(container.name);
  return error.message.starts_with(name + ": ") ? error : Error{error.code, str(name, ": ", error.message)};
}

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* format_named(std::string_view name) {
  const auto row = std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == name; });
  return row == kFormats.end() ? nullptr : row;
}

Result<SourcePtr> open_beside(const Container& container, std::string_view name) {
  SourcePtr file = TRY(container.folder->open(name));
  if (container.folder->is_storage()) container.budget->add_file(*file);
  return file;
}

namespace {

// What a container in a container takes besides what it holds: files, trees, a library's memory.
constexpr uint64_t kNestedBytes = 16 * 1024;
constexpr uint64_t kNestedSteps = 300;

Result<Model> read_any(const Container& container, const Format* forced) {
  compromise_for_test();
  const auto named = [&](const Error& error) { return tl::unexpected(about(container, error)); };
  if (container.depth > 0) {
    if (auto paid = container.budget->charge(Cost::step, kNestedSteps); !paid) return named(paid.error());
    if (auto paid = container.budget->charge(Cost::kept, kNestedBytes); !paid) return named(paid.error());
  }
  if (forced != nullptr) return forced->read(container).map_error([&](const Error& e) { return about(container, e); });
  const auto look = Look::at_both_ends(container);
  if (!look) return named(look.error());
  if (const Format* sure = look->find_sure())
    return sure->read(container).map_error([&](const Error& e) { return about(container, e); });
  std::string tried;
  for (const Format& format : kFormats) {
    const Match match = look->match(format);
    // What is known by its place in a directory is no guess about a file.
    if (match == Match::no && format.suffixes.empty()) continue;
    auto model = match == Match::no ? failure(Code::unsupported, "") : format.read(container);
    if (model) return model;
    // An unreadable file is unreadable whatever it is.
    if (model.error().code == Code::io) return named(model.error());
    tried += str(tried.empty() ? "" : ", ", format.name, match == Match::no ? "" : " (" + model.error().message + ")");
  }
  return named(Error{Code::unsupported, str("not a model that weightfs knows (", human_size(container.bytes->size()),
                                            "); tried ", tried)});
}

}  // namespace

Result<Model> read_model(const Container& container, const Format* forced) {
  auto model = read_any(container, forced);
  if (model) model->budget = container.budget;
  return model;
}

Result<bool> is_model(const Container& container) {
  const auto look = Look::at_both_ends(container);
  if (!look && look.error().code == Code::io) return tl::unexpected(look.error());
  if (!look) return false;
  if (look->find_sure() != nullptr) return true;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    if (look->match(format) != Match::maybe) return false;
    return format.settled == Settled::by_name ? is_named_as(format, container.name)
                                              : format.read(container).has_value();
  });
}

bool is_named_as_model(std::string_view name) {
  // Of which an index of shards is one in a thousand.
  if (name.ends_with(".json")) return false;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) { return is_named_as(format, name); });
}

Result<bool> could_be_model(const Container& member) {
  const auto look = Look::at(member);
  if (!look && look.error().code == Code::io) return tl::unexpected(look.error());
  const Match unseen = look || is_about_the_bytes(look.error()) ? Match::no : Match::maybe;
  return std::any_of(kFormats.begin(), kFormats.end(), [&](const Format& format) {
    const Match match = look ? look->match(format) : unseen;
    return match == Match::yes || (match == Match::maybe && is_named_as(format, member.name));
  });
}

Result<std::optional<std::string>> key_file(const std::vector<std::string>& names, const Folder& folder) {
  const auto there = [&](std::string_view name) { return std::binary_search(names.begin(), names.end(), name); };
  if (there("carton.toml") && there("MANIFEST")) return "carton.toml";
  const auto is_index = [](std::string_view name) {
    return name.find(".safetensors.index.") != name.npos && name.ends_with(".json");
  };
  if (std::count_if(names.begin(), names.end(), is_index) == 1)
    return *std::find_if(names.begin(), names.end(), is_index);
  for (const char* index : {"tensor-cache.json", "ndarray-cache.json"})
    if (there(index)) return index;
  // Many directories have a metadata.json; only what it says makes one a model.
  if (!there("metadata.json")) return std::nullopt;
  const auto bytes = folder.open("metadata.json");
  if (bytes && TRY(is_mlf_metadata(*bytes))) return "metadata.json";
  return std::nullopt;
}

}  // namespace weightfs
