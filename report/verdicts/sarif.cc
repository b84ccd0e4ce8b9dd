#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/values/value.h"
#include "fs/http/protocol/target.h"
#include "report/inspect/safety.h"
#include "report/text/map_of.h"
#include "report/text/words.h"
#include "report/verdicts/documents.h"

namespace weightfs::verdicts {
namespace {

struct Rule {
  std::string_view id;
  std::string_view name;
  std::string_view text;
};

// The rule of a problem is that of its code; the last one is of all other codes.
constexpr auto kRules = std::to_array<Rule>({
    {"mismatch", "ChecksumMismatch", "The bytes of a file differ from its checksum, or a file is not in the list."},
    {"damaged", "DamagedContainer", "A container is cut or breaks the rules of its format."},
    {"not-found", "MissingFile", "A file of a model, or a model, is missing."},
    {kRunsCode, "RunsCode", "A file may run code when a program loads it, or names functions that are not known."},
    {"unreadable", "NotCompared", "A model or a file could not be compared: not a model, refused or unavailable."},
});

std::string_view rule_of(const Problem& problem) {
  const auto* const found = std::ranges::find(kRules, problem.code, &Rule::id);
  return found == kRules.end() ? kRules.back().id : found->id;
}

// A URI reference: names with a scheme are URIs already, but for characters that a URI does not have.
std::string uri_of(std::string_view name) {
  const bool has_scheme = name.find("://") != name.npos;
  std::string uri = has_scheme              ? std::string(name.substr(0, name.find("://") + 3))
                    : name.starts_with('/') ? "file://"
                                            : "";
  name.remove_prefix(has_scheme ? uri.size() : 0);
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    uri += httpd::url_segment(name.substr(begin, end - begin));
    if (end < name.size()) uri += '/';
    begin = end + 1;
  }
  return uri;
}

Map text_of(std::string_view text) { return map_of({{"text", text}}); }

Map location_of(std::string_view path) {
  Map physical;
  physical.append("artifactLocation", map_of({{"uri", uri_of(path)}}));
  Map location;
  location.append("physicalLocation", std::move(physical));
  return location;
}

enum class Level { error, warning };

Map result_at(Map location, const Problem& problem, const std::string& message, Level level = Level::error) {
  Map result = map_of({{"ruleId", rule_of(problem)}, {"level", level == Level::error ? "error" : "warning"}});
  result.append("message", text_of(message));
  result.append("locations", List{Value(std::move(location))});
  return result;
}

Map result_of(const Verdict& verdict, const Problem& problem) {
  const bool names_file = verdict.is_directory && !problem.file.empty();
  Map location = location_of(names_file ? join_path(verdict.name, problem.file) : verdict.name);
  // A member of an archive has no URI.
  if (!problem.file.empty() && !names_file) {
    Map member = map_of({{"fullyQualifiedName", join_path(verdict.name, problem.file)}, {"kind", "member"}});
    location.append("logicalLocations", List{Value(std::move(member))});
  }
  return result_at(std::move(location), problem, fmt::format("{}: {}", verdict.name, problem.message));
}

using Names = std::set<std::string_view>;

// Models in which --safe found what may run code, also in models inside them.
Names unsafe_names(const std::vector<Verdict>& verdicts) {
  Names names;
  for (const Verdict& verdict : verdicts)
    if (std::ranges::count(verdict.problems, kRunsCode, &Problem::code) > 0) names.insert(verdict.name);
  return names;
}

// Whether a model, or one that it is in, is among them.
bool is_in(std::string_view name, const Names& names) {
  constexpr std::string_view kInside = "/nested/";
  for (size_t end = name.size(); end != name.npos; end = end == 0 ? name.npos : name.rfind(kInside, end - 1))
    if (names.contains(name.substr(0, end))) return true;
  return false;
}

// What --safe would make a failure, and so an error.
std::optional<Map> warning_about_code(const Verdict& verdict, const Names& unsafe) {
  if (verdict.code.empty() || is_in(verdict.name, unsafe)) return std::nullopt;
  const Problem problem{kRunsCode, fmt::format("runs code: {}", reasons_of(verdict.code))};
  return result_at(location_of(verdict.name), problem, fmt::format("{}: {}", verdict.name, problem.message),
                   Level::warning);
}

// The message begins with the path of the file.
Map result_beside(const Problem& problem) {
  const std::string& message = problem.message;
  return result_at(location_of(std::string_view(message).substr(0, message.find(": "))), problem, message);
}

Map driver(std::string_view version) {
  List rules;
  for (const Rule& rule : kRules) {
    Map out = map_of({{"id", rule.id}, {"name", rule.name}});
    out.append("shortDescription", text_of(rule.text));
    rules.emplace_back(std::move(out));
  }
  Map out = map_of({{"name", "weightfs"}, {"version", version}, {"semanticVersion", version}});
  out.append("rules", std::move(rules));
  return out;
}

}  // namespace

std::string to_sarif(const Report& report, std::string_view version) {
  List results;
  const Names unsafe = unsafe_names(report.verdicts);
  for (const Verdict& verdict : report.verdicts) {
    for (const Problem& problem : verdict.problems) results.emplace_back(result_of(verdict, problem));
    if (auto warning = warning_about_code(verdict, unsafe)) results.emplace_back(std::move(*warning));
  }
  for (const Problem& problem : report.beside) results.emplace_back(result_beside(problem));
  Map tool;
  tool.append("driver", driver(version));
  Map run;
  run.append("tool", std::move(tool));
  run.append("columnKind", "utf16CodeUnits");
  run.append("results", std::move(results));
  Map out = map_of({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}});
  out.append("runs", List{Value(std::move(run))});
  return weightfs::to_json(std::move(out));
}

}  // namespace weightfs::verdicts
