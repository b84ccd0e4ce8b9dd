// The XML of responses, as clients of S3 expect it (docs.aws.amazon.com, "Amazon S3 API Reference").
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "base/time.h"
#include "fs/http/protocol/message.h"

namespace weightfs::objects {

/// Whether XML 1.0 can have the text: UTF-8 without control characters but tab and line breaks, without U+FFFE and
/// U+FFFF.
bool is_xml_text(std::string_view text);

/// The text between tags. What XML cannot have is U+FFFD.
std::string xml_text(std::string_view text);

/// `<name>text</name>`; the text is escaped.
std::string element(std::string_view name, std::string_view text);

/// A document with this element as its root, in the namespace of S3; `content` is XML.
std::string document(std::string_view root, std::string_view content);

/// A time as `2026-01-02T03:04:05.000Z`.
std::string xml_time(std::time_t time);

/// Adds the fields that each response has: x-amz-request-id, and those that keep browsers from running what a model
/// has.
void add_common_fields(httpd::Response& response);

/// The response to a request that is refused: its status, and the code of the error, such as NoSuchKey.
httpd::Response error_response(int status, std::string_view code, std::string_view message, std::string_view resource);

}  // namespace weightfs::objects
