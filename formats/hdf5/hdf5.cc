// HDF5: the datasets of all groups as tensors, the attributes as metadata.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/code/keras.h"
#include "formats/common/flat.h"
#include "formats/common/lenient_json.h"
#include "formats/common/limits.h"
#include "formats/common/strided.h"
#include "formats/common/warnings.h"
#include "formats/format.h"
#include "formats/hdf5/attributes.h"
#include "formats/hdf5/contents.h"
#include "formats/hdf5/filters.h"
#include "formats/string_pool.h"

namespace weightfs::hdf5 {
namespace {

// The maximum number of nested groups.
constexpr size_t kMaxGroups = 1000;

// A longer text of an attribute becomes a document.
constexpr size_t kMaxInlineText = 1024;

// The time of entering a group, besides its links.
constexpr uint64_t kGroupSteps = 10;

// The memory of what a chunked dataset keeps until it is read.
constexpr uint64_t kKeptDataset = 1024;

// A document for the attribute of an object: one with a long text.
std::string document_path(std::string_view object, std::string_view attribute, std::string_view suffix) {
  std::string path = "metadata/";
  while (!object.empty()) {
    const size_t slash = std::min(object.find('/'), object.size());
    path += percent_escaped(object.substr(0, slash)) + "/";
    object.remove_prefix(std::min(slash + 1, object.size()));
  }
  return fmt::format("{}{}{}", path, percent_escaped(attribute), suffix);
}

// Reads the objects of a file into a Model.
class ModelReader {
 public:
  ModelReader(const Container& container, std::shared_ptr<const File> file)
      : container_(container),
        origin_{std::move(file), container.blobs, container.depth + 1, container.budget},
        metadata_(*origin_.file, container.budget.get()),
        heap_(metadata_) {}

  Result<Model> read() {
    TRY_VOID(check_extension());
    const Object root = TRY(read_object(metadata_, origin_.file->root));
    TRY_VOID(enter(origin_.file->root, root));
    while (!groups_.empty()) TRY_VOID(step());
    TRY_VOID(add_soft_links());
    finish();
    return std::move(model_);
  }

 private:
  // A group that is being read, and where its path ends in path_.
  struct Group {
    uint64_t address;
    std::vector<Link> links;
    size_t next = 0;
    size_t parent_path;
    Charges charges;
  };

  // With an image of the cache of metadata, their latest bytes are there and not at their addresses.
  Result<void> check_extension() {
    if (origin_.file->extension == kUndefined) return {};
    const auto extension = read_object(metadata_, origin_.file->extension);
    if (!extension && !is_about_the_bytes(extension.error())) return tl::unexpected(extension.error());
    if (!extension || extension->find(MessageType::cache_image) == nullptr) return {};
    return failure(Code::unsupported, "an image of the metadata cache, which is not read; open and close it with HDF5");
  }

  // Reads the next link of the innermost group.
  Result<void> step() {
    Group& group = groups_.back();
    if (group.next == group.links.size()) {
      path_.resize(group.parent_path);
      on_path_.erase(group.address);
      groups_.pop_back();
      return {};
    }
    const Link& link = group.links[group.next++];
    const size_t parent = path_.size();
    if (parent + link.name.size() >= kMaxNameLength) {
      warnings_.miss_tensors(1, Code::unsupported, "a link in {}: a path of more than {} bytes", quoted("/" + path_),
                             kMaxNameLength);
      return {};
    }
    path_ += (parent == 0 ? "" : "/") + link.name;
    const size_t depth = groups_.size();
    TRY_VOID(follow(link));
    if (groups_.size() == depth)
      path_.resize(parent);
    else
      groups_.back().parent_path = parent;
    return {};
  }

  Result<void> follow(const Link& link) {
    switch (link.kind) {
      case LinkKind::hard:
        return object(link.address);
      case LinkKind::soft:
        TRY_VOID(metadata_.charge(Cost::member));
        TRY_VOID(metadata_.charge(Cost::kept, path_.size() + link.target.size()));
        soft_links_.emplace_back(path_, link.target);
        return {};
      case LinkKind::external:
        warnings_.miss_file(Code::unsupported, "{}: an external link to {}, which is not followed", quoted(path_),
                            quoted(link.target));
        return {};
      case LinkKind::other:
        warnings_.miss_tensors(1, Code::unsupported, "{}: a link of a kind that is not supported", quoted(path_));
        return {};
    }
    return {};
  }

  Result<void> object(uint64_t address) {
    if (on_path_.contains(address)) {
      warnings_.add("{}: a hard link to a group around it, which is not followed", quoted(path_));
      return {};
    }
    const Object object = TRY(read_object(metadata_, address));
    if (is_group(object)) return enter(address, object);
    if (object.find(MessageType::layout) != nullptr) return dataset(object);
    return {};
  }

  Result<void> enter(uint64_t address, const Object& object) {
    if (groups_.size() == kMaxGroups)
      return failure(Code::unsupported, fmt::format("more than {} nested groups", kMaxGroups));
    ++group_count_;
    TRY_VOID(metadata_.charge(Cost::step, kGroupSteps));
    add_attributes(TRY(read_attributes(metadata_, object, path_, warnings_)));
    Charges charges(*container_.budget);
    auto links = TRY(read_links(metadata_, object, charges).map_error([&](const Error& error) {
      return Error{error.code, fmt::format("group {}: {}", quoted("/" + path_), error.message)};
    }));
    on_path_.insert(address);
    groups_.push_back({address, std::move(links), 0, 0, std::move(charges)});
    return {};
  }

  Result<void> dataset(const Object& object) {
    TRY_VOID(metadata_.charge(Cost::tensor));
    const auto attributes = TRY(read_attributes(metadata_, object, path_, warnings_));
    Tensor tensor{.name = path_, .dtype = &kUnknownDType, .stored_dtype = {}, .scope = {}, .shape = {}, .source = {}};
    auto dataset = read_dataset(metadata_, object);
    if (!dataset && !is_about_the_bytes(dataset.error())) return tl::unexpected(dataset.error());
    if (dataset) {
      dataset->type.dtype = dtype_of(dataset->type, attributes);
      TRY_VOID(describe(tensor, *dataset));
    }
    const bool has_addresses =
        dataset && dataset->type.points_elsewhere && !dataset->type.is_text && !dataset->space.is_null;
    if (has_addresses) {
      warnings_.pass_over_tensor("tensor {}: elements of type {} are not read", quoted(path_), dataset->type.name);
      model_.tensors.push_back(tensor);
      add_attributes(attributes);
      return {};
    }
    auto contents = dataset ? contents_of_tensor(tensor, *dataset) : tl::unexpected(dataset.error());
    if (contents && dataset->type.is_text && !dataset->space.is_null) TRY_VOID(add_texts(*dataset, *contents));
    if (contents)
      tensor.source = *std::move(contents);
    else
      warnings_.refuse(contents.error().code, "tensor {}: {}", quoted(path_), contents.error().message);
    if (contents && dataset->layout.storage == Storage::chunked && have_checksums(dataset->filters))
      checked_.tensors.push_back(model_.tensors.size());
    model_.tensors.push_back(tensor);
    add_attributes(attributes);
    return {};
  }

  // The texts of a dataset of strings, read when its .npy file is.
  Result<void> add_texts(const Dataset& dataset, const Slice& contents) {
    TRY_VOID(metadata_.charge(Cost::kept, kKeptDataset));
    const auto read = [file = origin_.file, budget = container_.budget, type = dataset.type,
                       contents]() -> Result<std::shared_ptr<const std::vector<std::string>>> {
      Metadata metadata(*file, budget.get());
      GlobalHeap heap(metadata);
      return std::make_shared<const std::vector<std::string>>(TRY(texts_of(heap, type, contents)));
    };
    model_.per_tensor.edit().strings.emplace(model_.tensors.size(),
                                             Later<std::shared_ptr<const std::vector<std::string>>>(read));
    return {};
  }

  const DType* dtype_of(const Type& type, const std::vector<Attribute>& attributes) {
    const auto named = std::ranges::find(attributes, "dtype", &Attribute::name);
    if (type.is_text) return dtype_named("string");
    if (type.type_class != TypeClass::opaque || named == attributes.end()) return type.dtype;
    const auto text = text_of(heap_, *named);
    const DType* const dtype = text && *text ? opaque_dtype(type, (*text)->bytes) : nullptr;
    return dtype == nullptr ? type.dtype : dtype;
  }

  Result<void> describe(Tensor& tensor, const Dataset& dataset) {
    tensor.dtype = dataset.type.dtype;
    tensor.stored_dtype = spellings_.add(dataset.type.name);
    tensor.shape = dataset.space.is_null ? Shape{0} : dataset.space.dimensions;
    tensor.shape.insert(tensor.shape.end(), dataset.type.dimensions.begin(), dataset.type.dimensions.end());
    const bool is_chunked = dataset.layout.storage == Storage::chunked;
    return metadata_.charge(Cost::kept, path_.size() + 8 * tensor.shape.size() + (is_chunked ? kKeptDataset : 0));
  }

  Result<Slice> contents_of_tensor(const Tensor& tensor, const Dataset& dataset) {
    if (dataset.space.is_null) return slice(container_.bytes, 0, 0);
    const auto all = elements_of(dataset.space.dimensions, dataset.type.size);
    if (!all) return failure(Code::corrupt, "more than 2^64 bytes");
    const uint64_t size = *all;
    if (tensor.dtype->block_bytes > 0 && size_in_bytes(*tensor.dtype, tensor.shape) != size)
      return failure(Code::corrupt, fmt::format("{} bytes do not fit its type and shape", size));
    if (dataset.layout.storage == Storage::chunked && dataset.layout.address != kUndefined &&
        indexes_.emplace(dataset.layout.address, dataset.address).first->second != dataset.address)
      return failure(Code::corrupt, "its chunks are those of another dataset");
    const Slice stored = TRY(contents_of(origin_, dataset, size));
    if (dataset.layout.storage == Storage::chunked || dataset.layout.address == kUndefined) {
      TRY_VOID(check_expansion(*origin_.file, made_ + size));
      made_ += size;
    }
    if (tensor.dtype->block_bytes == 0 || dataset.type.swap == 0) return stored;
    return strided(stored, 0, *tensor.dtype, tensor.shape, c_strides(tensor.shape), {.swap = dataset.type.swap});
  }

  // Attributes of the root group are the metadata of the model, those of other objects are listed by path.
  void add_attributes(const std::vector<Attribute>& attributes) {
    Map values;
    for (const Attribute& attribute : attributes) {
      auto value = shown(attribute);
      if (value)
        values.append(attribute.name, std::move(*value));
      else
        warnings_.add("attribute {} of {}: {}", quoted(attribute.name), quoted("/" + path_), value.error().message);
    }
    values.keep_last_of_each_key();
    if (groups_.empty())
      model_.metadata = std::move(values);
    else if (!values.empty())
      attributes_.append(path_, std::move(values));
  }

  Result<Value> shown(const Attribute& attribute) {
    TRY_VOID(metadata_.charge(Cost::value, 2));
    TRY_VOID(metadata_.charge(Cost::kept, attribute.name.size() + path_.size()));
    auto text = TRY(text_of(heap_, attribute));
    bool is_json = false;
    if (text && trimmed(text->bytes).starts_with('{')) is_json = TRY(read_config(attribute.name, text->bytes));
    if (!text || text->bytes.size() <= kMaxInlineText) return value_of(heap_, attribute);
    return set_apart(attribute.name, is_json ? ".json" : ".txt", std::move(*text));
  }

  // Whether a text is JSON. The configuration of a Keras model may have Lambda layers.
  Result<bool> read_config(const std::string& attribute, const std::string& text) {
    auto json = parse_json(*in_memory(text), 0, text.size(), *container_.budget);
    if (!json && json.error().code == Code::corrupt) {
      json = parse_small_json(*in_memory(text), *container_.budget);
      if (!json && is_about_the_bytes(json.error())) return false;
    }
    const Value value = TRY(std::move(json));
    release(footprint(value), *container_.budget);
    if (attribute == "training_config") code::add_keras(value, "", code_);
    if (attribute != "model_config") return true;
    code::add_keras(value, "", code_);
    for (const std::string& layer : code::lambda_layers(value)) {
      warnings_.add("{}: Lambda layer {} has Python code, which is not run", attribute, quoted(layer));
      lambda_layers_.push_back(layer);
    }
    return true;
  }

  // A long text becomes a document: a range of the file, if it is one.
  Result<Value> set_apart(const std::string& name, std::string_view suffix, Text text) {
    Map note;
    note.append("nbytes", text.bytes.size());
    note.append("path", document_path(path_, name, suffix));
    TRY_VOID(metadata_.charge(Cost::member));
    const uint64_t size = text.bytes.size();
    const bool is_range = text.address != 0 && is_utf8(text.bytes);
    if (!is_range) TRY_VOID(metadata_.charge(Cost::kept, 3 * size));
    SourcePtr source =
        !is_range ? in_memory(to_utf8(text.bytes))
                  : std::make_shared<Slice>(TRY(slice(container_.bytes, origin_.file->base + text.address, size)));
    model_.documents.push_back({std::get<std::string>(*note.find("path")), Later<SourcePtr>::of(std::move(source))});
    return note;
  }

  // A soft link to a dataset is another name of it.
  Result<void> add_soft_links() {
    if (soft_links_.empty()) return {};
    SoftLinks targets;
    for (const auto& [path, target] : soft_links_) targets.emplace(path, target);
    const size_t count = model_.tensors.size();
    std::map<std::string_view, size_t> by_name;
    for (size_t i = 0; i < count; ++i) by_name.emplace(model_.tensors[i].name, i);
    Map links;
    for (const auto& [path, target] : soft_links_) {
      links.append(path, target);
      const auto whole = TRY(follow_soft_link(metadata_, targets, path));
      const auto found = whole ? by_name.find(*whole) : by_name.end();
      if (found == by_name.end()) continue;
      TRY_VOID(metadata_.charge(Cost::tensor));
      TensorView tensor = model_.tensors[found->second];
      tensor.name = path;
      if (const auto texts = model_.per_tensor->strings.find(found->second); texts != model_.per_tensor->strings.end())
        model_.per_tensor.edit().strings.emplace(model_.tensors.size(), texts->second);
      model_.tensors.push_back(tensor);
    }
    links_ = std::move(links);
    return {};
  }

  void finish() {
    const File& file = *origin_.file;
    std::move(code_).move_to(model_.common);
    Map facts;
    facts.append("superblock_version", file.version);
    if (file.base > 0) facts.append("user_block", file.base);
    facts.append("groups", group_count_);
    facts.append("datasets", model_.tensors.size());
    if (!lambda_layers_.empty()) facts.append("lambda_layers", std::move(lambda_layers_));
    if (!links_.empty()) facts.append("soft_links", std::move(links_));
    attributes_.keep_last_of_each_key();
    if (!attributes_.empty()) facts.append("attributes", std::move(attributes_));
    flat::add_facts(model_.metadata, "hdf5", std::move(facts));
    model_.format = "hdf5";
    model_.version = std::to_string(file.version);
    std::move(warnings_).move_to(model_);
    const auto bytes = Later<SourcePtr>::of(container_.bytes);
    model_.parts.push_back({container_.name, bytes});
    if (!checked_.tensors.empty()) model_.checks.edit().push_back({container_.name, bytes, std::move(checked_)});
  }

  const Container& container_;
  Origin origin_;
  Metadata metadata_;
  GlobalHeap heap_;
  Model model_;
  Warnings warnings_;
  std::vector<Group> groups_;  // from the root to the innermost
  std::string path_;           // of the object that is being read
  std::set<uint64_t> on_path_;
  uint64_t made_ = 0;                     // bytes of datasets that are decoded or filled
  std::map<uint64_t, uint64_t> indexes_;  // of chunks: the dataset of each address
  uint64_t group_count_ = 0;
  CheckedTensors checked_;
  Map attributes_, links_;
  List lambda_layers_;
  CodeList code_;
  std::vector<std::pair<std::string, std::string>> soft_links_;
  StringPool spellings_{model_.string_pool};
};

Result<Model> read(const Container& container) {
  const auto file = std::make_shared<const File>(TRY(open(container.bytes)));
  return ModelReader(container, file).read();
}

// The offsets of a signature that a probe can see.
constexpr std::array<size_t, 4> kOffsets = {0, 512, 1024, 2048};

}  // namespace
}  // namespace weightfs::hdf5

namespace weightfs {

Match matches_hdf5(const Probe& probe) {
  for (const size_t offset : hdf5::kOffsets)
    if (probe.head.size() > offset && probe.head.substr(offset).starts_with(hdf5::kSignature)) return Match::yes;
  return Match::no;
}

Result<Model> read_hdf5(const Container& container) { return hdf5::read(container); }

}  // namespace weightfs
