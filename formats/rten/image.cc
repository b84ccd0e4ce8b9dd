#include "formats/rten/image.h"

#include <fmt/core.h>
#include <rten_generated.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "base/os/system_error.h"
#include "base/text.h"
#include "formats/rten/schema.h"

namespace weightfs::rten {
namespace {

using reflection::BaseType;

template <class... Values>
tl::unexpected<Error> corrupt(fmt::format_string<Values...> format, Values&&... values) {
  return failure(Code::corrupt, "rten: model data: " + fmt::format(format, std::forward<Values>(values)...));
}

template <class... Values>
tl::unexpected<Error> too_much(fmt::format_string<Values...> format, Values&&... values) {
  return failure(Code::unsupported, "rten: model data: " + fmt::format(format, std::forward<Values>(values)...));
}

// The bytes of the image, read a page at a time when they are first needed.
class Pages {
 public:
  Pages(const Source& source, uint64_t offset, std::span<uint8_t> image, Charges& charges)
      : source_(source), offset_(offset), image_(image), charges_(charges), read_(image.size() / kPage + 1) {}

  // Makes [at, at + size) hold the source's bytes. Every address that comes from the file is checked here.
  Result<void> need(uint64_t at, uint64_t size) {
    TRY_VOID(inside(at, size));
    const uint64_t end = (at + size + kPage - 1) / kPage;
    for (uint64_t first = at / kPage, last; first < end; first = last) {
      last = first + 1;
      if (read_[first]) continue;
      while (last < end && !read_[last]) ++last;
      TRY_VOID(read(first, last));
    }
    return {};
  }

  Result<void> inside(uint64_t at, uint64_t size) const {
    if (at <= image_.size() && size <= image_.size() - at) return {};
    return corrupt("{} bytes at offset {} are not inside its {}", size, at, image_.size());
  }

  // A number that need() has seen.
  template <class T>
  T number(uint64_t at) const {
    T number;
    std::memcpy(&number, &image_[at], sizeof(T));
    return number;
  }

 private:
  Result<void> read(uint64_t first, uint64_t last) {
    const uint64_t begin = first * kPage;
    const uint64_t size = std::min(last * kPage, image_.size()) - begin;
    structure_ += size;
    if (structure_ > kMaxStructureSize) return too_much("more than {} bytes beside the weights", kMaxStructureSize);
    TRY_VOID(charges_.charge(Cost::input, size));
    TRY_VOID(charges_.charge(Cost::kept, size));
    TRY_VOID(read_exact(source_, offset_ + begin, std::as_writable_bytes(image_.subspan(begin, size))));
    std::fill(read_.begin() + static_cast<ptrdiff_t>(first), read_.begin() + static_cast<ptrdiff_t>(last), true);
    return {};
  }

  const Source& source_;
  uint64_t offset_;
  std::span<uint8_t> image_;
  Charges& charges_;
  std::vector<bool> read_;
  uint64_t structure_ = 0;
};

// How many tables a FlatBuffer of `size` bytes may have.
uint32_t most_tables(uint64_t size) {
  return static_cast<uint32_t>(std::min<uint64_t>(kMaxTables, size / kMinTableSize));
}

// Walks the tables of a FlatBuffer by its schema. Unneeded pages stay unread. Its errors name the problem, unlike those
// of the verifier.
class StructureWalk {
 public:
  StructureWalk(Pages& pages, uint64_t size, Charges& charges)
      : pages_(pages),
        charges_(charges),
        most_tables_(most_tables(size)),
        most_text_(std::min(kMaxTextSize, size + kPage)) {}

  Result<void> root() { return table(0, table_type("Model"), 1); }

 private:
  struct Place {
    uint64_t table;
    uint64_t vtable;
    uint32_t depth;
  };

  // The table that the offset at `where` points to: it begins with the distance back to its vtable, which has its own
  // size, the table's, and for each field an offset into the table.
  Result<void> table(uint64_t where, const TableType& type, uint32_t depth) {
    TRY_VOID(count_table(depth));
    if (&type == &graph_) TRY_VOID(count_text(depth / kTablesOfGraph * kMaxScopeStep));
    const uint64_t at = TRY(target(where));
    TRY_VOID(pages_.need(at, sizeof(int32_t)));
    const int64_t vtable = static_cast<int64_t>(at) - pages_.number<int32_t>(at);
    if (vtable < 0) return corrupt("the {} at {} has its vtable before the start", type.name, at);
    const Place place{at, static_cast<uint64_t>(vtable), depth};
    TRY_VOID(pages_.need(place.vtable, sizeof(uint16_t)));
    TRY_VOID(pages_.need(place.vtable, pages_.number<uint16_t>(place.vtable)));
    for (const Field& field : type.fields) {
      const uint64_t value_at = find(place, field.slot);
      if (value_at != 0)
        TRY_VOID(value(field, value_at, place));
      else if (field.required)
        return corrupt("the {} at {} has no {}", type.name, at, field.name);
    }
    return {};
  }

  Result<void> count_table(uint32_t depth) {
    if (depth > kMaxTableDepth) return too_much("tables nested deeper than {}", kMaxTableDepth);
    if (++tables_ > most_tables_) return too_much("more than {} tables, counted at each use", most_tables_);
    return charge(Cost::value, 1);
  }

  // The position of the value with this slot in the vtable; 0 if the table does not have it.
  uint64_t find(const Place& place, uint16_t slot) const {
    const auto size = pages_.number<uint16_t>(place.vtable);
    const auto entry = slot + sizeof(uint16_t) <= size ? pages_.number<uint16_t>(place.vtable + slot) : uint16_t{0};
    return entry == 0 ? 0 : place.table + entry;
  }

  Result<void> value(const Field& field, uint64_t where, const Place& place) {
    if (field.is_list) return list(field, where, place.depth);
    if (field.type == BaseType::String) return string(where);
    if (field.type == BaseType::Obj) return table(where, *field.table, place.depth + 1);
    if (field.type == BaseType::Union) return member(field, where, place);
    return pages_.need(where, field.width);
  }

  // A union. A tag from a later schema is not checked, as in the verifier, but its offset is.
  Result<void> member(const Field& field, uint64_t where, const Place& place) {
    TRY_VOID(pages_.need(where, sizeof(uint32_t)));
    const uint64_t tag_at = find(place, static_cast<uint16_t>(field.slot - sizeof(uint16_t)));
    if (tag_at == 0) return {};
    TRY_VOID(pages_.need(tag_at, sizeof(uint8_t)));
    const Named* known = field.names->find(pages_.number<uint8_t>(tag_at));
    if (known == nullptr || known->table == nullptr) return {};
    return table(where, *known->table, place.depth + 1);
  }

  // The schema has lists of numbers and of tables, and no others.
  Result<void> list(const Field& field, uint64_t where, uint32_t depth) {
    const uint64_t at = TRY(target(where));
    TRY_VOID(pages_.need(at, sizeof(uint32_t)));
    const auto length = pages_.number<uint32_t>(at);
    const uint64_t size = sizeof(uint32_t) + uint64_t{length} * field.width;
    if (field.weights) return pages_.inside(at, size);
    if (field.table == nullptr) TRY_VOID(short_enough(field.name, length));
    TRY_VOID(text(at, size));
    if (field.table == nullptr) return {};
    for (uint64_t i = 1; i <= length; ++i) TRY_VOID(table(at + sizeof(uint32_t) * i, *field.table, depth + 1));
    return {};
  }

  Result<void> string(uint64_t where) {
    const uint64_t at = TRY(target(where));
    TRY_VOID(pages_.need(at, sizeof(uint32_t)));
    const auto length = pages_.number<uint32_t>(at);
    TRY_VOID(short_enough("a string", length));
    return text(at, sizeof(uint32_t) + uint64_t{length} + 1);
  }

  Result<void> text(uint64_t at, uint64_t size) {
    TRY_VOID(pages_.inside(at, size));
    TRY_VOID(count_text(size));
    return pages_.need(at, size);
  }

  Result<void> count_text(uint64_t size) {
    text_ += size;
    if (text_ <= most_text_) return charge(Cost::input, kReadsOfText * size);
    return too_much("more than {} bytes of lists, strings and scopes, counted at each use", most_text_);
  }

  Result<void> charge(Cost cost, uint64_t count) {
    return charges_.charge(cost, count).map_error([](const Error& error) {
      return Error{error.code, "rten: model data: " + error.message};
    });
  }

  static Result<void> short_enough(std::string_view what, uint32_t length) {
    if (length <= kMaxListLength) return {};
    return too_much("{} of {} elements, more than {}", what, length, kMaxListLength);
  }

  // What the offset at `where` points to: forward, and never to itself.
  Result<uint64_t> target(uint64_t where) {
    TRY_VOID(pages_.need(where, sizeof(uint32_t)));
    const auto distance = pages_.number<uint32_t>(where);
    if (distance == 0) return corrupt("the offset at {} is 0", where);
    return where + distance;
  }

  static constexpr uint32_t kTablesOfGraph = 4;  // in an operator: node, operator, attributes, graph

  // A text is walked, verified, checked to be UTF-8, copied, sorted and rendered.
  static constexpr uint64_t kReadsOfText = 4;

  Pages& pages_;
  Charges& charges_;
  const TableType& graph_ = table_type("Graph");
  uint32_t most_tables_;
  uint64_t most_text_;
  uint32_t tables_ = 0;
  uint64_t text_ = 0;
};

bool verify(std::span<const uint8_t> image) {
  flatbuffers::Verifier::Options limits;
  limits.max_depth = kMaxTableDepth;
  limits.max_tables = most_tables(image.size());
  flatbuffers::Verifier verifier(image.data(), image.size(), limits);
  // No identifier: the schema of the reference declares one, and no writer stores it.
  return verifier.VerifyBuffer<Model>(nullptr);
}

}  // namespace

void StructureImage::Unmap::operator()(uint8_t* bytes) const { ::munmap(bytes, size); }

Result<StructureImage::Mapping> StructureImage::map(size_t size) {
  void* bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED)
    return failure(Code::resource, fmt::format("rten: no memory for the model data: {}", errno_text(errno)));
  // One touched page must not become a huge one. Kernels without huge pages refuse this and need not care.
  ::madvise(bytes, size, MADV_NOHUGEPAGE);
  return Mapping(static_cast<uint8_t*>(bytes), Unmap{size});
}

Result<StructureImage> StructureImage::load(const Source& source, uint64_t offset, uint64_t size, Charges& charges) {
  if (size < kMinFlatBufferSize || size > kMaxFlatBufferSize)
    return failure(Code::corrupt, fmt::format("rten: model data of {} bytes; a FlatBuffer has {} to {}", size,
                                              kMinFlatBufferSize, kMaxFlatBufferSize));
  Mapping mapping = TRY(map(size));
  const std::span image(mapping.get(), size);
  Pages pages(source, offset, image, charges);
  TRY_VOID(StructureWalk(pages, size, charges).root());
  if (!verify(image)) return corrupt("invalid FlatBuffer: misaligned value or unterminated string");
  return StructureImage(std::move(mapping));
}

const Model& StructureImage::model() const { return *flatbuffers::GetRoot<Model>(mapping_.get()); }

uint64_t StructureImage::position(const void* part) const {
  return static_cast<uint64_t>(static_cast<const uint8_t*>(part) - mapping_.get());
}

}  // namespace weightfs::rten
