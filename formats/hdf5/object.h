// Object headers: every group, dataset and committed datatype is a list of messages. Groups: the links of old ones are
// in a B-tree of symbols, those of new ones are messages, in the header or in a fractal heap.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hdf5/file.h"

namespace weightfs::hdf5 {

enum class MessageType : uint16_t {
  dataspace = 1,
  link_info = 2,
  datatype = 3,
  old_fill_value = 4,
  fill_value = 5,
  link = 6,
  external_files = 7,
  layout = 8,
  group_info = 10,
  filters = 11,
  attribute = 12,
  continuation = 16,
  symbol_table = 17,
  attribute_info = 21,
  cache_image = 24,
};

struct Message {
  MessageType type;
  bool shared = false;   ///< the data say where the message is
  uint64_t address = 0;  ///< of the data
  std::string data;
};

/// The messages of one object, those of its continuation blocks included.
struct Object {
  uint64_t address;
  std::vector<Message> messages;

  /// The first message of this type; null if there is none.
  const Message* find(MessageType type) const;
};

/// Reads the object header at `address`. Fails with corrupt on an invalid header, a wrong checksum, and blocks that
/// lead back to each other.
Result<Object> read_object(Metadata& metadata, uint64_t address);

/// The message itself where `message` is shared: the one of this type of a committed datatype. Fails with unsupported
/// if it is stored elsewhere.
Result<Message> resolve_shared(Metadata& metadata, const Message& message);

enum class LinkKind : uint8_t { hard, soft, external, other };

/// A name in a group.
struct Link {
  std::string name;
  LinkKind kind;
  uint64_t address = kUndefined;  ///< of the object, for a hard link
  std::string target;             ///< of a soft link: a path; of an external one: the file and the path
};

/// Whether the object is a group.
bool is_group(const Object& object);

/// The links of a group, sorted by name, which are charged to `charges`. Fails with corrupt if its structure is
/// damaged.
Result<std::vector<Link>> read_links(Metadata& metadata, const Object& group, Charges& charges);

/// The soft links that HDF5 follows for one path (H5L_ACC: nlinks).
inline constexpr int kMaxSoftLinks = 16;

/// The target of each soft link, by the path of the link.
using SoftLinks = std::map<std::string_view, std::string_view>;

/// The path without soft links to what the soft link at `path` means, whether it exists or not: as HDF5 follows it,
/// through groups and further soft links. Nothing for more than kMaxSoftLinks of them, which HDF5 refuses, and for a
/// path of kMaxNameLength or more bytes. Fails as the budget does.
Result<std::optional<std::string>> follow_soft_link(Metadata& metadata, const SoftLinks& links, std::string_view path);

}  // namespace weightfs::hdf5
