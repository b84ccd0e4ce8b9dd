// weightfs cache: lists, verifies, pins and removes cached blobs.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "base/values/value.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/maintenance.h"
#include "cli/console/outcome.h"
#include "cli/console/progress.h"
#include "cli/options/store_options.h"
#include "cli/verbs.h"
#include "report/text/map_of.h"
#include "report/text/table.h"
#include "report/text/time.h"
#include "report/text/words.h"

namespace weightfs {
namespace {

constexpr size_t kShortDigest = 12;

struct CacheArguments {
  std::vector<std::string> names;  // digests, their prefixes, models and URLs
  std::optional<uint64_t> size;
  bool all = false;
  bool force = false;
  bool long_form = false;
  bool json = false;
  bool bytes = false;
};

// Runs `work` on the cache of the user's environment.
Exit with_cache(const std::function<Result<Exit>(const CacheMaintenance&)>& work) {
  const auto directory = cache_directory();
  if (!directory) return report_error(directory.error());
  const auto done = work(CacheMaintenance(*directory));
  return done ? *done : report_error(done.error());
}

std::string state_of(const store::Item& item) {
  switch (item.kind) {
    case ItemKind::blob:
      return "complete";
    case ItemKind::part:
      return item.is_active ? "downloading" : "partial";
    case ItemKind::remote:
      return "ranges";
    case ItemKind::absent:
      return "absent";
  }
  return {};
}

// The names for users, the most useful first.
std::vector<std::string> names_of(const store::Item& item) {
  std::vector<std::string> names;
  for (const NameKind kind : {NameKind::member, NameKind::model, NameKind::url, NameKind::record})
    for (const Name& name : item.names)
      if (name.kind == kind && std::ranges::find(names, name.text) == names.end()) names.push_back(name.text);
  return names;
}

Value as_value(const store::Item& item) {
  Map out = map_of({{"digest", "sha256:" + item.digest.hex()},
                    {"size", item.size},
                    {"on_disk", item.on_disk},
                    {"reserved", item.reserved},
                    {"used", item.kind == ItemKind::absent ? Value() : Value(utc_time(item.last_used))},
                    {"pinned", item.pinned},
                    {"state", state_of(item)}});
  List names;
  for (const std::string& name : names_of(item)) names.emplace_back(name);
  out.append("names", std::move(names));
  return out;
}

enum class Detail { short_form, all };

// The first name, and how many more there are: a blob of many models has kilobytes of them.
Cell names_cell(const store::Item& item, Detail detail) {
  const std::vector<std::string> names = names_of(item);
  if (names.empty()) return {"-", ""};
  if (detail == Detail::all) return enumerated(names);
  return names.front() + (names.size() > 1 ? fmt::format(" (+{})", names.size() - 1) : "");
}

std::vector<Cell> as_row(const store::Item& item, Detail detail) {
  const std::string digest = item.digest.hex();
  const Cell used =
      item.kind == ItemKind::absent ? Cell("-") : Cell(local_time(item.last_used), utc_time(item.last_used));
  return {{detail == Detail::all ? digest : digest.substr(0, kShortDigest), digest},
          bytes_cell(item.size),
          used,
          {item.pinned ? "yes" : "-", item.pinned ? "yes" : "no"},
          state_of(item),
          names_cell(item, detail)};
}

// The digests of the items that were named by digests, their prefixes, models or URLs.
Result<std::vector<Digest>> digests_of(const store::Inventory& contents, const std::vector<std::string>& names) {
  std::vector<Digest> digests;
  for (const std::string& name : names) {
    if (is_digest_prefix(name)) {
      digests.push_back(TRY(resolve_digest_prefix(contents, name)));
      continue;
    }
    const std::vector<Digest> found = resolve_name(contents, absolute_source(name));
    if (found.empty())
      return failure(Code::not_found,
                     fmt::format("{}: no digest, model or URL of this name is in the cache", printable(name)));
    digests.insert(digests.end(), found.begin(), found.end());
  }
  std::ranges::sort(digests);
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  return digests;
}

// With --all, and if a digest was named.
bool shows_records(const CacheArguments& arguments) {
  return arguments.all || std::ranges::any_of(arguments.names, is_digest_prefix);
}

// The items to list: those that were named, or all, of records only with --all.
Result<std::vector<store::Item>> listed(const store::Inventory& contents, const CacheArguments& arguments) {
  const std::vector<Digest> named = TRY(digests_of(contents, arguments.names));
  std::vector<store::Item> items;
  for (const store::Item& item : contents.items) {
    const bool is_named = named.empty() || std::ranges::binary_search(named, item.digest);
    if (is_named && (shows_records(arguments) || !is_record(item))) items.push_back(item);
  }
  return items;
}

Result<Exit> list_cache(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const store::Inventory contents = TRY(cache.inventory());
  const std::vector<store::Item> items = TRY(listed(contents, arguments));
  if (arguments.json) {
    List all;
    for (const store::Item& item : items) all.push_back(as_value(item));
    std::fputs(to_json(std::move(all)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{"digest"}, {"size", Align::right}, {"last used"}, {"pinned"}, {"state"}, {"used by"}});
  for (const store::Item& item : items) table.add(as_row(item, arguments.long_form ? Detail::all : Detail::short_form));
  if (table.empty() && TableStyle::for_stdout().form == TableStyle::aligned)
    std::printf(contents.items.empty() ? "the cache is empty\n"
                                       : "only records of weightfs are cached; --all lists them\n");
  else
    table.print();
  return Exit::ok;
}

Map as_value(const Usage& usage) {
  return map_of({{"blobs", usage.blobs},
                 {"blob_bytes", usage.blob_bytes},
                 {"records", usage.records},
                 {"record_bytes", usage.record_bytes},
                 {"pinned", usage.pinned},
                 {"pinned_bytes", usage.pinned_bytes},
                 {"partial", usage.partial},
                 {"partial_bytes", usage.partial_bytes},
                 {"ranges", usage.remotes},
                 {"ranges_bytes", usage.remote_bytes},
                 {"reserved_bytes", usage.reserved_bytes},
                 {"all_bytes", usage.all_bytes}});
}

Result<Exit> sum_up(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const Usage usage = usage_of(TRY(cache.inventory()));
  if (arguments.json) {
    std::fputs(to_json(as_value(usage)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{"content"}, {"count", Align::right}, {"size", Align::right}});
  const auto add = [&](const Cell& what, const std::string& count, uint64_t bytes) {
    table.add({what, count, arguments.bytes ? Cell(std::to_string(bytes)) : bytes_cell(bytes)});
  };
  add("blobs", std::to_string(usage.blobs), usage.blob_bytes);
  if (usage.records > 0) add("records", std::to_string(usage.records), usage.record_bytes);
  add("partial", std::to_string(usage.partial), usage.partial_bytes);
  add("ranges", std::to_string(usage.remotes), usage.remote_bytes);
  if (usage.reserved_bytes > 0) add("reserved", "", usage.reserved_bytes);
  if (usage.pinned > 0) add({"  pinned", "pinned"}, std::to_string(usage.pinned), usage.pinned_bytes);
  add({"all", "all"}, std::to_string(usage.blobs + usage.records + usage.partial + usage.remotes), usage.all_bytes);
  table.print();
  return Exit::ok;
}

// "3 of 4 blobs, 1.2 GiB, match their digests"
void print_compared(const VerifyResult::Count& count, const std::string& one, const std::string& many,
                    const std::string& what) {
  if (count.all == 0) return;
  const std::string line =
      fmt::format("{} of {}, {}, {}\n", count.valid, counted(count.all, one, many), human_size(count.bytes),
                  count.all == 1 ? "matches its " + what : fmt::format("match their {}s", what));
  std::fputs(line.c_str(), stdout);
}

Result<Exit> verify_cache(const CacheMaintenance& cache) {
  ProgressBar bar;
  const VerifyResult checked = TRY(cache.verify([&](const Digest& digest, uint64_t bytes, uint64_t total) {
    bar.show(bytes, total, digest.hex().substr(0, kShortDigest));
  }));
  bar.clear();
  for (const std::string& line : checked.mismatched) report_error({Code::mismatch, line});
  for (const Error& error : checked.unreadable) report_error(error);
  print_compared(checked.blobs, "blob", "blobs", "digest");
  print_compared(checked.decoded, "decoded copy", "decoded copies", "digest");
  print_compared(checked.records, "record", "records", "digest");
  const std::string of_files = fmt::format(" of {}", counted(checked.ranged_files, "partial file", "partial files"));
  print_compared(checked.blocks, "block" + of_files, "blocks" + of_files, "checksum");
  if (checked.blobs.all + checked.decoded.all + checked.records.all + checked.blocks.all == 0)
    std::printf("the cache is empty\n");
  if (!checked.mismatched.empty()) return Exit::mismatch;
  return checked.unreadable.empty() ? Exit::ok : exit_of(checked.unreadable.front().code);
}

// One line about the removed files.
void print_removed(const GcResult& removed) {
  const auto part = [](uint64_t count, const char* one, const char* many) {
    return count == 0 ? "" : counted(count, one, many);
  };
  const std::string what = enumerated({part(removed.blobs, "blob", "blobs"), part(removed.records, "record", "records"),
                                       part(removed.partial, "partial download", "partial downloads"),
                                       part(removed.remotes, "file read by ranges", "files read by ranges"),
                                       part(removed.leftovers, "stale file", "stale files")},
                                      " and ");
  if (what.empty()) {
    std::printf("nothing to remove\n");
  } else {
    std::printf("removed %s, %s\n", what.c_str(), human_size(removed.bytes).c_str());
  }
}

Result<Exit> collect(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const GcResult removed = TRY(cache.collect(arguments.size));
  print_removed(removed);
  for (const std::string& line : removed.not_removed) log_to_stderr(line);
  return Exit::ok;
}

// Fails if a named blob was not removed. With --all, pinned blobs are kept without an error.
Result<Exit> remove(const CacheMaintenance& cache, const CacheArguments& arguments) {
  if (!arguments.all && arguments.names.empty())
    return report_error({Code::io, "cache rm: missing DIGEST, NAME or --all (see weightfs cache rm --help)"},
                        Exit::usage);
  const PinnedBlobs pinned = arguments.force ? PinnedBlobs::remove : PinnedBlobs::keep;
  const store::Inventory contents = TRY(cache.inventory());
  const std::vector<Digest> digests = TRY(digests_of(contents, arguments.names));
  const GcResult removed = TRY(arguments.all ? cache.remove_all(pinned) : cache.remove(digests, pinned));
  print_removed(removed);
  for (const std::string& line : removed.not_removed) log_to_stderr(line + "; not removed");
  return arguments.all || removed.not_removed.empty() ? Exit::ok : Exit::io;
}

// Passes each named item to `change`, and prints which of the two it returned.
Result<Exit> change_pins(const CacheMaintenance& cache, const CacheArguments& arguments,
                         Result<bool> (CacheMaintenance::*change)(const Digest&) const, const char* changed,
                         const char* unchanged) {
  const store::Inventory contents = TRY(cache.inventory());
  std::map<Digest, const store::Item*> items;
  for (const store::Item& item : contents.items) items.emplace(item.digest, &item);
  Outcome outcome;
  for (const Digest& digest : TRY(digests_of(contents, arguments.names))) {
    const store::Item* const item = items.at(digest);
    const bool is_remote = item->kind == ItemKind::remote && !item->names.empty();
    const std::string label = is_remote ? names_of(*item).back() : digest.hex();
    const auto done = (cache.*change)(digest);
    if (!done)
      outcome.fail(done.error());
    else if (shows_records(arguments) || !is_record(*item))
      std::printf("%s: %s\n", label.c_str(), *done ? changed : unchanged);
  }
  return outcome.status();
}

Result<Exit> pin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  return change_pins(cache, arguments, &CacheMaintenance::pin, "pinned", "already pinned");
}

Result<Exit> unpin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  return change_pins(cache, arguments, &CacheMaintenance::unpin, "no longer pinned", "was not pinned");
}

Exit print_path() {
  const auto directory = cache_directory();
  if (!directory) return report_error(directory.error());
  std::printf("%s\n", directory->c_str());
  return Exit::ok;
}

using Work = Result<Exit> (*)(const CacheMaintenance&, const CacheArguments&);

// A command of `weightfs cache`.
Command command(const char* name, const char* help, const std::shared_ptr<CacheArguments>& given, Work work) {
  Command command{name, help};
  command.run = [=] { return with_cache([=](const CacheMaintenance& cache) { return work(cache, *given); }); };
  return command;
}

Argument names_argument(CacheArguments& given, Argument::Count count) {
  return arguments("DIGEST|NAME", "digest of a blob, or its first 6 or more hex digits; a model or URL that uses it",
                   given.names, count);
}

std::vector<Command> cache_commands() {
  const auto given = std::make_shared<CacheArguments>();
  Command path{"path", "print the cache's directory"};
  path.run = print_path;

  Command ls = command("ls", "list blobs, partial downloads, and ranges of files on servers", given, list_cache);
  ls.arguments = {names_argument(*given, Argument::Count::any)};
  ls.groups = {{"Options",
                {flag("all", "also list records of weightfs, such as listings of servers", given->all),
                 flag('l', "long", "print complete digests, and all models and URLs that use a blob", given->long_form),
                 flag("json", "print a JSON array; sizes in bytes", given->json)}}};

  Command du = command("du", "print the disk usage of the cache", given, sum_up);
  du.groups = {{"Options",
                {flag('b', "bytes", "print sizes in bytes", given->bytes),
                 flag("json", "print a JSON object; sizes in bytes", given->json)}}};

  Command verify = command("verify", "compare blobs and ranges with their checksums; remove those that differ", given,
                           [](const CacheMaintenance& each, const CacheArguments&) { return verify_cache(each); });

  Command gc = command("gc", "remove abandoned partial downloads and other stale files", given, collect);
  gc.groups = {
      {"Options",
       {size("size", "also evict least recently used blobs until the cache has this size, such as 20G", given->size)}}};

  Command rm = command("rm", "remove blobs and ranges; reads in progress continue", given, remove);
  rm.arguments = {names_argument(*given, Argument::Count::any)};
  rm.groups = {{"Options",
                {flag("all", "remove all that is not pinned", given->all),
                 flag("force", "also remove what is pinned", given->force)}}};
  rm.run = [given, run = rm.run] {
    if (!given->all || given->names.empty()) return run();
    return report_error({Code::io, "--all and DIGEST or NAME exclude each other (see weightfs cache rm --help)"},
                        Exit::usage);
  };

  Command pin_command = command("pin", "protect these blobs and ranges from eviction and removal", given, pin);
  pin_command.arguments = {names_argument(*given, Argument::Count::some)};

  Command unpin_command = command("unpin", "allow these blobs and ranges to be evicted", given, unpin);
  unpin_command.arguments = {names_argument(*given, Argument::Count::some)};
  return {path, ls, du, verify, gc, rm, pin_command, unpin_command};
}

}  // namespace

Command cache_command() {
  Command cache{"cache", "inspect and clean the cache"};
  cache.commands = cache_commands();
  return cache;
}

}  // namespace weightfs
