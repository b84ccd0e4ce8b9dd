#include "formats/directory/pieces.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"
#include "base/values/json.h"
#include "formats/boxes/boxes.h"

namespace weightfs::directory {
namespace {

constexpr const char* kSharding = "DCP_SHARDING_INFO";
constexpr const char* kPlace = "saved_offsets";
constexpr uint64_t kNode = 128;  // of a map, besides the name

// The numbers of a list; nothing if one of them is no place.
std::optional<Shape> numbers_in(const List* list) {
  if (list == nullptr || list->size() > kMaxDimensions) return std::nullopt;
  Shape numbers;
  for (const Value& value : *list) {
    const auto* const number = std::get_if<int64_t>(&value);
    const auto* const large = std::get_if<uint64_t>(&value);
    if (large == nullptr && (number == nullptr || *number < 0)) return std::nullopt;
    numbers.push_back(large != nullptr ? *large : static_cast<uint64_t>(*number));
  }
  return numbers;
}

// The box of a piece, if it is one of a tensor with so many dimensions.
Result<Box> box_of(const Shape& place, ShapeView shape) {
  if (place.size() != shape.size())
    return failure(Code::corrupt,
                   fmt::format("a place of {} dimensions for a piece of {}", place.size(), shape.size()));
  for (size_t i = 0; i < shape.size(); ++i)
    if (place[i] > UINT64_MAX - shape[i]) return failure(Code::corrupt, "the place of a piece overflows");
  return Box{place, shape};
}

// The three numbers in the name of a file with pieces: of the process, of the file, and of all files.
std::vector<uint64_t> numbers_in_name(std::string_view name) {
  std::vector<uint64_t> numbers;
  for (const std::string_view before : {"shard-", "-model-", "-of-"}) {
    if (!name.starts_with(before)) return {};
    name.remove_prefix(before.size());
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc()) return {};
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    numbers.push_back(number);
  }
  return numbers;
}

// The first number from 1 on that is not there.
uint64_t first_missing(const std::set<uint64_t>& numbers) {
  uint64_t missing = 1;
  while (numbers.contains(missing)) ++missing;
  return missing;
}

}  // namespace

bool is_named_as_pieces(std::string_view name) {
  constexpr const char* kPattern = "shard-[0-9][0-9][0-9][0-9][0-9]*-model-[0-9]*-of-[0-9]*.safetensors";
  return ::fnmatch(kPattern, std::string(name).c_str(), 0) == 0;
}

Result<std::map<std::string, Shape, std::less<>>> places_of_pieces(const Map& metadata, Budget& budget) {
  std::map<std::string, Shape, std::less<>> places;
  const auto* const text = metadata.find_as<std::string>(kSharding);
  if (text == nullptr) return places;
  const auto value = parse_json(*in_memory(*text), 0, text->size(), budget);
  if (!value && !is_about_the_bytes(value.error())) return tl::unexpected(value.error());
  if (!value) return places;
  const auto read = [&](const Map& pieces) -> Result<void> {
    for (const auto& [name, entry] : pieces) {
      const auto* const fields = std::get_if<Map>(&entry);
      auto place = numbers_in(fields == nullptr ? nullptr : fields->find_as<List>(kPlace));
      if (!place) continue;
      TRY_VOID(budget.charge(Cost::kept, kNode + name.size() + sizeof(uint64_t) * place->size()));
      places.emplace(name, *std::move(place));
    }
    return {};
  };
  if (const auto* const pieces = std::get_if<Map>(&*value)) TRY_VOID(read(*pieces));
  release(footprint(*value), budget);
  return places;
}

namespace {

std::string warning_about_pieces(uint64_t count) {
  return fmt::format(
      "{} {} of tensors that several processes saved (DCP_SHARDING_INFO): open the directory to join them", count,
      count == 1 ? "tensor may be a piece" : "tensors may be pieces");
}

}  // namespace

Result<void> warn_of_pieces(Model& model, Budget& budget) {
  const auto places = TRY(places_of_pieces(model.metadata, budget));
  if (places.empty()) return {};
  uint64_t count = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) count += places.contains(model.tensors.name(i)) ? 1U : 0U;
  if (count == 0) return {};
  Warnings warnings;
  warnings.pass_over_numbers("{}", warning_about_pieces(count));
  std::move(warnings).move_to(model);
  return {};
}

void report_missing_pieces(const std::vector<std::string>& names, Warnings& warnings) {
  std::set<uint64_t> processes, files;
  uint64_t count = 0;
  for (const std::string& name : names) {
    const std::vector<uint64_t> numbers = numbers_in_name(name);
    if (numbers.size() != 3) continue;
    processes.insert(numbers[0]);
    files.insert(numbers[1]);
    count = std::max(count, numbers[2]);
  }
  processes.erase(0);
  if (!processes.empty() && *processes.rbegin() > processes.size())
    warnings.miss_file(Code::corrupt, "pieces of {} of at least {} processes; missing shard-{:05}", processes.size(),
                       *processes.rbegin(), first_missing(processes));
  if (count > files.size())
    warnings.miss_file(Code::corrupt, "pieces of {} of {} files; missing model-{:05}-of-{:05}", files.size(), count,
                       first_missing(files), count);
}

Result<void> Pieces::add(Model& read, size_t first) {
  auto places = TRY(places_of_pieces(read.metadata, budget_));
  uint64_t count = 0;
  for (size_t i = 0; i < read.tensors.size(); ++i) {
    const auto place = places.find(read.tensors.name(i));
    if (place == places.end()) continue;
    TRY_VOID(budget_.charge(Cost::kept, kNode));
    pieces_[place->first].push_back({first + i, std::move(place->second)});
    ++count;
  }
  std::erase(read.warnings, warning_about_pieces(count));
  return {};
}

// The bytes of a tensor and its shape, which is that of the pieces that exist.
Result<Slice> Pieces::joined(const std::vector<Piece>& pieces, const TensorList& tensors, Shape& shape) {
  const DType& dtype = *tensors.dtype(pieces.front().tensor);
  std::vector<PlacedBox> placed;
  for (const Piece& piece : pieces) {
    const TensorView tensor = tensors[piece.tensor];
    if (tensor.source.refused()) return failure(Code::corrupt, "one of its pieces is refused");
    if (tensor.dtype != &dtype) return failure(Code::corrupt, "pieces of several types");
    Box box = TRY(box_of(piece.place, tensor.shape));
    if (placed.empty()) shape.assign(box.start.size(), 0);
    if (box.start.size() != shape.size()) return failure(Code::corrupt, "pieces with several numbers of dimensions");
    for (size_t i = 0; i < shape.size(); ++i) shape[i] = std::max(shape[i], box.start[i] + box.length[i]);
    placed.push_back({std::move(box), tensor.source});
  }
  if (dtype.block != 1 || dtype.block_bytes == 0)
    return failure(Code::unsupported, fmt::format("pieces of type {} are not joined", dtype.name));
  if (!size_in_bytes(dtype, shape)) return failure(Code::corrupt, "the size overflows");
  return weightfs::join(std::move(placed), shape, dtype.block_bytes, budget_);
}

Result<void> Pieces::join(TensorList& tensors, Warnings& warnings) {
  std::vector<size_t> others;  // all pieces but the first one of each tensor
  for (const auto& [name, pieces] : pieces_) {
    TensorView whole = tensors[pieces.front().tensor];
    Shape shape;
    auto bytes = joined(pieces, tensors, shape);
    if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
    if (!bytes) warnings.refuse(bytes.error().code, "tensor {}: {}", quoted(name), bytes.error().message);
    whole.scope = {};
    if (bytes) whole.shape = shape;
    whole.source = std::move(bytes).value_or(Slice());
    tensors.replace(pieces.front().tensor, whole);
    for (size_t i = 1; i < pieces.size(); ++i) others.push_back(pieces[i].tensor);
  }
  std::ranges::sort(others);
  tensors.erase(others);
  return {};
}

}  // namespace weightfs::directory
