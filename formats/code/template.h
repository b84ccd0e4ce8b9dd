// Templates of Jinja, such as chat templates: which of them reach for attributes or globals of Python, as a template
// that runs programs does (CVE-2024-34359). Templates of models use the keys of messages only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/code/list.h"
#include "formats/model.h"

namespace weightfs::code {

/// What a template reaches for, each once, at most four: ".__class__", "|attr". Empty for a harmless template.
std::vector<std::string> reached_by(std::string_view jinja);

/// Adds a template that reaches for something.
void add_template(std::string_view jinja, std::string_view file, CodeList& out);

/// Adds the chat templates in the keys of a GGUF.
void add_templates(const Model& model, std::string_view file, CodeList& out);

}  // namespace weightfs::code
