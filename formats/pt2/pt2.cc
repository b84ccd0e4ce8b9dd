// Archives of torch.export (.pt2): a zip with the program as JSON and its weights. Since torch 2.8 the weights are
// members of the archive, as torch/export/pt2_archive/_package.py writes them; before that files of torch.save in it
// (torch/export/__init__.py). Native code of AOTInductor is a file like others: nothing is loaded.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"
#include "formats/archive/archive_formats.h"
#include "formats/archive/zip.h"
#include "formats/code/operators.h"
#include "formats/common/flat.h"
#include "formats/pt2/payloads.h"
#include "formats/pt2/program.h"
#include "formats/pytorch/saved.h"

namespace weightfs::pt2 {
namespace {

constexpr std::string_view kFormatFile = "archive_format";
constexpr std::string_view kOldProgram = "serialized_exported_program.json";
constexpr std::array<std::string_view, 2> kOldTensors = {"serialized_state_dict.pt", "serialized_constants.pt"};
constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";

// The weights and the constants: a directory, and how the names of their JSON files end.
struct Payload {
  std::string_view directory, suffix;
};
constexpr std::array kPayloads = {Payload{"data/weights/", "_weights_config.json"},
                                  Payload{"data/constants/", "_constants_config.json"}};

// How the names of the files in it begin that are weights.
constexpr std::string_view kWeight = "weight_";

// The maximum size of a member with a number or a word.
constexpr uint64_t kMaxRecord = 256;

// The directory, with `/` or empty, in which the archive has this file: the top, or a directory in it.
std::optional<std::string> directory_with(const archive::Archive& archive, std::string_view file) {
  for (const Part& part : archive.parts) {
    const size_t slash = part.path.find('/');
    const size_t begin = slash == part.path.npos ? 0 : slash + 1;
    if (std::string_view(part.path).substr(begin) == file) return part.path.substr(0, begin);
  }
  return std::nullopt;
}

// The content of a short member, without white space at its end; empty if there is none.
Result<std::string> record(const archive::Archive& archive, const std::string& path) {
  if (archive.resolve(path) == nullptr) return "";
  auto text = archive.text(path, kMaxRecord);
  if (!text && !is_about_the_bytes(text.error())) return text;
  std::string word = text.value_or("");
  word.resize(word.find_last_not_of(" \r\n") + 1);
  return word;
}

// Where an archive has its files, and in which form.
struct Form {
  std::string root;  // with `/`
  bool is_old = false;
};

Result<std::optional<Form>> form_of(const archive::Archive& archive) {
  if (const auto root = directory_with(archive, kFormatFile)) {
    const std::string format = TRY(record(archive, fmt::format("{}{}", *root, kFormatFile)));
    if (format == "pt2") return Form{*root, false};
  }
  const auto root = directory_with(archive, kOldProgram);
  return root ? std::optional(Form{*root, true}) : std::nullopt;
}

class Pt2Reader {
 public:
  Pt2Reader(archive::Archive archive, const Container& container, Form form)
      : archive_(std::move(archive)), container_(container), form_(std::move(form)), contents_(*container.budget) {}

  Result<Model> read() && {
    model_.format = "pt2";
    if (!form_.root.empty()) facts_.append("root", form_.root.substr(0, form_.root.size() - 1));
    const codec::DecodeCharge::Active active(charge_);
    TRY_VOID(form_.is_old ? read_old() : read_new());
    for (auto& [key, value] : program_) contents_.metadata.append(key, value);
    TRY_VOID(pytorch::add_contents(model_, std::move(contents_), std::move(facts_)));
    std::vector<bool> is_read;
    for (const Part& part : archive_.parts) is_read.push_back(is_own(part.path));
    archive::add_members(model_, std::move(archive_), container_, std::move(is_read));
    return std::move(model_);
  }

 private:
  // A member, whose decoding is charged while it is parsed.
  Result<SourcePtr> member(const std::string& path) const {
    const Part* const part = archive_.resolve(path);
    if (part == nullptr) return failure(Code::corrupt, "not in the archive");
    const SourcePtr source = TRY(part->source.get());
    return archive::bytes_to_parse(source, charge_);
  }

  // The names of the files in a directory of the archive that end so, without that.
  std::vector<std::string> names_in(std::string_view directory, std::string_view suffix) const {
    std::vector<std::string> names;
    const std::string begin = form_.root + std::string(directory);
    for (const Part& part : archive_.parts) {
      const std::string_view path = part.path;
      if (path.size() <= begin.size() + suffix.size() || !path.starts_with(begin) || !path.ends_with(suffix)) continue;
      const std::string_view name = path.substr(begin.size(), path.size() - begin.size() - suffix.size());
      if (name.find('/') == name.npos) names.emplace_back(name);
    }
    return names;
  }

  Result<void> read_new() {
    model_.version = TRY(record(archive_, form_.root + "archive_version"));
    const std::string order = TRY(record(archive_, form_.root + "byteorder"));
    if (!order.empty() && order != "little" && order != "big")
      contents_.warnings.add("byteorder {} is unknown; little-endian is assumed", quoted(order));
    if (!order.empty()) facts_.append("byte_order", order);
    const std::vector<std::string> programs = names_in(kModels, kJson);
    for (const std::string& name : programs)
      TRY_VOID(describe(fmt::format("{}{}{}{}", form_.root, kModels, name, kJson)));
    if (programs.size() > 1) facts_.append("models", List(programs.begin(), programs.end()));
    Payloads payloads(archive_, container_, order == "big", contents_);
    for (const Payload& payload : kPayloads)
      for (const std::string& name : names_in(payload.directory, payload.suffix))
        TRY_VOID(add_payload(payloads, payload, name, programs.size() > 1 ? name : ""));
    report_weights_without_config();
    return {};
  }

  // The names of the weights, and their shapes, are in a file beside them.
  void report_weights_without_config() {
    const auto& [directory, suffix] = kPayloads.front();
    if (!names_in(directory, suffix).empty()) return;
    const std::string begin = fmt::format("{}{}{}", form_.root, directory, kWeight);
    const auto files = std::ranges::count_if(archive_.parts, [&](const Part& part) {
      return part.path.starts_with(begin) && part.path.find('/', begin.size()) == std::string::npos;
    });
    if (files > 0)
      contents_.warnings.miss_file(Code::corrupt, "{}{}NAME{}: missing, and with it the names of {} files of weights",
                                   form_.root, directory, suffix, files);
  }

  Result<void> add_payload(Payloads& payloads, const Payload& payload, const std::string& name,
                           const std::string& scope) {
    const std::string path = fmt::format("{}{}{}{}", form_.root, payload.directory, name, payload.suffix);
    const auto add = [&]() -> Result<void> {
      const SourcePtr config = TRY(member(path));
      return payloads.add(*config, fmt::format("{}{}", form_.root, payload.directory), scope);
    };
    const auto added = add();
    if (!added && !is_about_the_bytes(added.error())) return added;
    if (!added) contents_.warnings.miss_file(added.error().code, "{}: {}", quoted(path), added.error().message);
    return {};
  }

  // Two files of torch.save: dicts of tensors by their names.
  Result<void> read_old() {
    model_.version = TRY(record(archive_, form_.root + "version"));
    TRY_VOID(describe(fmt::format("{}{}", form_.root, kOldProgram)));
    for (const std::string_view name : kOldTensors) {
      const std::string path = fmt::format("{}{}", form_.root, name);
      const auto add = [&]() -> Result<void> {
        const SourcePtr bytes = TRY(member(path));
        const Container zip{.name = std::string(name),
                            .bytes = bytes,
                            .blobs = container_.blobs,
                            .depth = container_.depth + 1,
                            .budget = container_.budget};
        return pytorch::add_saved(zip, "", fmt::format("{}: ", name), contents_);
      };
      const auto added = add();
      if (!added && !is_about_the_bytes(added.error())) return added;
      if (!added) contents_.warnings.miss_file(added.error().code, "{}: {}", name, added.error().message);
    }
    return {};
  }

  // A program that cannot be read leaves the tensors as they are. If there are several, the first is described.
  Result<void> describe(const std::string& path) {
    const auto read = [&]() -> Result<Map> {
      const SourcePtr json = TRY(member(path));
      return describe_program(*json, *container_.budget);
    };
    if (!program_.empty()) return {};
    auto program = read();
    if (!program && !is_about_the_bytes(program.error())) return tl::unexpected(program.error());
    if (program)
      use(std::move(*program), path);
    else
      contents_.warnings.add("{}: {}; the program is not described", quoted(path), program.error().message);
    return {};
  }

  // Operators of torch, and of other libraries: "torch.ops.aten.add.Tensor".
  void use(Map program, const std::string& path) {
    constexpr std::string_view kTorch = "torch.";
    CodeList code;
    program_ = std::move(program);
    const Map* const operators = program_.find_as<Map>("operators");
    for (const auto& [name, count] : operators == nullptr ? Map() : *operators)
      if (name.starts_with(kTorch)) code::add_torchscript(name.substr(kTorch.size()), path, code);
    std::move(code).move_to(model_.common);
  }

  // Whether it is a member that was read: it is no container of its own.
  bool is_own(std::string_view path) const {
    constexpr auto kBegins = std::to_array<std::string_view>(
        {"archive_", "byteorder", "version", ".", "models/", "data/weights/", "data/constants/",
         "serialized_state_dict.", "serialized_constants.", "serialized_exported_program.", "data/aotinductor/"});
    if (!path.starts_with(form_.root)) return false;
    path.remove_prefix(form_.root.size());
    return std::ranges::any_of(kBegins, [&](std::string_view begin) { return path.starts_with(begin); });
  }

  archive::Archive archive_;
  const Container& container_;
  Form form_;
  pytorch::Contents contents_;
  codec::DecodeChargePtr charge_ = std::make_shared<codec::DecodeCharge>(container_.budget);
  Model model_;
  Map facts_, program_;
};

}  // namespace
}  // namespace weightfs::pt2

namespace weightfs {

Result<bool> matches_pt2(const archive::Archive& archive) { return TRY(pt2::form_of(archive)).has_value(); }

Result<Model> read_pt2(archive::Archive archive, const Container& container) {
  TRY_VOID(pytorch::check_names(archive));
  auto form = TRY(pt2::form_of(archive));
  if (!form) return failure(Code::unsupported, "no archive_format of torch.export in the archive");
  return pt2::Pt2Reader(std::move(archive), container, std::move(*form)).read();
}

}  // namespace weightfs
