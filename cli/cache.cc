// weightfs cache: lists, verifies, pins and removes cached blobs.
#include <fmt/core.h>

#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "base/values/value.h"
#include "cache/blob_store.h"
#include "cache/cache_directory.h"
#include "cache/maintenance.h"
#include "cli/console/progress.h"
#include "cli/console/table.h"
#include "cli/console/time.h"
#include "cli/verbs.h"

namespace weightfs {
namespace {

constexpr size_t kShortDigest = 12;

struct CacheArguments {
  std::vector<std::string> digests;
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

std::string counted(uint64_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Joins the non-empty texts: "a, b and c".
std::string enumerated(std::vector<std::string> things) {
  std::erase(things, "");
  std::string out;
  for (size_t i = 0; i < things.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == things.size() ? " and " : ", ", things[i]);
  return out;
}

std::string state_of(const store::Item& item) {
  switch (item.kind) {
    case ItemKind::blob:
      return "complete";
    case ItemKind::part:
      return item.is_active ? "downloading" : "partial";
    case ItemKind::remote:
      return "ranges of " + printable(item.source);
    case ItemKind::absent:
      return "absent";
  }
  return {};
}

Value as_value(const store::Item& item) {
  Map out;
  out.append("digest", "sha256:" + item.digest.hex());
  out.append("size", item.size);
  out.append("on_disk", item.on_disk);
  out.append("used", item.kind == ItemKind::absent ? Value() : Value(utc_time(item.last_used)));
  out.append("pinned", item.pinned);
  out.append("state", state_of(item));
  return out;
}

enum class Digits { few, all };

std::vector<Cell> as_row(const store::Item& item, Digits digits) {
  const std::string digest = item.digest.hex();
  const Cell used =
      item.kind == ItemKind::absent ? Cell("-") : Cell(local_time(item.last_used), utc_time(item.last_used));
  return {{digits == Digits::all ? digest : digest.substr(0, kShortDigest), digest},
          bytes_cell(item.size),
          used,
          {item.pinned ? "yes" : "-", item.pinned ? "yes" : "no"},
          state_of(item)};
}

Result<Exit> list(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const store::Inventory contents = TRY(cache.inventory());
  if (arguments.json) {
    List all;
    for (const store::Item& item : contents.items) all.push_back(as_value(item));
    std::fputs(to_json(std::move(all)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{"digest"}, {"size", Align::right}, {"last used"}, {"pinned"}, {"state"}});
  for (const store::Item& item : contents.items)
    table.add(as_row(item, arguments.long_form ? Digits::all : Digits::few));
  if (table.empty() && TableStyle::for_stdout().form == TableStyle::aligned)
    std::printf("the cache is empty\n");
  else
    table.print();
  return Exit::ok;
}

Value as_value(const Usage& usage) {
  Map out;
  out.append("blobs", usage.blobs);
  out.append("blob_bytes", usage.blob_bytes);
  out.append("pinned", usage.pinned);
  out.append("pinned_bytes", usage.pinned_bytes);
  out.append("partial", usage.partial);
  out.append("partial_bytes", usage.partial_bytes);
  out.append("ranges", usage.remotes);
  out.append("ranges_bytes", usage.remote_bytes);
  out.append("all_bytes", usage.all_bytes);
  return out;
}

Result<Exit> sum_up(const CacheMaintenance& cache, const CacheArguments& arguments) {
  const Usage usage = usage_of(TRY(cache.inventory()));
  if (arguments.json) {
    std::fputs(to_json(as_value(usage)).c_str(), stdout);
    return Exit::ok;
  }
  Table table({{""}, {"count", Align::right}, {"size", Align::right}});
  const auto add = [&](const Cell& what, const std::string& count, uint64_t bytes) {
    table.add({what, count, arguments.bytes ? Cell(std::to_string(bytes)) : bytes_cell(bytes)});
  };
  add("blobs", std::to_string(usage.blobs), usage.blob_bytes);
  if (usage.pinned > 0) add({"  pinned", "pinned"}, std::to_string(usage.pinned), usage.pinned_bytes);
  add("partial", std::to_string(usage.partial), usage.partial_bytes);
  add("ranges", std::to_string(usage.remotes), usage.remote_bytes);
  add({"all", "all"}, std::to_string(usage.blobs + usage.partial + usage.remotes), usage.all_bytes);
  table.print();
  return Exit::ok;
}

Result<Exit> verify_cache(const CacheMaintenance& cache) {
  ProgressBar bar;
  const VerifyResult checked = TRY(cache.verify([&](const Digest& digest, uint64_t bytes, uint64_t total) {
    bar.show(bytes, total, digest.hex().substr(0, kShortDigest));
  }));
  bar.clear();
  for (const std::string& line : checked.mismatched) report_error({Code::mismatch, line});
  for (const Error& error : checked.unreadable) report_error(error);
  const uint64_t all = checked.valid + checked.mismatched.size() + checked.unreadable.size();
  if (all == 0) {
    std::printf("the cache is empty\n");
  } else {
    std::printf("%llu of %s, %s, %s\n", static_cast<unsigned long long>(checked.valid),
                counted(all, "blob", "blobs").c_str(), human_size(checked.bytes).c_str(),
                all == 1 ? "matches its digest" : "match their digests");
  }
  if (!checked.mismatched.empty()) return Exit::mismatch;
  return checked.unreadable.empty() ? Exit::ok : exit_of(checked.unreadable.front().code);
}

// One line about the removed files.
void print_removed(const GcResult& removed) {
  const auto part = [](uint64_t count, const char* one, const char* many) {
    return count == 0 ? "" : counted(count, one, many);
  };
  const std::string what =
      enumerated({part(removed.blobs, "blob", "blobs"), part(removed.partial, "partial download", "partial downloads"),
                  part(removed.remotes, "file read by ranges", "files read by ranges"),
                  part(removed.leftovers, "stale file", "stale files")});
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

Result<std::vector<Digest>> digests_of(const CacheMaintenance& cache, const std::vector<std::string>& texts) {
  const store::Inventory contents = TRY(cache.inventory());
  std::vector<Digest> digests;
  for (const std::string& text : texts) digests.push_back(TRY(resolve_digest_prefix(contents, text)));
  return digests;
}

// Fails if a named blob was not removed. With --all, pinned blobs are kept without an error.
Result<Exit> remove(const CacheMaintenance& cache, const CacheArguments& arguments) {
  if (!arguments.all && arguments.digests.empty()) {
    report_error({Code::io, "cache rm: missing DIGEST or --all (see weightfs cache rm --help)"});
    return Exit::usage;
  }
  const PinnedBlobs pinned = arguments.force ? PinnedBlobs::remove : PinnedBlobs::keep;
  const std::vector<Digest> digests = TRY(digests_of(cache, arguments.digests));
  const GcResult removed = TRY(arguments.all ? cache.remove_all(pinned) : cache.remove(digests, pinned));
  print_removed(removed);
  for (const std::string& line : removed.not_removed) log_to_stderr(line + "; not removed");
  return arguments.all || removed.not_removed.empty() ? Exit::ok : Exit::io;
}

Result<Exit> pin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  for (const Digest& digest : TRY(digests_of(cache, arguments.digests)))
    std::printf("%s: %s\n", digest.hex().c_str(), TRY(cache.pin(digest)) ? "pinned" : "already pinned");
  return Exit::ok;
}

Result<Exit> unpin(const CacheMaintenance& cache, const CacheArguments& arguments) {
  for (const Digest& digest : TRY(digests_of(cache, arguments.digests)))
    std::printf("%s: %s\n", digest.hex().c_str(), TRY(cache.unpin(digest)) ? "no longer pinned" : "was not pinned");
  return Exit::ok;
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

Argument digests_argument(CacheArguments& given, Argument::Count count) {
  const auto take = [&given](const std::string& text) -> Result<void> {
    if (!is_digest_prefix(text))
      return failure(Code::unsupported, fmt::format("{} is not a digest; use 6 to 64 hex digits", quoted(text)));
    given.digests.push_back(text);
    return {};
  };
  return {"DIGEST", "digest of a blob, or its first 6 or more hex digits", count, take};
}

Option size_option(CacheArguments& given) {
  const auto take = [&given](const std::string& text) -> Result<void> {
    given.size = parse_size(text);
    if (given.size) return {};
    return failure(Code::unsupported, fmt::format("{} is not a size; use a number such as 20G", quoted(text)));
  };
  return {"size", "SIZE", "also evict least recently used blobs until the cache has this size, such as 20G", take};
}

std::vector<Command> cache_commands() {
  const auto given = std::make_shared<CacheArguments>();
  Command path{"path", "print the cache's directory"};
  path.run = print_path;

  Command ls = command("ls", "list blobs, partial downloads, and ranges of files on servers", given, list);
  ls.groups = {{"Options",
                {flag('l', "", "print complete digests", given->long_form),
                 flag("json", "print a JSON array; sizes in bytes", given->json)}}};

  Command du = command("du", "print the disk usage of the cache", given, sum_up);
  du.groups = {{"Options",
                {flag('b', "bytes", "print sizes in bytes", given->bytes),
                 flag("json", "print a JSON object; sizes in bytes", given->json)}}};

  Command verify = command("verify", "verify every blob and remove those that do not match their digest", given,
                           [](const CacheMaintenance& each, const CacheArguments&) { return verify_cache(each); });

  Command gc = command("gc", "remove abandoned partial downloads and other stale files", given, collect);
  gc.groups = {{"Options", {size_option(*given)}}};

  Command rm = command("rm", "remove blobs; reads in progress continue", given, remove);
  rm.arguments = {digests_argument(*given, Argument::Count::any)};
  rm.groups = {{"Options",
                {flag("all", "remove all blobs that are not pinned", given->all),
                 flag("force", "also remove pinned blobs", given->force)}}};
  rm.run = [given, run = rm.run] {
    if (!given->all || given->digests.empty()) return run();
    log_to_stderr("--all and DIGEST exclude each other (see weightfs cache rm --help)");
    return Exit::usage;
  };

  Command pin_command = command("pin", "protect these blobs from eviction and removal", given, pin);
  pin_command.arguments = {digests_argument(*given, Argument::Count::some)};

  Command unpin_command = command("unpin", "allow these blobs to be evicted", given, unpin);
  unpin_command.arguments = {digests_argument(*given, Argument::Count::some)};
  return {path, ls, du, verify, gc, rm, pin_command, unpin_command};
}

}  // namespace

Command cache_command() {
  Command cache{"cache", "inspect and clean the cache"};
  cache.commands = cache_commands();
  return cache;
}

}  // namespace weightfs
