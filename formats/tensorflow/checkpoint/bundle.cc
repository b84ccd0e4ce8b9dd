#include "formats/tensorflow/checkpoint/bundle.h"

#include <fmt/core.h>

#include "base/text.h"
#include "base/values/rendering.h"
#include "formats/common/limits.h"
#include "formats/common/strided.h"
#include "formats/graphs/graph_writer.h"
#include "formats/protobuf/numbers.h"
#include "formats/tensorflow/checkpoint/object_graph.h"
#include "formats/tensorflow/checkpoint/strings.h"
#include "formats/tensorflow/fields.h"

namespace weightfs::tensorflow {
namespace {

constexpr int32_t kNewestConsumer = 1;  // kTensorBundleVersion
constexpr std::string_view kObjectGraph = "_CHECKPOINTABLE_OBJECT_GRAPH";

Result<BundleEntry> read_entry(Scanner& scanner, const Message& message, Charges& charges) {
  BundleEntry entry;
  Message shape;
  Fields fields(scanner, message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == bundle::kDataType) entry.data_type = static_cast<uint32_t>(field->value);
    if (field->tag == bundle::kShape) TRY_VOID(scanner.merge(shape, message, *field));
    if (field->tag == bundle::kShard) entry.shard = field->int32();
    if (field->tag == bundle::kOffset) entry.offset = static_cast<int64_t>(field->value);
    if (field->tag == bundle::kSize) entry.size = static_cast<int64_t>(field->value);
    if (field->tag == bundle::kChecksum && field->value != 0)
      entry.crc32c = unmasked_crc32c(static_cast<uint32_t>(field->value));
    if (field->tag != bundle::kSlice) continue;
    const Message child = TRY(scanner.child(message, *field));
    TRY_VOID(charges.charge(Cost::kept, kSliceMemory + sizeof(TensorSlice::Extent) * field->bytes.size() / 2));
    TensorSlice slice = TRY(read_slice(scanner, child));
    entry.slices.push_back(std::move(slice));
  }
  entry.shape = TRY(read_shape(scanner, shape));
  return entry;
}

}  // namespace

Result<Map> BundleReader::read(const Table& table) {
  bool is_first = true;
  std::string last;
  for (const Table::Block& block : table.blocks()) {
    Charges charges(*container_.budget);
    BlockEntries entries = TRY(table.entries(block.handle, charges));
    for (bool begins = true; TRY(entries.next()); begins = false) {
      if (begins && !is_first && entries.key() <= last)
        return failure(Code::corrupt, fmt::format("the key {} is not in order", quoted(entries.key())));
      TRY_VOID(is_first ? header(entries) : entry(entries));
      is_first = false;
    }
    last = entries.key();
  }
  if (is_first) return failure(Code::corrupt, "no header");
  return std::move(facts_);
}

Result<void> BundleReader::header(BlockEntries& entries) {
  if (!entries.key().empty()) return failure(Code::corrupt, "no header: the first key is not empty");
  uint64_t endianness = 0;
  Message version;
  const Message message{{entries.value()}, 0};
  Fields fields(entries.scanner(), message);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == bundle::kShards) shards_ = field->int32();
    if (field->tag == bundle::kEndianness) endianness = field->value;
    if (field->tag == bundle::kVersion) TRY_VOID(entries.scanner().merge(version, message, *field));
  }
  if (endianness > 1) return failure(Code::corrupt, fmt::format("byte order {}", endianness));
  is_big_endian_ = endianness == 1;
  facts_.append("num_shards", shards_);
  facts_.append("endianness", is_big_endian_ ? "big" : "little");
  return versions(entries.scanner(), version);
}

// As CheckVersions() of TensorFlow.
Result<void> BundleReader::versions(Scanner& scanner, const Message& versions) {
  int32_t producer = 0;
  int32_t min_consumer = 0;
  Fields fields(scanner, versions);
  while (const auto field = TRY(fields.next())) {
    if (field->tag == versions::kProducer) producer = field->int32();
    if (field->tag == versions::kMinConsumer) min_consumer = field->int32();
  }
  if (min_consumer > kNewestConsumer)
    return failure(Code::unsupported, fmt::format("needs a reader of version {}", min_consumer));
  const protobuf::NumbersField bad{versions, versions::kBadConsumer, protobuf::WireType::varint};
  if (TRY(protobuf::has_number(scanner, bad, kNewestConsumer)))
    return failure(Code::unsupported, fmt::format("must not be read by readers of version {}", kNewestConsumer));
  facts_.append("producer", producer);
  return {};
}

// Keys of slices come before those of tensors, because they begin with a NUL byte.
Result<void> BundleReader::entry(BlockEntries& entries) {
  const std::string& key = entries.key();
  Charges charges(*container_.budget);
  TRY_VOID(charges.charge(Cost::value));
  auto read = read_entry(entries.scanner(), {{entries.value()}, 0}, charges);
  if (!read && !is_about_the_bytes(read.error())) return tl::unexpected(read.error());
  if (!key.starts_with('\0')) return tensor(key, read);
  if (!read) return {};  // the tensor lacks it
  TRY_VOID(charges.charge(Cost::kept, key.size() + kSliceMemory + sizeof(uint64_t) * read->shape.sizes.size()));
  charges.keep();
  slices_.emplace_hint(slices_.end(), key, std::move(*read));
  return {};
}

Result<void> BundleReader::tensor(const std::string& name, const Result<BundleEntry>& read) {
  if (name.size() > kMaxNameLength) {
    warnings_.miss_tensors(1, Code::unsupported, "tensor {}: its name has {} bytes; omitted", quoted(name),
                           name.size());
    return {};
  }
  TRY_VOID(container_.budget->charge(Cost::tensor));
  TRY_VOID(container_.budget->charge(Cost::kept, name.size()));
  Tensor tensor{.name = name, .dtype = &kUnknownDType, .stored_dtype = {}, .scope = {}, .shape = {}, .source = {}};
  lost_.reset();
  const auto bytes = read ? values(*read, tensor) : tl::unexpected(read.error());
  if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
  if (!bytes) tensor.source = {};
  if (!bytes)
    warnings_.refuse(lost_.value_or(bytes.error().code), "tensor {}: {}: refused", quoted(name), bytes.error().message);
  out_.tensors.push_back(tensor);
  if (bytes && name == kObjectGraph && tensor.dtype == dtype_named("string") && tensor.shape.empty())
    describe_objects(strings(*read, tensor.source, 1));
  return {};
}

// Sets what is known of a tensor, and its bytes.
Result<void> BundleReader::values(const BundleEntry& entry, Tensor& tensor) {
  const ElementType* const type = find_type(entry.data_type);
  if (type == nullptr) return failure(Code::corrupt, fmt::format("type {}", type_name(entry.data_type)));
  tensor.dtype = dtype_of(type);
  tensor.stored_dtype = type->name;
  tensor.shape = entry.shape.shown();
  TRY_VOID(container_.budget->charge(Cost::kept, sizeof(uint64_t) * tensor.shape.size()));
  const Shape shape = TRY(entry.shape.known());
  if (type->dtype.empty()) return failure(Code::unsupported, fmt::format("values of type {}", type->name));
  tensor.source = entry.slices.empty() ? TRY(stored(entry, *type, shape)) : TRY(partitioned(entry, *type, tensor));
  if (!type->is_text()) return {};
  TRY_VOID(container_.budget->charge(Cost::value, 2));  // its entry in the map of strings
  const StoredStrings stored = strings(entry, tensor.source, elements_of(shape).value_or(0));
  out_.per_tensor.edit().strings.emplace(out_.tensors.size(), strings_of(stored, container_.budget));
  return {};
}

// The bytes of an entry: with little-endian values.
Result<Slice> BundleReader::stored(const BundleEntry& entry, const ElementType& type, const Shape& shape) {
  const uint64_t wanted = TRY(needed_bytes(entry, type, shape));
  if (entry.offset < 0) return failure(Code::corrupt, fmt::format("offset {}", entry.offset));
  const SourcePtr file = TRY(shard(entry.shard));
  const auto offset = static_cast<uint64_t>(entry.offset);
  const uint64_t left = file->size() - std::min(file->size(), offset);
  if (wanted > left) {
    if (offset <= file->size()) warnings_.add_short_by(wanted - left);
    return failure(Code::corrupt, fmt::format("{} bytes at {} of {}, which has {}", wanted, offset,
                                              quoted(shard_name(entry.shard)), file->size()));
  }
  const Slice bytes = TRY(slice(file, offset, wanted));
  TRY_VOID(add_checksum(entry, file, type.is_text() ? elements_of(shape).value_or(0) : 0));
  if (!is_big_endian_ || type.swapped_bytes() == 0) return bytes;
  TRY_VOID(container_.budget->charge(Cost::kept, kSliceMemory));
  return strided(bytes, 0, *dtype_of(&type), shape, c_strides(shape), {.swap = type.swapped_bytes()});
}

// The size of an entry, if it can be that of its shape.
Result<uint64_t> BundleReader::needed_bytes(const BundleEntry& entry, const ElementType& type,
                                            const Shape& shape) const {
  const auto elements = elements_of(shape);
  const auto size = type.is_text() ? elements : size_in_bytes(*dtype_of(&type), shape);
  if (!elements || !size) return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  const auto stored = static_cast<uint64_t>(entry.size);
  if (entry.size >= 0 && stored == *size && !type.is_text()) return stored;
  if (entry.size >= 0 && type.is_text() && (*elements == 0 || stored >= least_bytes(*elements))) return stored;
  return failure(Code::corrupt,
                 fmt::format("{} bytes stored, {}{} needed", entry.size, type.is_text() ? "at least " : "",
                             type.is_text() ? least_bytes(*elements) : *size));
}

// For the tensor that is added next.
Result<void> BundleReader::add_checksum(const BundleEntry& entry, const SourcePtr& file, uint64_t lengths) {
  const size_t tensor = out_.tensors.size();
  if (!entry.crc32c || tensor >= RangeChecksum::kNoTensor) return {};
  TRY_VOID(container_.budget->charge(Cost::kept, 2 * sizeof(RangeChecksum)));
  std::vector<FileCheck>& checks = out_.checks.edit();
  const auto [known, is_new] = checked_by_shard_.try_emplace(entry.shard, checks.size());
  if (is_new)
    checks.push_back({shard_name(entry.shard), Later<SourcePtr>::of(file), RangeChecksums{.order = byte_order()}});
  auto& ranges = std::get<RangeChecksums>(checks[known->second].expected).ranges;
  ranges.push_back({.offset = static_cast<uint64_t>(entry.offset),
                    .size = static_cast<uint64_t>(entry.size),
                    .lengths = lengths,
                    .crc32c = *entry.crc32c,
                    .tensor = static_cast<uint32_t>(tensor)});
  return {};
}

StoredStrings BundleReader::strings(const BundleEntry& entry, const Slice& bytes, uint64_t count) const {
  return {.bytes = bytes, .count = count, .crc32c = entry.crc32c, .order = byte_order()};
}

Result<Slice> BundleReader::partitioned(const BundleEntry& entry, const ElementType& type, const Tensor& tensor) {
  const uint64_t width = dtype_of(&type)->block_bytes;
  if (type.is_text()) return failure(Code::unsupported, "strings in slices");
  if (!size_in_bytes(*tensor.dtype, tensor.shape))
    return failure(Code::corrupt, "the size of its shape overflows 64 bits");
  std::vector<PlacedBox> placed;
  for (const TensorSlice& each : entry.slices) {
    Box box = TRY(box_of(each, tensor.shape));
    TRY_VOID(container_.budget->charge(Cost::kept, kSliceMemory + 2 * sizeof(uint64_t) * tensor.shape.size()));
    TRY_VOID(container_.budget->charge(Cost::step));
    TRY_VOID(container_.budget->charge(Cost::input, tensor.name.size()));
    const auto found = slices_.find(slice_key(tensor.name, each));
    if (found == slices_.end()) return failure(Code::corrupt, "one of its slices is missing");
    if (found->second.data_type != entry.data_type) return failure(Code::corrupt, "a slice of another type");
    Slice bytes = TRY(stored(found->second, type, box.length));
    placed.push_back({std::move(box), std::move(bytes)});
  }
  return join(std::move(placed), tensor.shape, width, *container_.budget);
}

std::string BundleReader::shard_name(int32_t number) const {
  return fmt::format("{}.data-{:05}-of-{:05}", files_.prefix, number, shards_);
}

// Opens each file once. The header may name any number of files.
Result<SourcePtr> BundleReader::shard(int32_t number) {
  if (number < 0 || number >= shards_) return failure(Code::corrupt, fmt::format("file {} of {}", number, shards_));
  const std::string name = shard_name(number);
  const auto lacking = [&](const Error& error) {
    lost_ = error.code;
    return failure(Code::corrupt, fmt::format("no file {}", quoted(name)));
  };
  if (const auto known = files_by_shard_.find(number); known != files_by_shard_.end())
    return known->second ? known->second : lacking(known->second.error());
  TRY_VOID(container_.budget->charge(Cost::lookup));
  TRY_VOID(container_.budget->charge(Cost::member));
  auto file = files_.open(name);
  if (!file && is_fatal(container_, file.error())) return file;
  if (file) {
    out_.parts.push_back({name, Later<SourcePtr>::of(*file)});
  } else {
    warnings_.miss_file(file.error().code, "{}: {}; its tensors are refused", quoted(name), file.error().message);
    warnings_.lose(file.error(), {});
  }
  files_by_shard_.emplace(number, file);
  return file ? file : lacking(file.error());
}

// The object graph has the names that variables have in the program.
void BundleReader::describe_objects(StoredStrings graph) {
  out_.documents.push_back({"full_names.json", Later<SourcePtr>([graph = std::move(graph),
                                                                 budget = container_.budget]() -> Result<SourcePtr> {
                              auto text = full_names(graph, *budget);
                              if (!text && text.error().code == Code::corrupt)
                                text = problem_document(*budget, text.error());
                              return charged_text(TRY(std::move(text)), budget);
                            })});
}

}  // namespace weightfs::tensorflow
