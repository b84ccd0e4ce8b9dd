#include "formats/archive/nested.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/text.h"
#include "formats/archive/symlink.h"
#include "formats/archive/zip.h"

namespace weightfs::archive {
namespace {

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The files of a model, sorted by path. Nested models share it as the index of the files next to them.
struct FilesByPath {
  explicit FilesByPath(ModelPtr of) : model(std::move(of)) {
    for (size_t i = 0; i < model->parts.size(); ++i)
      if (model->parts[i].link_target.empty()) places.push_back(static_cast<uint32_t>(i));
    std::sort(places.begin(), places.end(), [&](uint32_t a, uint32_t b) { return path(a) < path(b); });
  }

  std::string_view path(uint32_t place) const { return model->parts[place].path; }
  auto from(std::string_view path_begin) const {
    return std::lower_bound(places.begin(), places.end(), path_begin,
                            [&](uint32_t place, std::string_view wanted) { return path(place) < wanted; });
  }

  ModelPtr model;
  std::vector<uint32_t> places;
};

// The files in one directory of a model.
class PartsFolder final : public Folder {
 public:
  /// `charge` is charged for decoding them.
  PartsFolder(std::shared_ptr<const FilesByPath> files, std::string_view directory, codec::DecodeChargePtr charge)
      : files_(std::move(files)),
        prefix_(directory.empty() ? "" : fmt::format("{}/", directory)),
        charge_(std::move(charge)) {}

  Result<std::vector<std::string>> names() const override {
    std::vector<std::string> names;
    for (auto at = files_->from(prefix_); is_below(at); ++at) {
      const std::string_view name = files_->path(*at).substr(prefix_.size());
      if (name.find('/') == name.npos) names.emplace_back(name);
    }
    return names;
  }

  Result<SourcePtr> open(std::string_view name) const override {
    if (name.find('/') != name.npos) return tl::unexpected(not_found(name));
    return open_below(name, {});
  }

  Result<SourcePtr> open_below(std::string_view below, std::string_view /*referrer*/) const override {
    const std::string path = fmt::format("{}{}", prefix_, below);
    const auto at = files_->from(path);
    if (at == files_->places.end() || files_->path(*at) != path) return tl::unexpected(not_found(below));
    return bytes_to_parse(TRY(files_->model->parts[*at].source.get()), charge_);
  }

  Result<std::vector<Part>> parts() const override {
    std::vector<Part> parts;
    for (auto at = files_->from(prefix_); is_below(at); ++at) {
      parts.push_back(files_->model->parts[*at]);
      parts.back().path.erase(0, prefix_.size());
    }
    return parts;
  }

 private:
  static Error not_found(std::string_view name) {
    return {Code::not_found, fmt::format("{} is not in the container's directory", quoted(name))};
  }

  bool is_below(std::vector<uint32_t>::const_iterator at) const {
    return at != files_->places.end() && files_->path(*at).starts_with(prefix_);
  }

  std::shared_ptr<const FilesByPath> files_;
  std::string prefix_;
  codec::DecodeChargePtr charge_;
};

// A member that may be a container, and its stored range.
struct Candidate {
  size_t part;
  SourcePtr bytes;
  std::optional<StoredRange> range = {};  // of a member of a zip
  std::optional<Error> problem = {};      // a temporary error of reading the range

  // Equal for members with the same first bytes.
  auto key() const {
    const Slice* const slice = range ? &range->bytes : dynamic_cast<const Slice*>(bytes.get());
    const Source* const whole = slice == nullptr || slice->refused() ? bytes.get() : slice->whole().get();
    return std::tuple(whole, slice == nullptr ? 0 : slice->offset(), slice == nullptr ? 0 : slice->size(),
                      range ? range->method : uint16_t{0});
  }
};

// The first bytes of a longer member.
class HeadSource final : public Source {
 public:
  HeadSource(Result<std::string> bytes, uint64_t size) : bytes_(std::move(bytes)), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) const override {
    const std::string& bytes = TRY(bytes_);
    const size_t begin = static_cast<size_t>(std::min<uint64_t>(offset, bytes.size()));
    const size_t count = std::min(out.size(), bytes.size() - begin);
    std::copy_n(std::as_bytes(std::span(bytes)).begin() + static_cast<std::ptrdiff_t>(begin), count, out.begin());
    return count;
  }

 private:
  Result<std::string> bytes_;
  uint64_t size_;
};

// The context of the containers that are nested in another one.
struct NestingContext {
  BlobsPtr blobs;
  BudgetPtr budget;
  codec::DecodeChargePtr charge;   // of the outer container if it is compressed as a whole; or null
  int depth;                       // of the nested containers
  std::vector<bool> is_read = {};  // by part; such a part is no candidate
};

class NestedFinder {
 public:
  NestedFinder(ModelPtr model, NestingContext context)
      : model_(std::move(model)), context_(std::move(context)), files_(std::make_shared<const FilesByPath>(model_)) {}

  Result<std::vector<Nested>> find() && {
    const codec::DecodeCharge::Active active(context_.charge);
    for (size_t i = 0; i < model_->parts.size(); ++i)
      if (!is_read(i)) TRY_VOID(add_candidate(i));
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      const auto of_a = a.key(), of_b = b.key();
      return of_a != of_b ? of_a < of_b : a.part < b.part;
    });
    auto at = candidates_.cbegin();
    while (at != candidates_.cend() && !exhausted_) at = TRY(check_range(at));
    candidates_.clear();
    std::sort(found_.begin(), found_.end());
    std::vector<Nested> nested;
    for (const auto& [part, range] : found_) add_nested(nested, part, range);
    if (exhausted_)
      nested.push_back({first_unchecked_,
                        Later<ModelPtr>([why = *exhausted_]() -> Result<ModelPtr> { return tl::unexpected(why); })});
    return nested;
  }

 private:
  bool is_read(size_t part) const { return part < context_.is_read.size() && context_.is_read[part]; }

  // A part whose bytes are not available without decoding is not a candidate.
  Result<void> add_candidate(size_t i) {
    const Part& part = model_->parts[i];
    const auto bytes = part.source.peek();
    if (!part.link_target.empty() || !bytes || (*bytes)->size() == 0) return {};
    Candidate candidate{i, *bytes};
    if (auto range = stored_range_of(**bytes))
      candidate.range = std::move(*range);
    else if (range.error().code == Code::io)
      return tl::unexpected(range.error());
    else if (is_about_the_bytes(range.error()))
      return {};
    else
      candidate.problem = range.error();
    candidates_.push_back(std::move(candidate));
    return {};
  }

  // Checks all members that share a range; returns the first of the next range.
  using CandidateIterator = std::vector<Candidate>::const_iterator;
  Result<CandidateIterator> check_range(CandidateIterator first) {
    HeadCost cost;
    const auto head = head_of(*first, cost);
    if (const auto paid = charge_head(*context_.budget, cost); !paid) {
      exhausted_ = paid.error();
      first_unchecked_ = first->part;
      return first;
    }
    CandidateIterator at = first;
    for (; at != candidates_.cend() && at->key() == first->key(); ++at) {
      const Container shown{.name = std::string(name_of(model_->parts[at->part].path)),
                            .bytes = std::make_shared<const HeadSource>(head, at->bytes->size()),
                            .blobs = nullptr,
                            .budget = context_.budget};
      if (TRY(could_be_model(shown))) found_.emplace_back(at->part, first->part);
    }
    return at;
  }

  static Result<std::string> head_of(const Candidate& candidate, HeadCost& cost) {
    if (candidate.problem) return tl::unexpected(*candidate.problem);
    if (candidate.range) return read_head(*candidate.range, kHeadSize, cost);
    cost.input = std::min<uint64_t>(candidate.bytes->size(), kHeadSize);
    return read_text(*candidate.bytes, 0, cost.input);
  }

  void add_nested(std::vector<Nested>& nested, size_t place, size_t range) {
    const Part& part = model_->parts[place];
    const std::string name(name_of(part.path));
    // The first file represents a split model. Its name is enough: reading it might decode the whole archive.
    if (const auto split = split_model_named(name)) {
      if (!split_models_.insert(fmt::format("{}/{}", directory_of(part.path), *split)).second) return;
    }
    // The Nested, and reading it.
    if (const auto paid = context_.budget->charge(Cost::member, 2); !paid) {
      if (!exhausted_) first_unchecked_ = place;
      exhausted_ = exhausted_.value_or(paid.error());
      return;
    }
    const Container container{.name = name,
                              .bytes = *part.source.peek(),
                              .blobs = context_.blobs,
                              .depth = context_.depth,
                              .budget = context_.budget};
    const std::string directory(directory_of(part.path));
    const Later<ModelPtr> model([container, files = files_, directory, whole = context_.charge] {
      const codec::DecodeCharge::Active active(whole);
      return read(container, files, directory);
    });
    if (is_self_contained(name))
      nested.push_back({place, shared_.try_emplace({range, directory, extension_of(name)}, model).first->second});
    else
      nested.push_back({place, model});
  }

  static std::string extension_of(const std::string& name) {
    return name.substr(std::min(name.rfind('.'), name.size()));
  }

  // Such a container is read once for all its names. An index, or a file of a split model, depends on its name.
  static bool is_self_contained(const std::string& name) {
    const std::string extension = extension_of(name);
    return extension != ".json" && extension != ".toml" && !split_model_named(name);
  }

  // Decoding is charged while the container is parsed, but not when a user reads from it later.
  static Result<ModelPtr> read(Container container, const std::shared_ptr<const FilesByPath>& files,
                               const std::string& directory) {
    const auto charge = std::make_shared<codec::DecodeCharge>(container.budget);
    container.bytes = TRY(bytes_to_parse(container.bytes, charge));
    container.folder = std::make_shared<PartsFolder>(files, directory, charge);
    const codec::DecodeCharge::Active active(charge);
    return std::make_shared<const Model>(TRY(read_model(container)));
  }

  ModelPtr model_;
  NestingContext context_;
  std::shared_ptr<const FilesByPath> files_;
  std::vector<Candidate> candidates_;
  std::vector<std::pair<size_t, size_t>> found_;  // indices of parts, and of the first part that shares the range
  std::set<std::string> split_models_;
  std::map<std::tuple<size_t, std::string, std::string>, Later<ModelPtr>> shared_;  // by range, directory and extension
  std::optional<Error> exhausted_;                                                  // the budget
  size_t first_unchecked_ = 0;                                                      // the part that was next then
};

// Finds the parts of `model` that are containers, by their first bytes. These are read once for each stored range,
// however many members share it, and charged to the budget. When the budget is exhausted, the remaining members are
// not checked; the first of them is in the result, and entering it fails with the name of the limit. Fails with io.
Result<std::vector<Nested>> find_nested(const ModelPtr& model, const NestingContext& context) {
  return NestedFinder(model, context).find();
}

}  // namespace

namespace {

// Whether a member that the model has is one of names, types and shapes, and not of numbers.
bool is_document(std::string_view path) {
  constexpr std::array<std::string_view, 5> kSuffixes = {".json", ".pkl", ".nnef", ".toml", ".yaml"};
  const std::string_view name = name_of(path);
  return name == "byteorder" ||
         std::ranges::any_of(kSuffixes, [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

void add_members(Model& model, Archive archive, const Container& container, std::vector<bool> is_read) {
  is_read.resize(std::max(is_read.size(), archive.parts.size()));
  const auto end_of_members = is_read.begin() + static_cast<std::ptrdiff_t>(archive.parts.size());
  const bool has_candidates = std::find(is_read.begin(), end_of_members, false) != end_of_members;
  model.parts = std::move(archive.parts);
  model.has_members = true;
  for (size_t i = 0; i < model.parts.size(); ++i)
    if (is_read[i] && is_document(model.parts[i].path)) model.parts[i].is_structure = true;
  model.directories.edit() = std::move(archive.directories);
  std::move(archive.warnings).move_to(model);
  if (has_candidates && container.depth < kMaxNestingDepth)
    model.nested = [context = NestingContext{container.blobs, container.budget, archive.charge, container.depth + 1,
                                             std::move(is_read)}](const ModelPtr& itself) {
      return find_nested(itself, context);
    };
}

Model model_of(Archive archive, const Container& container, std::string format) {
  Model model;
  model.format = std::move(format);
  add_members(model, std::move(archive), container);
  return model;
}

FoldersOf folders_of(const ModelPtr& model, const codec::DecodeChargePtr& charge) {
  return [files = std::make_shared<const FilesByPath>(model), charge](std::string_view directory) {
    return std::make_shared<PartsFolder>(files, directory, charge);
  };
}

}  // namespace weightfs::archive

namespace weightfs {

Result<ModelPtr> model_of_part(const Model& model, const Part& part, Only only) {
  const SourcePtr stored = TRY(part.source.get());
  Container file{.name = std::string(archive::name_of(part.path)), .bytes = stored, .depth = 1};
  const bool is_member = TRY(archive::stored_range_of(*file.bytes)).has_value();
  if (model.budget != nullptr) file.budget = model.budget;
  if (!is_member) file.budget->add_file(*file.bytes);
  const auto charge = std::make_shared<codec::DecodeCharge>(file.budget);
  const codec::DecodeCharge::Active active(charge);
  file.bytes = TRY(archive::bytes_to_parse(file.bytes, charge));
  if (file.bytes->size() == 0 || !TRY(could_be_model(file, only))) return nullptr;
  return std::make_shared<const Model>(TRY(read_model(file)));
}

}  // namespace weightfs
