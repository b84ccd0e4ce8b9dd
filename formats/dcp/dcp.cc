// Checkpoints of torch.distributed.checkpoint (DCP): a directory with .metadata, a pickle, and __RANK_NUMBER.distcp
// files, which are chunks one after another. Each chunk is a whole file of torch.save with one tensor. As
// torch/distributed/checkpoint/filesystem.py of torch 2.9 writes them.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/text.h"
#include "formats/archive/zip.h"
#include "formats/common/relative_path.h"
#include "formats/dcp/metadata.h"
#include "formats/format.h"
#include "formats/pytorch/globals.h"
#include "formats/pytorch/saved.h"

namespace weightfs {
namespace dcp {
namespace {

// The time of reading a chunk besides that of its values, in steps: libzip opens it.
constexpr uint64_t kChunkSteps = 50;

// The memory of a zip that stays open, because tensors are read from it.
constexpr uint64_t kOpenZip = 48 << 10;

bool is_plain(std::string_view global) { return pytorch::is_permitted(global) || is_plain_name(global); }

// Puts the file of a place in front of the message of an error.
auto about(const Place& place) {
  return [path = place.path](const Error& error) {
    return with_message(error, fmt::format("{}: {}", quoted(path), error.message));
  };
}

class CheckpointReader {
 public:
  explicit CheckpointReader(const Container& container) : container_(container), contents_(*container.budget) {}

  Result<Model> read() && {
    Cursor cursor(*container_.bytes, 0, container_.bytes->size());
    const Pickle pickle = TRY(pickle::read_pickle(cursor, *container_.budget));
    auto metadata = Metadata::of(pickle, contents_.charges);
    if (!metadata && is_about_the_bytes(metadata.error()))
      return failure(metadata.error().code, metadata.error().message + pickle::before_an_error(pickle.globals()));
    if (!metadata) return tl::unexpected(metadata.error());
    const auto harmless = [&](std::string_view global) { return is_only_memory_format(pickle, global); };
    TRY_VOID(pickle::report_globals(pickle, is_plain, harmless, contents_));
    for (const Entry& entry : metadata->entries())
      TRY_VOID(entry.is_tensor ? add_tensor(*metadata, entry) : add_object(*metadata, entry));
    if (const uint64_t unknown = metadata->unknown_entries(); unknown > 0)
      contents_.warnings.miss_tensors(unknown, Code::unsupported, "{} entries without a name or of an unknown class",
                                      unknown);
    return model(*metadata);
  }

 private:
  Result<Model> model(const Metadata& metadata) {
    Model model;
    model.format = "dcp";
    Map facts;
    facts.append("files", files_.size());
    facts.append("chunks", metadata.chunks());
    TRY_VOID(pytorch::add_contents(model, std::move(contents_), std::move(facts)));
    model.parts.push_back(
        {.path = container_.name, .source = Later<SourcePtr>::of(container_.bytes), .is_structure = true});
    for (Part& part : parts_) model.parts.push_back(std::move(part));
    if (!checked_.empty()) model.checks.edit() = std::move(checked_);
    return model;
  }

  Result<void> add_tensor(const Metadata& metadata, const Entry& entry) {
    TRY_VOID(contents_.charges.charge(Cost::tensor));
    TRY_VOID(contents_.charges.charge(Cost::kept, entry.name.size()));
    Tensor tensor;
    tensor.name = entry.name;
    tensor.dtype = &kUnknownDType;
    tensor.stored_dtype = "unknown";
    lost_.reset();
    auto bytes = read_tensor(metadata, entry, tensor);
    if (!bytes && !is_about_the_bytes(bytes.error())) return tl::unexpected(bytes.error());
    if (bytes)
      tensor.source = std::move(*bytes);
    else
      contents_.warnings.refuse(lost_.value_or(bytes.error().code), "tensor {}: {}", quoted(tensor.name),
                                bytes.error().message);
    contents_.tensors.push_back(tensor);
    return {};
  }

  Result<Slice> read_tensor(const Metadata& metadata, const Entry& entry, Tensor& tensor) {
    Shape shape = TRY(metadata.shape_of(entry));
    TRY_VOID(contents_.charges.charge(Cost::kept, 2 * sizeof(uint64_t) * shape.size()));
    tensor.shape = std::move(shape);
    const pytorch::TorchType& type = *TRY(metadata.type_of(entry));
    tensor.dtype = type.dtype;
    tensor.stored_dtype = type.name;
    if (type.layout.block != 1) return failure(Code::unsupported, "several elements in a byte");
    if (!size_in_bytes(type.layout, tensor.shape)) return failure(Code::corrupt, "the size overflows");
    std::vector<Box> boxes = TRY(metadata.chunks_of(entry, tensor.shape, contents_.charges));
    std::vector<PlacedBox> placed;
    for (Box& box : boxes) {
      const Place place = TRY(metadata.place_of(entry, box.start));
      Slice bytes = TRY(read_chunk(place, type, box.length));
      placed.push_back({std::move(box), std::move(bytes)});
    }
    return join(std::move(placed), tensor.shape, type.layout.block_bytes, *container_.budget);
  }

  // The bytes of a chunk in its file; they are decoded or gathered if the chunk is compressed or not in C order.
  Result<Slice> read_chunk(const Place& place, const pytorch::TorchType& type, const Shape& shape) {
    const auto chunk = std::make_shared<const Slice>(TRY(stored(place)));
    pytorch::Contents read(*container_.budget);
    TRY_VOID(pytorch::add_saved(zip_of(place, chunk), "", "", read).map_error(about(place)));
    const bool is_one = read.tensors.size() == 1 && read.metadata.empty();
    const bool is_refused = is_one && read.tensors.is_refused(0);
    if (!is_refused || !read.dangerous.empty()) report(place, read);
    for (const std::string& name : read.unknown) TRY_VOID(pickle::add_unknown(name, contents_));
    if (!is_one) return failure(Code::corrupt, fmt::format("{}: a chunk that is not one tensor", quoted(place.path)));
    if (is_refused)
      return failure(Code::corrupt, fmt::format("{}: a chunk: {}", quoted(place.path), read.warnings.lines().front()));
    const TensorView tensor = read.tensors[0];
    if (tensor.stored_dtype != type.name || tensor.shape != ShapeView(shape))
      return failure(Code::corrupt, fmt::format("{}: a chunk of another type or shape", quoted(place.path)));
    const auto range = TRY(archive::stored_range_of(*tensor.source.whole()));
    if (!range || range->method != archive::kStored || range->bytes.whole() != chunk) {
      TRY_VOID(read.charges.charge(Cost::kept, kOpenZip));
      read.charges.keep();
      return tensor.source;
    }
    // Ranges of the file, so that nothing of the zip stays in memory.
    const uint64_t offset = chunk->offset() + range->bytes.offset();
    const Slice storage = TRY(slice(chunk->whole(), offset, range->bytes.size()));
    TRY_VOID(keep_checksum(place, storage, range->crc32));
    return slice(chunk->whole(), offset + tensor.source.offset(), tensor.nbytes());
  }

  Result<void> keep_checksum(const Place& place, const Slice& storage, uint32_t crc32) {
    std::string path = fmt::format("{}, bytes from {} on", place.path, storage.offset());
    TRY_VOID(contents_.charges.charge(Cost::kept, sizeof(FileCheck) + sizeof(Slice) + path.size()));
    checked_.push_back({.subject = std::move(path),
                        .bytes = Later<SourcePtr>::of(std::make_shared<const Slice>(storage)),
                        .expected = FileChecksums(Crc32{crc32}),
                        .of = FileCheck::Of::member});
    return {};
  }

  // Any object, as torch.save wrote it: a number, a state with tensors.
  Result<void> add_object(const Metadata& metadata, const Entry& entry) {
    const auto read = [&]() -> Result<void> {
      const Place place = TRY(metadata.place_of(entry, std::nullopt));
      const auto bytes = std::make_shared<const Slice>(TRY(stored(place)));
      const std::string name(entry.name);
      const size_t before = contents_.tensors.size();
      TRY_VOID(pytorch::add_saved(zip_of(place, bytes), name, fmt::format("{}: ", quoted(name)), contents_)
                   .map_error(about(place)));
      if (contents_.tensors.size() == before) return {};
      return contents_.charges.charge(Cost::kept, kOpenZip);
    };
    lost_.reset();
    const auto done = read();
    if (!done && !is_about_the_bytes(done.error())) return done;
    if (!done)
      contents_.warnings.refuse(lost_.value_or(done.error().code), "object {}: {}", quoted(entry.name),
                                done.error().message);
    return {};
  }

  Container zip_of(const Place& place, SourcePtr bytes) const {
    return {.name = std::string(place.path),
            .bytes = std::move(bytes),
            .blobs = container_.blobs,
            .depth = container_.depth + 1,
            .budget = container_.budget};
  }

  // Adds the warnings about a chunk, and the names in it that can run code, each once.
  void report(const Place& place, const pytorch::Contents& read) {
    contents_.warnings.append(read.warnings, fmt::format("{}: ", quoted(place.path)));
    if (read.dangerous.empty() || contents_.dangerous.find(read.dangerous) != std::string::npos) return;
    contents_.dangerous += (contents_.dangerous.empty() ? "" : ", ") + read.dangerous;
  }

  Result<Slice> stored(const Place& place) {
    if (place.is_transformed)
      return failure(Code::unsupported, fmt::format("{}: a chunk that is compressed", quoted(place.path)));
    TRY_VOID(container_.budget->charge(Cost::step, kChunkSteps));
    const SourcePtr file = TRY(this->file(place.path));
    const uint64_t left = file->size() - std::min(file->size(), place.offset);
    if (place.length <= left) return slice(file, place.offset, place.length);
    if (place.offset <= file->size()) contents_.warnings.add_short_by(place.length - left);
    return failure(Code::corrupt, fmt::format("{} bytes at {} of {}, which has {}", place.length, place.offset,
                                              quoted(place.path), file->size()));
  }

  // Opens each file once. The places may name any number of files.
  Result<SourcePtr> file(std::string_view path) {
    const auto lacking = [&](const Error& error) {
      lost_ = error.code;
      return failure(Code::corrupt, fmt::format("no file {}", quoted(path)));
    };
    if (const auto known = files_.find(path); known != files_.end())
      return known->second ? known->second : lacking(known->second.error());
    TRY_VOID(container_.budget->charge(Cost::lookup));
    TRY_VOID(container_.budget->charge(Cost::member));
    TRY_VOID(container_.budget->charge(Cost::kept, 2 * path.size()));
    auto file = opened(path);
    if (!file && is_fatal(container_, file.error())) return file;
    if (!file) {
      contents_.warnings.miss_file(file.error().code, "{}: {}; its tensors are refused", quoted(path),
                                   file.error().message);
      contents_.warnings.lose(file.error(), {});
    }
    files_.emplace(path, file);
    return file ? file : lacking(file.error());
  }

  Result<SourcePtr> opened(std::string_view path) {
    const std::string clean = TRY(relative_path(path));
    if (container_.folder == nullptr) return failure(Code::not_found, "no files beside .metadata");
    SourcePtr file = TRY(open_below(container_, clean));
    const auto is_it = [&](const Part& part) { return part.path == clean; };
    if (std::ranges::none_of(parts_, is_it)) parts_.push_back({clean, Later<SourcePtr>::of(file)});
    return file;
  }

  const Container& container_;
  pytorch::Contents contents_;
  std::vector<Part> parts_;
  std::vector<FileCheck> checked_;                               // storages in chunks
  std::map<std::string, Result<SourcePtr>, std::less<>> files_;  // by the path in the places; errors as they were
  std::optional<Code> lost_;                                     // the reason why the tensor or object lacks a file
};

}  // namespace
}  // namespace dcp

// The class of the object is the first name in the pickle.
Match matches_dcp(const Probe& probe) {
  constexpr size_t kBefore = 16;  // PROTO, FRAME and its length, the opcode of the text and its length
  constexpr size_t kBetween = 8;  // the module and the class: MEMOIZE, the opcode of the text and its length
  if (!probe.head.starts_with('\x80')) return Match::no;
  for (const std::string_view module :
       {"torch.distributed.checkpoint.metadata", "torch.distributed._shard.checkpoint.metadata"}) {
    const size_t at = probe.head.substr(0, kBefore + module.size()).find(module);
    if (at == probe.head.npos) continue;
    constexpr std::string_view kClass = "Metadata";
    if (probe.head.substr(at + module.size(), kBetween + kClass.size()).find(kClass) != probe.head.npos)
      return Match::yes;
  }
  return Match::no;
}

Result<Model> read_dcp(const Container& container) { return dcp::CheckpointReader(container).read(); }

}  // namespace weightfs
