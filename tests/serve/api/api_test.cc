// The API of the page, without sockets: what each endpoint answers about a small model.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "fs/layout/layout.h"
#include "tests/builders/pickle_builder.h"
#include "tests/builders/safetensors_builder.h"
#include "tests/serve/api/client.h"
#include "tests/support/surroundings.h"

namespace weightfs::api_test {
namespace {

using namespace api;
using namespace api_client;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string floats(const std::vector<float>& numbers) {
  std::string out(numbers.size() * sizeof(float), '\0');
  std::memcpy(out.data(), numbers.data(), out.size());
  return out;
}

class ApiTest : public testing::Test {
 protected:
  static TreePtr tree() {
    std::vector<float> ramp(64);
    for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
    SafetensorsBuilder builder;
    for (const char* layer : {"0", "1", "2", "10"}) {
      builder.tensor("layers." + std::string(layer) + ".attn.weight", "F32", "8,8", floats(ramp));
      builder.tensor("layers." + std::string(layer) + ".norm.weight", "F32", "2", floats({1, 1}));
    }
    builder.tensor("output.weight", "F32", "4,2", floats({-1, 0, 1, 2, 3, 4, 5, NAN}));
    builder.tensor("output.bias", "F16", "2", std::string(4, '\0'));
    return lay_out(std::make_shared<Model>(read_model({"m.safetensors", in_memory(builder.build())}).value()), "m",
                   1'700'000'000'000'000'000);
  }

  httpd::Response ask(const std::string& target, std::vector<httpd::Field> fields = {}) {
    return client_.ask(target, std::move(fields));
  }
  std::string body(const std::string& target) { return client_.body(target); }
  Map json(const std::string& target) { return client_.json(target); }
  std::vector<std::string> names(const std::string& target, const char* list = "tensors", const char* key = "name") {
    return client_.names(target, list, key);
  }

  Client client_{tree()};
  Api& api_ = client_.api;
};

TEST_F(ApiTest, OtherPathsAreNotAnswered) {
  const httpd::Request asked = request("model");
  EXPECT_FALSE(api_.answer(asked, httpd::parse_target("/tensors/w").value(), {}).has_value());
  EXPECT_EQ(ask("nothing").status, 404);
  EXPECT_EQ(ask("model/more").status, 404);
}

TEST_F(ApiTest, ModelIsDescribed) {
  const Map model = json("model");
  EXPECT_EQ(text_in(model, "title"), "m.safetensors");
  EXPECT_EQ(text_in(model, "format"), "safetensors");
  EXPECT_EQ(body("model?model=elsewhere"), "/elsewhere: is not a model");
  EXPECT_EQ(ask("model?model=tensors").status, 404) << "a directory of a model is none";
}

TEST_F(ApiTest, TableIsSortedAndSearched) {
  EXPECT_THAT(names("tensors?limit=2&offset=1"), ElementsAre("layers.0.norm.weight", "layers.1.attn.weight"));
  EXPECT_THAT(names("tensors?q=NORM&sort=name"), ElementsAre("layers.0.norm.weight", "layers.1.norm.weight",
                                                             "layers.2.norm.weight", "layers.10.norm.weight"));
  EXPECT_THAT(names("tensors?q=norm%2010"), ElementsAre("layers.10.norm.weight"));
  EXPECT_THAT(names("tensors?q=norm%202"), ElementsAre("layers.2.norm.weight")) << "after a narrower search";
  EXPECT_THAT(names("tensors?under=output"), ElementsAre("output.weight", "output.bias"));
  EXPECT_THAT(names("tensors?sort=bytes&order=desc&limit=1"), ElementsAre("layers.10.attn.weight"));
  EXPECT_THAT(names("tensors?sort=share&order=desc&limit=1"), ElementsAre("layers.10.attn.weight"));
  EXPECT_EQ(ask("tensors?sort=colour").status, 400);
  EXPECT_EQ(ask("tensors?limit=1001").status, 400);
}

TEST_F(ApiTest, TableIsFilteredByTypeAndLayer) {
  const auto groups = [&](const char* list) { return names("groups", list); };
  EXPECT_THAT(groups("dtypes"), ElementsAre("float32", "float16"));
  EXPECT_THAT(groups("layers"), ElementsAre("layers.0", "layers.1", "layers.2", "layers.10", "other"));
  EXPECT_THAT(names("tensors?layer=layers.1"), ElementsAre("layers.1.attn.weight", "layers.1.norm.weight"))
      << "not those of layers.10";
  EXPECT_THAT(names("tensors?layer=other"), ElementsAre("output.weight", "output.bias"));
  EXPECT_THAT(names("tensors?dtype=float16"), ElementsAre("output.bias"));
  EXPECT_THAT(names("tensors?dtype=float16&layer=layers.1"), ElementsAre());
  EXPECT_THAT(names("tensors?layer=layers.2&q=norm"), ElementsAre("layers.2.norm.weight")) << "after another filter";
  EXPECT_THAT(names("tree?layer=layers.2", "entries", "label"), ElementsAre("layers"));
}

TEST_F(ApiTest, TableHasTheCommonBeginningOfItsNames) {
  const auto prefix = [&](const std::string& target) { return std::string(text_in(json(target), "prefix")); };
  EXPECT_EQ(prefix("tensors"), "");
  EXPECT_EQ(prefix("tensors?q=layers"), "layers.");
  EXPECT_EQ(prefix("tensors?q=layers.1"), "layers.") << "of 1 and 10";
  EXPECT_EQ(prefix("tensors?under=layers.10"), "layers.10.");
  EXPECT_EQ(prefix("tensors?q=nothing"), "");
}

TEST_F(ApiTest, RefusedTensorsAreTheFirstByVerification) {
  SafetensorsBuilder builder;
  builder.tensor("whole", "F32", "2", floats({1, 1}));
  builder.tensor("cut", "F32", "4", floats({1, 1, 1, 1}));
  std::string bytes = builder.build();
  bytes.resize(bytes.size() - 4);
  const TreePtr cut = lay_out(std::make_shared<Model>(read_model({"m.safetensors", in_memory(bytes)}).value()), "m",
                              1'700'000'000'000'000'000);
  Forest forest(cut);
  Api api(forest, "m.safetensors", [](const std::string& path) { return path; });
  const httpd::Request asked = request("tensors?sort=verification&limit=1");
  const auto answered = api.answer(asked, httpd::parse_target(asked.target).value(), {});
  EXPECT_THAT(text_of(**answered), HasSubstr("\"name\":\"cut\""));
}

TEST_F(ApiTest, IndexSaysWhereTheTensorsAre) {
  EXPECT_EQ(names("index", "tensor_list"), names("tensors"));
  const std::string index = body("index");
  EXPECT_THAT(index,
              HasSubstr(R"("descr": "<f4", "npy": "npy/output.weight.npy", "float32": "float32/output.weight.npy"})"));
  EXPECT_THAT(index, HasSubstr("\"local_files\": [], "));
  EXPECT_THAT(index, Not(HasSubstr("\"local\": "))) << "the container is in memory";
  EXPECT_EQ(text_in(json("index"), "v"), text_in(json("model"), "v"));
  EXPECT_EQ(ask("index?model=elsewhere").status, 404);
}

TEST_F(ApiTest, EqualLayersAreFolded) {
  EXPECT_THAT(names("tree", "entries", "label"), ElementsAre("layers", "output"));
  EXPECT_THAT(names("tree?under=layers.", "entries", "label"), ElementsAre("0…2", "10"));
  EXPECT_THAT(names("tree?under=layers.&each=1", "entries", "label"), ElementsAre("0", "1", "2", "10"));
  EXPECT_THAT(names("tree?under=layers.0.&q=attn", "entries", "label"), ElementsAre("attn"));
}

TEST_F(ApiTest, NumbersAreThoseOfTheTensor) {
  const Map statistics = json("statistics?t=0");
  EXPECT_EQ(*statistics.find_as<double>("max"), 63);
  EXPECT_FALSE(*statistics.find_as<bool>("sample"));
  EXPECT_THAT(body("values?t=8&window=2,4,0,2"), HasSubstr("[[3.0,4.0],[5.0,\"NaN\"]]"));
  EXPECT_THAT(body("values?t=0&window=0,2,6,8&down=1&right=0"), HasSubstr("[[48.0,56.0],[49.0,57.0]]"));
  EXPECT_EQ(ask("values?t=0&window=0,9,0,1").status, 400);
  EXPECT_EQ(ask("statistics?t=99").status, 404);
}

TEST_F(ApiTest, LineHasTheLimitsOfEachInterval) {
  EXPECT_EQ(body("line?t=8"),
            "{\"count\":8,\"low\":[-1.0,0.0,1.0,2.0,3.0,4.0,5.0,null],"
            "\"high\":[-1.0,0.0,1.0,2.0,3.0,4.0,5.0,null],"
            "\"mean\":[-1.0,0.0,1.0,2.0,3.0,4.0,5.0,null]}");
  EXPECT_EQ(body("line?t=0&points=2"), "{\"count\":64,\"low\":[0.0,32.0],\"high\":[31.0,63.0],\"mean\":[15.5,47.5]}");
  EXPECT_EQ(ask("line?t=0&points=4097").status, 400);
}

TEST_F(ApiTest, HeatMapHasAByteForEachCell) {
  const httpd::Response response = ask("heatmap?t=8&low=-1&high=5");
  EXPECT_EQ(text_of(response), std::string("\x01\x2b\x56\x80\xaa\xd5\xff\x00", 8));
  EXPECT_THAT(field(response, "Weightfs-Grid"), HasSubstr("\"window\":[0,4,0,2]"));
  EXPECT_EQ(text_of(ask("heatmap?t=0&rows=2&columns=3")).size(), 6U);
  EXPECT_EQ(text_of(ask("heatmap?t=0&t2=0&model2=")), std::string(64, '\x80')) << "no difference is the middle";
  EXPECT_EQ(ask("heatmap?t=0&t2=8").status, 422) << "other shapes";
  EXPECT_EQ(ask("heatmap?t=0&rows=1025").status, 400);
}

TEST_F(ApiTest, DeviationIsThatOfThePair) {
  const Map pair = json("deviation?t=1&model2=&t2=3");
  EXPECT_EQ(*pair.find_as<double>("max"), 0);
  EXPECT_THAT(body("deviation?t=1&model2=&t2=3"), HasSubstr("\"snr_db\":null"));
  EXPECT_EQ(ask("deviation?t=0").status, 400);
  EXPECT_EQ(ask("deviation?t=0&model2=&t2=8").status, 422) << "other shapes";
}

TEST_F(ApiTest, VersionMakesAResultImmutable) {
  const std::string v(text_in(json("model"), "v"));
  const httpd::Response with = ask("histogram?t=0&v=" + v);
  EXPECT_THAT(field(with, "Cache-Control"), HasSubstr("immutable"));
  EXPECT_THAT(field(ask("histogram?t=0"), "Cache-Control"), Not(HasSubstr("immutable")));
  EXPECT_EQ(ask("histogram?t=0&v=other").status, 409);
  EXPECT_EQ(ask("histogram?t=0&v=" + v, {{"if-none-match", field(with, "ETag")}}).status, 304);
}

TEST_F(ApiTest, IfMatchIsForThePresentResult) {
  const std::string tag = field(ask("histogram?t=0"), "ETag");
  EXPECT_EQ(ask("histogram?t=0", {{"if-match", tag}}).status, 200);
  EXPECT_EQ(ask("histogram?t=0", {{"if-match", "\"other\""}}).status, 412);
}

// 2,300 tensors of 8 MiB share the bytes of one.
TEST(AmountOfApi, MoreThanTheFilesExplainIsRefused) {
  PytorchBuilder builder;
  constexpr int64_t kElements = 2 << 20;
  const PickleBuilder bytes = storage("Float", builder.bytes(std::string(4 * kElements, 'w')), kElements);
  for (int i = 0; i < 2300; ++i)
    builder.value(fmt::format("layers.{}.w{}", i / 100, i % 100), tensor_v2(bytes, {{kElements}, {1}}));
  const Container container{"m.pt", in_memory(builder.zip())};
  const TreePtr tree = lay_out(std::make_shared<Model>(read_model(container).value()), "m", 1'700'000'000'000'000'000);
  Forest forest(tree);
  Api api(forest, "m.pt", [](const std::string& path) { return path; });
  const auto status = [&](const std::string& target) {
    httpd::Request request;
    request.method = "GET";
    request.target = "/.weightfs/api/v1/" + target;
    const auto answered = api.answer(request, httpd::parse_target(request.target).value(), {}).value();
    return answered ? answered->status : answered.error().status;
  };
  EXPECT_EQ(status("overview?metric=rms&mode=full"), 422);
}

TEST_F(ApiTest, StreamsEndWithTheResult) {
  const httpd::Response response = ask("statistics?t=0", {{"accept", "text/event-stream"}});
  EXPECT_EQ(field(response, "Content-Type"), "text/event-stream");
  const std::string events = text_of(response);
  EXPECT_THAT(events, HasSubstr("event: result\ndata: {"));
  EXPECT_THAT(events, testing::EndsWith("}\n\n"));
  const std::string failed = text_of(ask("statistics?t=99", {{"accept", "text/event-stream"}}));
  EXPECT_THAT(failed, HasSubstr("event: failure\ndata: {\"status\":404"));
}

TEST_F(ApiTest, NothingIsComputedForAClientThatHasLeft) {
  const httpd::Request asked = request("statistics?t=0");
  const auto answered = api_.answer(asked, httpd::parse_target(asked.target).value(), [] { return true; });
  EXPECT_EQ((*answered).error().status, 503);
}

TEST_F(ApiTest, ResponsesShareTheirResult) {
  const auto text = [](const httpd::Response& response) {
    return std::get<httpd::SharedText>(response.body.front()).text.get();
  };
  EXPECT_EQ(text(ask("statistics?t=0")), text(ask("statistics?t=0")));
}

TEST_F(ApiTest, SearchHasAtMost16DifferentWords) {
  EXPECT_EQ(ask("tensors?q=a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+A+a").status, 200);
  EXPECT_EQ(ask("tensors?q=a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q").status, 400);
}

TEST_F(ApiTest, StoppedServerRefusesComputations) {
  api_.stop();
  EXPECT_EQ(ask("statistics?t=0").status, 503);
  EXPECT_EQ(ask("statistics?t=0", {{"accept", "text/event-stream"}}).status, 503);
}

TEST(Jobs, EndWhenTheClientGoes) {
  Jobs jobs(2);
  std::atomic<bool> has_ended = false;
  {
    const auto response = jobs.stream([&](const Report& report) -> Accepted<ContentPtr> {
      for (uint64_t i = 0; !is_cancelled(); ++i) {
        report("working", i, 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      has_ended = true;
      return httpd::refused(503, "cancelled");
    });
    ASSERT_TRUE(response.has_value());
    EXPECT_THAT(std::get<httpd::Generator>(response->body.front())().value(), HasSubstr("\"what\":\"working\""));
    EXPECT_FALSE(has_ended);
  }
  jobs.stop();
  EXPECT_TRUE(has_ended);
}

TEST(Results, LastUsedAreKept) {
  Results results(1000);
  const auto content = [] { return std::make_shared<const Content>(Content{.bytes = std::string(200, 'x')}); };
  results.keep("a", content());
  results.keep("b", content());
  EXPECT_NE(results.find("a"), nullptr);
  results.keep("c", content());
  EXPECT_NE(results.find("a"), nullptr);
  EXPECT_EQ(results.find("b"), nullptr) << "the one that was used first is dropped";
  results.keep("large", std::make_shared<const Content>(Content{.bytes = std::string(2000, 'x')}));
  EXPECT_EQ(results.find("large"), nullptr);
}

// semantics 20.6: a client that does not read keeps its result, also when it is not kept for others.
TEST(Results, OfClientsThatDoNotReadAreLimited) {
  Results results(1000);
  const auto share = [&](size_t bytes) { return results.share(Content{.bytes = std::string(bytes, 'x')}); };
  EXPECT_EQ(share(Results::kMaxContent + 1).error().status, 422);
  std::optional<ContentPtr> first = share(Results::kMaxContent).value();
  const ContentPtr second = share(Results::kMaxShared - Results::kMaxContent).value();
  EXPECT_EQ(share(1).error().status, 503);
  first.reset();
  EXPECT_TRUE(share(1).has_value());
}

TEST(Names, NumbersAreComparedAsNumbers) {
  EXPECT_TRUE(is_before("layers.2.w", "layers.10.w"));
  EXPECT_FALSE(is_before("layers.10.w", "layers.2.w"));
  EXPECT_TRUE(is_before("a", "b"));
  EXPECT_TRUE(is_before("a", "a1"));
  EXPECT_TRUE(is_before("a01", "a1") != is_before("a1", "a01")) << "an order";
  EXPECT_FALSE(is_before("a", "a"));
}

}  // namespace
}  // namespace weightfs::api_test
