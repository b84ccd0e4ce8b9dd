// tensor_data/: index.toml and its files.
#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/carton/carton.h"
#include "formats/string_pool.h"

namespace weightfs::carton {
namespace {

using Strings = std::shared_ptr<const std::vector<std::string>>;

// One [[tensor]] of index.toml.
struct Entry {
  std::string name;
  std::string dtype;
  std::string file;
  Shape shape;
  std::vector<std::string> inner;
};

Result<Shape> shape_of(const Map& map) {
  const Value* value = map.find("shape");
  const auto* list = value == nullptr ? nullptr : std::get_if<List>(value);
  if (list == nullptr) return failure(Code::corrupt, "no shape");
  if (list->size() > kMaxDimensions)
    return failure(Code::unsupported, fmt::format("{} dimensions, at most {} are read", list->size(), kMaxDimensions));
  Shape shape;
  for (const Value& dimension : *list) {
    const auto* size = std::get_if<int64_t>(&dimension);
    if (size == nullptr || *size < 0)
      return failure(Code::corrupt, fmt::format("dimension {} is not a size", quoted(to_json_line(dimension))));
    shape.push_back(static_cast<uint64_t>(*size));
  }
  return shape;
}

Result<Entry> entry_of(const Value& value) {
  const auto* map = std::get_if<Map>(&value);
  if (map == nullptr) return failure(Code::corrupt, "not a table");
  const std::string* name = map->find_as<std::string>("name");
  const std::string* dtype = map->find_as<std::string>("dtype");
  if (name == nullptr || dtype == nullptr) return failure(Code::corrupt, "no name or no dtype");
  Entry entry{*name, *dtype, {}, {}, {}};
  if (const Value* inner = map->find("inner"); inner != nullptr && std::holds_alternative<List>(*inner))
    for (const Value& one : std::get<List>(*inner))
      if (const auto* text = std::get_if<std::string>(&one)) entry.inner.push_back(*text);
  if (*dtype == "nested") return entry;
  const std::string* file = map->find_as<std::string>("file");
  if (file == nullptr) return failure(Code::corrupt, "no file");
  entry.file = *file;
  auto shape = shape_of(*map);
  if (!shape) return tl::unexpected(shape.error());
  entry.shape = std::move(*shape);
  return entry;
}

// A path in or below the directory of index.toml: `..` and absolute names leave tensor_data.
bool is_inside(std::string_view file) {
  return !file.empty() && !file.starts_with('/') && file.find('\0') == file.npos && normalize(file, Dots::refused);
}

// The texts of a string tensor: data = ["a", "b"].
Result<Strings> read_strings(const SourcePtr& file, Budget& budget) {
  if (file->size() > kMaxTomlSize)
    return failure(Code::unsupported,
                   fmt::format("a string tensor of {} bytes, at most {} are read", file->size(), kMaxTomlSize));
  const std::string text = TRY(read_text(*file, 0, file->size()));
  // The strings take no more than the Map, and stay charged as it is.
  const Map toml = TRY(parse_toml(text, budget));
  const Value* data = toml.find("data");
  if (data == nullptr || !std::holds_alternative<List>(*data)) return failure(Code::corrupt, "no array `data`");
  auto strings = std::make_shared<std::vector<std::string>>();
  for (const Value& one : std::get<List>(*data)) {
    const auto* element = std::get_if<std::string>(&one);
    if (element == nullptr)
      return failure(Code::corrupt, fmt::format("an element that is not a string: {}", quoted(to_json_line(one))));
    strings->push_back(*element);
  }
  return strings;
}

Result<Strings> with_shape(Strings strings, const Shape& shape) {
  const auto elements = elements_of(shape);
  if (!elements) return failure(Code::corrupt, "a shape beyond 64 bits");
  if (strings->size() != *elements)
    return failure(Code::corrupt, fmt::format("{} elements, {} by the shape", strings->size(), *elements));
  return strings;
}

// The memory of a tensor besides its Tensor: its strings, and its entries in the maps of digests and strings.
uint64_t bytes_kept(const Entry& entry) {
  return entry.name.size() + entry.dtype.size() + 8 * entry.shape.size() + 256;
}

// Reads the index and adds its tensors.
class TensorAdder {
 public:
  TensorAdder(Model& model, const archive::Archive& archive, const Manifest& manifest, Warnings& warnings,
              BudgetPtr budget)
      : model_(model), archive_(archive), manifest_(manifest), warnings_(warnings), budget_(std::move(budget)) {}

  void add_all(const List& index) {
    for (size_t i = 0; i < index.size(); ++i) {
      auto entry = entry_of(index[i]);
      if (!entry)
        warnings_.miss_tensors(1, entry.error().code, "tensor_data/index.toml: tensor {}: {}", i,
                               entry.error().message);
      else if (!by_name_.emplace(entry->name, entries_.size()).second)
        warnings_.add("tensor_data/index.toml: tensor {} is listed twice; the first is shown", quoted(entry->name));
      else
        entries_.push_back(std::move(*entry));
    }
    find_outer();
    for (const Entry& entry : entries_) {
      if (entry.dtype == "nested") continue;
      if (const auto room = charge_tensor(entry); !room) {
        warnings_.miss_tensors(static_cast<uint64_t>(&entries_.back() - &entry) + 1, room.error().code,
                               "tensor {}: {}; it and those after it in the index are missing", quoted(entry.name),
                               room.error().message);
        break;
      }
      add(entry);
    }
  }

 private:
  Result<void> charge_tensor(const Entry& entry) {
    TRY_VOID(budget_->charge(Cost::tensor));
    if (const auto outer = outer_.find(entry.name); outer != outer_.end())
      TRY_VOID(budget_->charge(Cost::input, outer->second->size()));  // it is read with each tensor
    return budget_->charge(Cost::kept, bytes_kept(entry));
  }

  // The nested tensor that each inner one belongs to.
  void find_outer() {
    for (const Entry& outer : entries_) {
      if (outer.dtype != "nested") continue;
      for (const std::string& name : outer.inner) {
        const auto inner = by_name_.find(name);
        if (inner == by_name_.end() || entries_[inner->second].dtype == "nested")
          warnings_.add("nested tensor {}: {}{}", quoted(outer.name), quoted(name),
                        inner == by_name_.end() ? " is not in the index" : " is nested itself");
        else if (!outer_.emplace(inner->first, &outer.name).second)
          warnings_.add("nested tensor {}: {} already belongs to a nested tensor", quoted(outer.name), quoted(name));
      }
    }
  }

  void add(const Entry& entry) {
    Tensor tensor;
    tensor.name = entry.name;
    tensor.shape = entry.shape;
    tensor.stored_dtype = spellings_.add(entry.dtype);
    tensor.dtype = dtype_named(entry.dtype);
    if (tensor.dtype == nullptr) {
      warnings_.add("tensor {}: {} is not a dtype of the specification", quoted(entry.name), quoted(entry.dtype));
      tensor.dtype = &kUnknownDType;
    }
    if (const auto outer = outer_.find(entry.name); outer != outer_.end())
      tensor.scope = spellings_.add(*outer->second);
    auto source = source_of(entry, tensor);
    // A tensor without a file cannot be shown.
    if (!source)
      return warnings_.miss_tensors(1, source.error().code, "tensor {}: {}; omitted", quoted(entry.name),
                                    source.error().message);
    tensor.source = std::move(*source);
    if (tensor.dtype->name == "string")
      add_strings(tensor, archive_.resolve(fmt::format("tensor_data/{}", entry.file)));
    model_.tensors.push_back(tensor);
  }

  // The strings of a file are parsed once, however many tensors name it.
  void add_strings(const Tensor& tensor, const Part* part) {
    const auto about = [name = tensor.name](const Error& error) {
      return Error{error.code, fmt::format("tensor {}: {}", quoted(name), error.message)};
    };
    const auto read = [file = tensor.source.whole(), budget = budget_] { return read_strings(file, *budget); };
    const Later<Strings> strings = strings_.try_emplace(part, Later<Strings>(read)).first->second;
    model_.per_tensor.edit().strings.emplace(
        model_.tensors.size(), Later<Strings>([=, shape = tensor.shape]() -> Result<Strings> {
          return with_shape(TRY(strings.get().map_error(about)), shape).map_error(about);
        }));
  }

  Result<Slice> source_of(const Entry& entry, Tensor& tensor) {
    if (!is_inside(entry.file))
      return failure(Code::corrupt, fmt::format("its file {} is not in tensor_data", quoted(entry.file)));
    const std::string path = fmt::format("tensor_data/{}", entry.file);
    const Part* part = archive_.resolve(path);
    if (part == nullptr) return failure(Code::corrupt, fmt::format("its file {} is not in the carton", quoted(path)));
    const auto wanted = size_in_bytes(*tensor.dtype, tensor.shape);
    const auto there = part->source.peek();
    // A file behind a link: its size is the one that it must have.
    if (!there && !wanted)
      return failure(Code::unsupported,
                     fmt::format("file {} is not in the carton, and its size cannot be computed from dtype and shape",
                                 quoted(path)));
    const auto digest = manifest_.digests.find(part->path);
    if (digest != manifest_.digests.end())
      model_.per_tensor.edit().digests.emplace(model_.tensors.size(), digest->second);
    if (!there) return slice(lazy(*wanted, part->source), 0, *wanted);
    const uint64_t size = (*there)->size();
    if (tensor.dtype->block_bytes > 0 && wanted != size) {
      warnings_.add("tensor {}: {} bytes, but the size from its shape {}; shown as bytes", quoted(entry.name), size,
                    wanted ? fmt::format("is {}", *wanted) : "overflows 64 bits");
      tensor.dtype = &kUnknownDType;
    }
    return slice(*there, 0, size);
  }

  Model& model_;
  const archive::Archive& archive_;
  const Manifest& manifest_;
  Warnings& warnings_;
  BudgetPtr budget_;
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string_view, const std::string*> outer_;  // inner tensor → nested tensor, both in entries_
  std::map<const Part*, Later<Strings>> strings_;         // of files of strings, which several tensors may share
  StringPool spellings_{model_.string_pool};
};

}  // namespace

Result<void> add_tensors(Model& model, const archive::Archive& archive, const Manifest& manifest, Warnings& warnings,
                         const BudgetPtr& budget) {
  constexpr std::string_view kIndex = "tensor_data/index.toml";
  if (archive.find(kIndex) == nullptr) {
    const auto is_tensor_data = [](const Part& part) { return part.path.starts_with("tensor_data/"); };
    if (std::any_of(archive.parts.begin(), archive.parts.end(), is_tensor_data))
      warnings.add("tensor_data: no index.toml, so its files have no names");
    return {};
  }
  const auto text = archive.text(kIndex, kMaxTomlSize);
  if (!text && !is_about_the_bytes(text.error())) return tl::unexpected(text.error());
  if (!text) {
    warnings.miss_file(text.error().code, "{}", text.error().message);
    return {};
  }
  const auto toml = parse_toml(*text, *budget);
  const Value* index = toml ? toml->find("tensor") : nullptr;
  // The entries copy the Map for as long as both are there.
  const Footprint copy = toml ? footprint(*toml) : Footprint{};
  const auto room = charge(copy, *budget);
  if (!toml || !room)
    warnings.miss_file(Code::corrupt, "{}: {}", kIndex, toml ? room.error().message : toml.error().message);
  else if (index != nullptr && !std::holds_alternative<List>(*index))
    warnings.miss_file(Code::corrupt, "{}: `tensor` is not an array of tables", kIndex);
  else if (index != nullptr)
    TensorAdder(model, archive, manifest, warnings, budget).add_all(std::get<List>(*index));
  if (room) release(copy, *budget);
  if (toml) release(copy, *budget);  // the charge of parse_toml
  return {};
}

}  // namespace weightfs::carton
