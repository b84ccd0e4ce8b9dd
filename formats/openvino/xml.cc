#include "formats/openvino/xml.h"

#include <expat.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace weightfs::openvino {
namespace {

// The bytes that Expat gets at once.
constexpr uint64_t kPiece = 1 << 20;

// Since 2.9, Expat has positions of 64 bits on every machine, and warns of the others.
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
int64_t byte_index_of(XML_Parser parser) { return XML_GetCurrentByteIndex64(parser); }
uint64_t line_of(XML_Parser parser) { return XML_GetCurrentLineNumber64(parser); }
#else
int64_t byte_index_of(XML_Parser parser) { return XML_GetCurrentByteIndex(parser); }
uint64_t line_of(XML_Parser parser) { return XML_GetCurrentLineNumber(parser); }
#endif

// Feeds Expat, and passes its events on. Expat calls functions of C, which no exception may leave.
class XmlReader {
 public:
  XmlReader(const Source& xml, Budget& budget, XmlEvents& events)
      : xml_(xml), charges_(budget, Charges::Pass::together), events_(events), parser_(XML_ParserCreate(nullptr)) {}

  Result<void> read() {
    if (parser_ == nullptr) return out_of_memory();
    if (xml_.size() > kMaxXmlSize)
      return failure(Code::unsupported, fmt::format("{} bytes of XML, at most {} are read", xml_.size(), kMaxXmlSize));
    // Expat's buffer has an unfinished tag and the next piece; it is copied when it grows.
    TRY_VOID(charges_.charge(Cost::kept, 3 * std::min(xml_.size(), kMaxXmlTag + kPiece)));
    set_handlers();
    uint64_t at = 0;
    do {
      const uint64_t size = std::min(kPiece, xml_.size() - at);
      TRY_VOID(pass(at, size));
      at += size;
      if (const int64_t begin = byte_index_of(parser_.get()); begin > 0) begin_of_last_ = static_cast<uint64_t>(begin);
      if (at - begin_of_last_ > kMaxXmlTag)
        return failure(Code::unsupported, fmt::format("a tag or comment of more than {} bytes", kMaxXmlTag));
    } while (at < xml_.size());
    return {};
  }

 private:
  struct Free {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };
  using ParserPtr = std::unique_ptr<std::remove_pointer_t<XML_Parser>, Free>;

  static tl::unexpected<Error> out_of_memory() { return failure(Code::resource, "out of memory"); }

  void set_handlers() {
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(parser_.get(), on_begin, on_end);
    XML_SetCharacterDataHandler(parser_.get(), on_text);
    XML_SetEntityDeclHandler(parser_.get(), on_entity);
    XML_SetAttlistDeclHandler(parser_.get(), on_default_attribute);
  }

  Result<void> pass(uint64_t at, uint64_t size) {
    TRY_VOID(charges_.charge(Cost::input, size));
    // Expat has no buffer of 0 bytes, for an empty file.
    const auto room = static_cast<int>(std::max<uint64_t>(size, 1));
    auto* const buffer = static_cast<std::byte*>(XML_GetBuffer(parser_.get(), room));
    if (buffer == nullptr) return out_of_memory();
    TRY_VOID(read_exact(xml_, at, {buffer, size}));
    const bool is_last = at + size == xml_.size();
    const XML_Status status = XML_ParseBuffer(parser_.get(), static_cast<int>(size), is_last ? 1 : 0);
    if (problem_) return tl::unexpected(*problem_);
    if (status == XML_STATUS_OK) return {};
    const XML_Error error = XML_GetErrorCode(parser_.get());
    if (error == XML_ERROR_NO_MEMORY) return out_of_memory();
    return failure(Code::corrupt,
                   fmt::format("not valid XML: {}, line {}", XML_ErrorString(error), line_of(parser_.get())));
  }

  // Expat keeps every name of an element or an attribute once.
  Result<void> add_name(std::string_view name) {
    if (names_.contains(name)) return {};
    TRY_VOID(charges_.charge(Cost::value, 2));
    TRY_VOID(charges_.charge(Cost::kept, 2 * name.size()));
    names_.emplace(name);
    return {};
  }

  Result<void> begin(std::string_view name, const XmlAttributes& attributes) {
    if (++depth_ > kMaxDepth)
      return failure(Code::unsupported, fmt::format("elements nested deeper than {}", kMaxDepth));
    Result<void> added = add_name(name);
    attributes.for_each([&](std::string_view key, std::string_view) {
      if (added) added = add_name(key);
    });
    if (!added) return added;
    return events_.begin(name, attributes);
  }

  Result<void> end() {
    --depth_;
    return events_.end();
  }

  // Calls `work` unless an event has failed, and stops the parser if it fails.
  template <class Work>
  static void run(void* self, const Work& work) noexcept {
    XmlReader& reader = *static_cast<XmlReader*>(self);
    if (reader.problem_) return;
    const Result<void> result = exceptions_to_errors([&]() -> Result<void> { return work(reader); });
    if (result) return;
    reader.problem_ = result.error();
    XML_StopParser(reader.parser_.get(), XML_FALSE);
  }

  static void on_begin(void* self, const char* name, const char** attributes) {
    run(self, [&](XmlReader& reader) { return reader.begin(name, XmlAttributes(attributes)); });
  }
  static void on_end(void* self, const char* /*name*/) {
    run(self, [](XmlReader& reader) { return reader.end(); });
  }
  static void on_text(void* self, const char* text, int size) {
    run(self, [&](XmlReader& reader) { return reader.events_.text({text, static_cast<size_t>(size)}); });
  }
  static void on_entity(void* self, const char*, int, const char*, int, const char*, const char*, const char*,
                        const char*) {
    run(self, [](XmlReader&) { return declaration("entities"); });
  }
  static void on_default_attribute(void* self, const char*, const char*, const char*, const char*, int) {
    run(self, [](XmlReader&) { return declaration("attributes"); });
  }
  static Result<void> declaration(const char* what) {
    return failure(Code::unsupported, fmt::format("the XML declares {}", what));
  }

  const Source& xml_;
  Charges charges_;
  XmlEvents& events_;
  ParserPtr parser_;
  std::set<std::string, std::less<>> names_;  // no hash table: names may collide
  int depth_ = 0;
  uint64_t begin_of_last_ = 0;    // where the last tag begins that Expat has seen, which may be unfinished
  std::optional<Error> problem_;  // of an event
};

}  // namespace

Result<void> read_xml(const Source& xml, Budget& budget, XmlEvents& events) {
  return XmlReader(xml, budget, events).read();
}

}  // namespace weightfs::openvino
