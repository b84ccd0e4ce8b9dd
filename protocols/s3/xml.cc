#include "protocols/s3/xml.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/text.h"
#include "cache/download/shown_reason.h"
#include "cache/url.h"
#include "protocols/s3/bucket_url.h"

namespace weightfs::s3 {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxNameSize = 64;
constexpr size_t kMaxTag = 500;
constexpr size_t kMaxEntries = 10'000;  // of a page; 1000 are requested
constexpr size_t kMaxKey = 1024;        // bytes

tl::unexpected<Error> invalid_xml(std::string_view what) {
  return failure(Code::corrupt, fmt::format("not valid XML: {}", what));
}

// `code` as UTF-8; nothing if XML does not allow the character.
std::optional<std::string> utf8_of(uint32_t code) {
  const bool is_allowed = code >= 0x20 || code == '\t' || code == '\n' || code == '\r';
  if (!is_allowed || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return std::nullopt;
  const auto byte = [](uint32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
  if (code < 0x80) return std::string{byte(code)};
  if (code < 0x800) return std::string{byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code < 0x10000)
    return std::string{byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  return std::string{byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
                     byte(0x80 | (code & 0x3F))};
}

// The text of an entity or character reference, without `&` and `;`.
std::optional<std::string> referenced(std::string_view name) {
  if (name == "lt") return "<";
  if (name == "gt") return ">";
  if (name == "amp") return "&";
  if (name == "quot") return "\"";
  if (name == "apos") return "'";
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  const auto code = parse_number<uint32_t>(name, is_hex ? 16 : 10);
  return code ? utf8_of(*code) : std::nullopt;
}

class XmlScanner {
 public:
  using OnEnd = std::function<void(std::string_view path, const std::string& text)>;

  using OnStart = std::function<void(std::string_view path, std::string_view attributes)>;

  XmlScanner(std::string_view text, const OnEnd& on_end, const OnStart& on_start)
      : left_(text), on_end_(on_end), on_start_(on_start) {}

  Result<void> run() {
    if (left_.starts_with("\xEF\xBB\xBF")) left_.remove_prefix(3);
    while (!left_.empty()) {
      if (left_.starts_with('<')) {
        TRY_VOID(markup());
      } else {
        TRY_VOID(characters());
      }
    }
    if (!open_.empty()) return invalid_xml("ends within an element");
    return has_root_ ? Result<void>() : invalid_xml("no element");
  }

 private:
  struct Element {
    size_t path_size;  // of its parent
    std::string text = {};
  };

  Result<void> characters() {
    const std::string_view run = left_.substr(0, left_.find_first_of("<&"));
    if (!run.empty()) {
      left_.remove_prefix(run.size());
      return add(run);
    }
    constexpr size_t kMaxReference = 12;
    const size_t end = left_.substr(0, kMaxReference).find(';');
    const auto text = end == left_.npos ? std::nullopt : referenced(left_.substr(1, end - 1));
    if (!text) return invalid_xml("a reference to an unknown entity");
    left_.remove_prefix(end + 1);
    return add(*text);
  }

  Result<void> add(std::string_view text) {
    if (!open_.empty()) {
      open_.back().text += text;
    } else if (text.find_first_not_of(" \t\r\n") != text.npos) {
      return invalid_xml("text outside of an element");
    }
    return {};
  }

  Result<void> markup() {
    if (left_.starts_with("<?")) return skip("?>");
    if (left_.starts_with("<!--")) return skip("-->");
    if (left_.starts_with("<!")) return invalid_xml("a declaration");
    if (left_.starts_with("</")) return end_tag();
    return start_tag();
  }

  Result<void> skip(std::string_view end) {
    const size_t at = left_.find(end, 2);
    if (at == left_.npos) return invalid_xml("ends within markup");
    left_.remove_prefix(at + end.size());
    return {};
  }

  // Removes a name, and returns it without its prefix.
  Result<std::string_view> name() {
    std::string_view found = left_.substr(0, left_.find_first_of(" \t\r\n/><=\"'&"));
    left_.remove_prefix(found.size());
    if (const size_t colon = found.find(':'); colon != found.npos) found.remove_prefix(colon + 1);
    if (found.empty() || found.size() > kMaxNameSize) return invalid_xml("a tag without a valid name");
    return found;
  }

  Result<void> start_tag() {
    left_.remove_prefix(1);
    const std::string_view found = TRY(name());
    if (open_.empty() && has_root_) return invalid_xml("two root elements");
    if (open_.size() == kMaxDepth) return invalid_xml("nested too deep");
    has_root_ = true;
    open_.push_back({path_.size()});
    if (!path_.empty()) path_ += '/';
    path_ += found;
    char quote = 0;
    for (size_t i = 0; i < left_.size(); ++i) {
      const char c = left_[i];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '<') {
        break;
      } else if (c == '>') {
        const bool is_empty = i > 0 && left_[i - 1] == '/';
        if (on_start_ != nullptr) on_start_(path_, left_.substr(0, i));
        left_.remove_prefix(i + 1);
        if (is_empty) end_element();
        return {};
      }
    }
    return invalid_xml("a tag without an end");
  }

  Result<void> end_tag() {
    left_.remove_prefix(2);
    const std::string_view found = TRY(name());
    left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
    if (open_.empty() || !left_.starts_with('>')) return invalid_xml("an end tag without a start tag");
    const std::string_view path = path_;
    const size_t parent = open_.back().path_size;
    if (path.substr(parent == 0 ? 0 : parent + 1) != found) return invalid_xml("an end tag with another name");
    left_.remove_prefix(1);
    end_element();
    return {};
  }

  void end_element() {
    on_end_(path_, open_.back().text);
    path_.resize(open_.back().path_size);
    open_.pop_back();
  }

  std::string_view left_;
  const OnEnd& on_end_;
  const OnStart& on_start_;
  std::string path_;
  std::vector<Element> open_;
  bool has_root_ = false;
};

// "2009-10-12T17:50:30.000Z"; 0 if it is not a date.
Time iso_time(const std::string& text) {
  std::tm date{};
  const char* const end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &date);
  if (end == nullptr || (*end != '.' && *end != 'Z') || date.tm_year < 70 || date.tm_year > 300) return 0;
  return Time{::timegm(&date)} * 1'000'000'000;
}

// A strong tag that may be sent in a header, with its quotes; empty for others.
std::string etag_of(const std::string& text) {
  const bool is_plain = !text.empty() && text.size() <= kMaxTag && !text.starts_with("W/") && is_visible_ascii(text);
  if (!is_plain) return {};
  const bool is_quoted = text.size() > 2 && text.starts_with('"') && text.ends_with('"');
  if (std::ranges::count(text, '"') != (is_quoted ? 2 : 0)) return {};
  return is_quoted ? text : fmt::format("\"{}\"", text);
}

// An object as it is listed: its texts.
struct ListedTexts {
  std::string key;
  std::string size;
  std::string etag;
  std::string modified;
  std::string generation;
};

Result<Object> object_of(const ListedTexts& texts, bool is_encoded) {
  Object object;
  auto key = is_encoded ? key_decoded(texts.key) : texts.key;
  const auto size = parse_number<uint64_t>(texts.size);
  if (!key || key->empty() || !size || *size > uint64_t{INT64_MAX})
    return failure(Code::corrupt, fmt::format("invalid entry {} in the listing", quoted(texts.key)));
  if (key->size() > kMaxKey)
    return failure(Code::corrupt, fmt::format("a key of {} bytes in the listing, at most {}", key->size(), kMaxKey));
  object.key = std::move(*key);
  object.size = *size;
  object.etag = etag_of(texts.etag);
  object.modified = iso_time(texts.modified);
  if (is_generation(texts.generation)) object.generation = texts.generation;
  return object;
}

}  // namespace

Result<void> read_xml(std::string_view text, const XmlScanner::OnEnd& on_end, const XmlScanner::OnStart& on_start) {
  return XmlScanner(text, on_end, on_start).run();
}

std::optional<std::string> key_decoded(std::string text) {
  std::ranges::replace(text, '+', ' ');
  bool is_valid = true;
  std::string key = http::url_decoded(text, &is_valid);
  return is_valid ? std::optional(std::move(key)) : std::nullopt;
}

Result<ListingPage> parse_listing(std::string_view text) {
  ListingPage page;
  std::vector<ListedTexts> listed;
  ListedTexts current;
  size_t entries = 0;
  bool is_listing = false;
  bool is_encoded = false;
  TRY_VOID(read_xml(text, [&](std::string_view path, const std::string& content) {
    constexpr std::string_view kRoot = "ListBucketResult";
    constexpr std::string_view kObject = "/Contents";
    if (!path.starts_with(kRoot)) return;
    path.remove_prefix(kRoot.size());
    if (path.empty()) is_listing = true;
    if (path == "/IsTruncated") page.is_truncated = content == "true";
    if (path == "/NextContinuationToken") page.next = content;
    if (path == "/EncodingType") is_encoded = content == "url";
    if (path == "/Contents/Key") current.key = content;
    if (path == "/Contents/Size") current.size = content;
    if (path == "/Contents/ETag") current.etag = content;
    if (path == "/Contents/LastModified") current.modified = content;
    if (path == "/Contents/Generation") current.generation = content;
    if (path != kObject) return;
    if (++entries <= kMaxEntries) listed.push_back(std::exchange(current, {}));
  }));
  if (!is_listing) return failure(Code::corrupt, "not a listing of a bucket");
  if (entries > kMaxEntries)
    return failure(Code::corrupt, fmt::format("{} entries in a page of the listing, at most {}", entries, kMaxEntries));
  for (const ListedTexts& texts : listed) page.objects.push_back(TRY(object_of(texts, is_encoded)));
  return page;
}

ErrorBody parse_error(std::string_view text) {
  ErrorBody body;
  std::ignore = read_xml(text, [&](std::string_view path, const std::string& content) {
    if (path == "Error/Code") body.code = content;
    if (path == "Error/Message") body.message = content;
    if (path == "Error/Region") body.region = content;
  });
  return body;
}

std::string error_text(std::string_view body) {
  ErrorBody error = parse_error(body);
  if (error.message.ends_with('.')) error.message.pop_back();
  std::string text = error.code.empty() || error.message.empty() ? error.code + error.message
                                                                 : fmt::format("{}: {}", error.code, error.message);
  return download::shown_reason(text);
}

}  // namespace weightfs::s3
