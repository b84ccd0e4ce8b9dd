// Reads XML with Expat, as a stream of elements: the structure of a language model has 10 MB, and no tree of it is
// built.
#pragma once

#include <string_view>

#include "base/budget.h"
#include "base/source.h"

namespace weightfs::openvino {

/// The attributes of an element, with their references resolved. Valid during the event that has them.
class XmlAttributes {
 public:
  /// `pairs`: names and values in turn, then null, as Expat passes them.
  explicit XmlAttributes(const char* const* pairs) : pairs_(pairs) {}

  /// Whether there is an attribute of this name.
  bool has(std::string_view name) const { return find(name) != nullptr; }

  /// The value of an attribute; empty if there is none.
  std::string_view text(std::string_view name) const {
    const char* const value = find(name);
    return value == nullptr ? std::string_view() : value;
  }

  /// Calls `take` with each name and value, in the order of the text.
  template <class Take>
  void for_each(const Take& take) const {
    for (const char* const* at = pairs_; *at != nullptr; at += 2)
      take(std::string_view(at[0]), std::string_view(at[1]));
  }

 private:
  const char* find(std::string_view name) const {
    for (const char* const* at = pairs_; *at != nullptr; at += 2)
      if (name == at[0]) return at[1];
    return nullptr;
  }

  const char* const* pairs_;
};

/// The elements of an XML text, in order. A failure stops the parser.
class XmlEvents {
 public:
  virtual ~XmlEvents() = default;
  virtual Result<void> begin(std::string_view name, const XmlAttributes& attributes) = 0;
  virtual Result<void> end() = 0;                         ///< of the element that began last and has not ended
  virtual Result<void> text(std::string_view piece) = 0;  ///< a piece of the text in the innermost element
};

/// The maximum size of an XML text, in bytes.
inline constexpr uint64_t kMaxXmlSize = 100'000'000;

/// The maximum size of a tag, with its attributes, or of a comment, in bytes: Expat reads an unfinished one again with
/// every piece of the file.
inline constexpr uint64_t kMaxXmlTag = 4 << 20;

/// Reads an XML text: UTF-8, UTF-16, Latin-1 or ASCII. Fails with corrupt if it is not well-formed, with unsupported
/// beyond a limit or kMaxDepth, and if it declares entities or default attributes, which could multiply its size or
/// name other files; and as `events` and the budget do. Names are charged while it is read, and the bytes.
Result<void> read_xml(const Source& xml, Budget& budget, XmlEvents& events);

}  // namespace weightfs::openvino
