#include <fmt/core.h>

#include <array>

#include "formats/mapping/config/model_name.h"
#include "formats/mapping/config/rope.h"
#include "formats/mapping/model_keys.h"
#include "formats/summary/facts/front_matter.h"

namespace weightfs::mapping {
namespace {

using summary::Fields;
using summary::FrontMatter;
using Texts = std::vector<std::string>;

struct Sampling {
  std::string_view key;
  std::array<std::string_view, 2> fields;
  bool is_integer = false;
};

// In the converter's order.
constexpr auto kSampling = std::to_array<Sampling>({
    {"top_k", {"top_k"}, true},
    {"top_p", {"top_p"}},
    {"min_p", {"min_p"}},
    {"xtc_probability", {"xtc_probability"}},
    {"xtc_threshold", {"xtc_threshold"}},
    {"temp", {"temperature"}},
    {"penalty_last_n", {"penalty_last_n"}, true},
    {"penalty_repeat", {"penalty_repeat", "repetition_penalty"}},
    {"mirostat", {"mirostat"}, true},
    {"mirostat_tau", {"mirostat_tau"}},
    {"mirostat_eta", {"mirostat_eta"}},
});

void add_sampling(Repository& repository, Keys& keys) {
  summary::SmallFiles& files = repository.files();
  const Fields fields(files.object("generation_config.json"), "generation_config.json", files.warnings());
  for (const Sampling& one : kSampling) {
    const std::string key = fmt::format("general.sampling.{}", one.key);
    const std::optional<double> value = fields.real(one.fields);
    if (!value) continue;
    if (!one.is_integer)
      keys.f32(key, *value);
    else if (*value >= INT32_MIN && *value <= INT32_MAX)
      keys.i32(key, static_cast<int32_t>(*value));
  }
}

// The texts of the first of these keys that the card has; null if it has none.
const Texts* texts_of(const FrontMatter& card, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto found = card.find(name); found != card.end()) return &found->second;
  return nullptr;
}

std::optional<std::string> text_of(const FrontMatter& card, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const Texts* const texts = texts_of(card, {name}); texts != nullptr && !texts->empty()) return texts->front();
  return std::nullopt;
}

struct NameParts {
  std::optional<std::string> name;
  std::optional<std::string> version;
  std::optional<std::string> organization;
  std::optional<std::string> finetune;
  std::optional<std::string> basename;
  std::optional<std::string> size_label;

  void complete(const ModelName& from) {
    const auto set = [](std::optional<std::string>& field, const std::optional<std::string>& value) {
      if (!field) field = value;
    };
    set(name, title_of(from.full));
    set(version, from.version);
    set(organization, from.organization ? std::optional(title_of(*from.organization)) : std::nullopt);
    set(finetune, from.finetune);
    set(basename, from.basename);
    set(size_label, from.size_label);
  }
};

// The card comes first, then the name under which the repository was saved, then its own.
NameParts names_of(Repository& repository, const FrontMatter& card, uint64_t parameters) {
  NameParts out = {.name = text_of(card, {"name", "model_name"}),
                   .version = text_of(card, {"version", "model_version"}),
                   .organization = text_of(card, {"organization", "model_organization"}),
                   .finetune = text_of(card, {"finetune", "model_finetune"}),
                   .basename = text_of(card, {"basename", "model_basename", "model_type"}),
                   .size_label = text_of(card, {"size_label", "model_size_label"})};
  const Map* const config = repository.files().object("config.json");
  const auto* const saved = config == nullptr ? nullptr : config->find_as<std::string>("_name_or_path");
  // With more than one slash it is a path.
  if (saved != nullptr && !saved->empty() && saved->find('/') == saved->rfind('/'))
    out.complete(parse_model_name(*saved, parameters));
  out.complete(parse_model_name(repository.name(), parameters));
  return out;
}

// The repository of a URL of the Hub; empty if it is another.
std::string_view hub_name(std::string_view url) {
  for (const std::string_view scheme : {"https://huggingface.co/", "http://huggingface.co/"}) {
    if (!url.starts_with(scheme)) continue;
    url.remove_prefix(scheme.size());
    const size_t slash = url.find('/');
    const bool is_name = slash != url.npos && slash > 0 && slash + 1 < url.size() && slash == url.rfind('/');
    return is_name ? url : "";
  }
  return "";
}

// base_model and dataset: each text is a URL, or the name of a repository.
void add_origins(std::string_view kind, const Texts& texts, uint64_t parameters, Keys& keys) {
  keys.u32(fmt::format("general.{}.count", kind), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    const bool is_url = text.starts_with("http://") || text.starts_with("https://") || text.starts_with("ssh://");
    const std::string_view id = is_url ? hub_name(text) : text;
    const ModelName name = parse_model_name(id, parameters);
    const auto add = [&](std::string_view field, const std::string& value) {
      keys.text(fmt::format("general.{}.{}.{}", kind, i, field), value);
    };
    if (!id.empty()) {
      add("name", title_of(name.full));
      add("version", name.version.value_or(""));
      add("organization", title_of(name.organization.value_or("")));
    }
    if (is_url)
      add("repo_url", text);
    else if (name.organization)
      add("repo_url", fmt::format("https://huggingface.co/{}/{}", *name.organization, name.full));
  }
}

Texts joined_lists(const FrontMatter& card, std::initializer_list<std::string_view> names) {
  Texts out;
  for (const std::string_view name : names)
    if (const Texts* const texts = texts_of(card, {name})) out.insert(out.end(), texts->begin(), texts->end());
  return out;
}

void add_license(const FrontMatter& card, Keys& keys) {
  if (const Texts* const licenses = texts_of(card, {"license"})) {
    std::string all;
    for (const std::string& one : *licenses) all += (all.empty() ? "" : ",") + one;
    keys.text("general.license", all);
  }
  keys.text("general.license.name", text_of(card, {"license_name"}).value_or(""));
  keys.text("general.license.link", text_of(card, {"license_link"}).value_or(""));
  keys.text("general.source.url", text_of(card, {"url", "model_url"}).value_or(""));
  keys.text("general.source.doi", text_of(card, {"doi", "model_doi"}).value_or(""));
  keys.text("general.source.uuid", text_of(card, {"uuid", "model_uuid"}).value_or(""));
  keys.text("general.source.repo_url", text_of(card, {"repo_url", "model_repo_url"}).value_or(""));
}

}  // namespace

void add_general(Repository& repository, const ParameterCount& parameters, Keys& keys) {
  const std::string_view architecture = repository.architecture().name;
  keys.text("general.architecture", architecture);
  if (const auto factor = attention_factor(repository))
    keys.f32(fmt::format("{}.rope.scaling.attn_factor", architecture), *factor);
  keys.text("general.type", "model");
  add_sampling(repository, keys);
  const FrontMatter card = summary::front_matter(repository.files().head("README.md", summary::kMaxFrontMatter));
  const NameParts names = names_of(repository, card, parameters.total());
  keys.text("general.name", names.name.value_or(""));
  keys.text("general.author", text_of(card, {"author", "model_author", "model_creator"}).value_or(""));
  keys.text("general.version", names.version.value_or(""));
  keys.text("general.organization", names.organization.value_or(""));
  keys.text("general.finetune", names.finetune.value_or(""));
  keys.text("general.basename", names.basename.value_or(""));
  keys.text("general.description", text_of(card, {"description", "model_description"}).value_or(""));
  keys.text("general.quantized_by", text_of(card, {"quantized_by"}).value_or(""));
  keys.text("general.size_label", names.size_label.value_or(parameters.label()));
  add_license(card, keys);
  if (const Texts* const models = texts_of(card, {"base_model", "base_models", "base_model_sources"}))
    add_origins("base_model", *models, parameters.total(), keys);
  if (const Texts* const sets = texts_of(card, {"datasets", "dataset", "dataset_sources"}))
    add_origins("dataset", *sets, parameters.total(), keys);
  keys.texts("general.tags", joined_lists(card, {"tags", "pipeline_tag"}));
  keys.texts("general.languages", joined_lists(card, {"languages", "language"}));
}

}  // namespace weightfs::mapping
