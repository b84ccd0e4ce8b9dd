// HDF5 files with each kind of chunk index, filter, attribute and link.
#include "tests/builders/hdf5_builder.h"
#include "tests/fuzz/seeds.h"

namespace weightfs::test {
namespace {

using B = Hdf5Builder;

std::string with_dataset(B& b, uint64_t dataset) { return b.build(b.group({{"w", dataset}})); }

std::string with_chunks(B& b, Hdf5Message layout, const Hdf5Messages& more = {}) {
  return with_dataset(b, b.dataset(Hdf5Type::integer(1), {5}, std::move(layout), more));
}

void add_indexes(Seeds& seeds) {
  B single(3), implicit(3), fixed(3), pages(3), extensible(3), tree(3), nested;
  seeds["hdf5-single"] = with_chunks(single, B::chunked_by(le(1, 1), single.put("abcde"), {5}, 1));
  seeds["hdf5-implicit"] = with_chunks(implicit, B::chunked_by(le(2, 1), implicit.put("abcdef"), {2}, 1));
  const std::string array = le(3, 1) + le(10, 1);
  for (auto [b, name, bits] : {std::tuple{&fixed, "hdf5-fixed", 10}, std::tuple{&pages, "hdf5-pages", 1}}) {
    const std::string chunk = le(b->put("ab"), 8);
    seeds[name] = with_chunks(*b, B::chunked_by(array, b->fixed_array({chunk, chunk, chunk}, false, bits), {2}, 1));
  }
  const uint64_t many = extensible.extensible_array(std::vector<std::string>(20, le(extensible.put("a"), 8)), 1);
  const auto resizable = B::chunked_by(le(4, 1) + std::string(5, '\0'), many, {1}, 1);
  seeds["hdf5-extensible"] = with_dataset(
      extensible, extensible.object({B::dataspace({20}, {kNoAddress}), B::datatype(Hdf5Type::integer(1)), resizable}));
  const uint64_t records = tree.record_tree(10, {le(tree.put("ab"), 8) + le(0, 8), le(tree.put("cd"), 8) + le(1, 8)});
  seeds["hdf5-btree2"] = with_chunks(tree, B::chunked_by(le(5, 1) + std::string(6, '\0'), records, {2}, 1));
  const uint64_t leaf = nested.chunk_tree({{nested.put("ab"), 2, {0}}, {nested.put("cd"), 2, {2}}}, 1);
  seeds["hdf5-levels"] = with_chunks(nested, B::chunked(nested.chunk_tree({{leaf, 0, {0}}}, 1, 1), {2}, 1));
}

void add_filters(Seeds& seeds) {
  const auto add = [&](const char* name, const std::string& stored, uint16_t id, std::vector<uint32_t> values) {
    B b;
    const uint64_t tree = b.chunk_tree({{b.put(stored), stored.size(), {0}}}, 1);
    seeds[name] = with_chunks(b, B::chunked(tree, {5}, 1), {B::filters({{id, std::move(values)}})});
  };
  add("hdf5-deflate", zlib_stored("abcde"), 1, {6});
  add("hdf5-fletcher32", "abcde" + le(hdf5::fletcher32("abcde"), 4), 3, {});
  add("hdf5-lzf", std::string("\1ab\x20\1", 5), 32000, {4, 261, 5});
  std::vector<uint32_t> values(20);
  values[0] = 2;
  values[4] = 1;
  add("hdf5-scaleoffset", le(4, 4) + le(8, 1) + le(100, 8) + std::string(8, '\0') + "\x01\x23\x45", 6, values);
}

void add_types(Seeds& seeds) {
  B b;
  const std::vector<std::string> types = {
      Hdf5Type::f16(),
      Hdf5Type::f64(true),
      Hdf5Type::text(8, 1),
      Hdf5Type::opaque(8),
      Hdf5Type::reference(),
      Hdf5Type::array(Hdf5Type::integer(2), 2, 4),
      Hdf5Type::compound({{"r", Hdf5Type::f32()}, {"i", Hdf5Type::f32()}}, 4),
      Hdf5Type::enumeration({"FALSE", "TRUE"}),
  };
  B::Links links;
  for (const std::string& type : types)
    links.emplace_back(std::to_string(links.size()), b.dataset(type, {1}, b.contiguous("01234567")));
  seeds["hdf5-types"] = b.build(b.group(links));
}

void add_attributes(Seeds& seeds) {
  B b;
  const uint64_t heap = b.global_heap({"one", std::string(2000, '{')});
  const auto text = [&](const char* name, uint64_t size, uint32_t index) {
    return B::attribute(name, Hdf5Type::variable_text(), {}, B::variable(size, heap, index));
  };
  const uint64_t more = b.put(std::string("\x05\0\x08\0\0\0\0\0\2\2\0\0\0\0\0\0", 16));
  seeds["hdf5-attributes"] = b.build(b.group(
      {},
      {text("short", 3, 1), text("long", 2000, 2), B::text_attribute("model_config", "{\"class_name\": \"Lambda\"}"),
       B::attribute("list", Hdf5Type::f32(), {2, 2}, std::string(16, 'f')), B::continuation(more, 16)}));
}

void add_links(Seeds& seeds) {
  B b(3);
  const uint64_t w = b.dataset(Hdf5Type::integer(1), {1}, b.contiguous("w"));
  seeds["hdf5-links"] = b.build(b.group({{"a", w}, {"b", w}}, {B::soft_link("s", "/a"), B::soft_link("t", "nowhere"),
                                                               B::external_link("e", "other.h5", "/x")}));
}

}  // namespace

void add_hdf5(Seeds& seeds) {
  add_indexes(seeds);
  add_filters(seeds);
  add_types(seeds);
  add_attributes(seeds);
  add_links(seeds);
}

}  // namespace weightfs::test
