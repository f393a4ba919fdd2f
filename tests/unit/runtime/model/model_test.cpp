// Parameters of known models and of files, as transformers counts them: sums of numel() of
// AutoModelForCausalLM (BERT: ForMaskedLM, T5: ForSeq2SeqLM).from_config() on torch's meta device,
// transformers 5.24; routed experts those of names with ".experts.".
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "model/config.hpp"
#include "model/known_models.hpp"

namespace paro {
namespace {

struct Counted {
  const char* model;  // a name or a file's text
  double total;
  double routed;
};

void check_counts(const Transformer& model, const Counted& counted) {
  const ModelParameters parameters = parameters_of(model);
  CHECK(parameters.total == counted.total);
  CHECK(parameters.routed == counted.routed);
  CHECK(parameters.active <= parameters.total);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string problem(const std::string& text) {
  const auto refused = parse_config(text, "m/config.json");
  return refused.ok() ? "accepted" : refused.status().message();
}

const std::string kLlama =
    R"({"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"vocab_size":1000)";
const std::string kRouted =
    R"({"model_type":"qwen3_moe","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":4,"vocab_size":1000,"num_experts":4,)"
    R"("num_experts_per_tok":2,"moe_intermediate_size":64)";

}  // namespace

TEST_CASE("models by name have the parameters that transformers counts") {
  const std::vector<Counted> cases{{"llama-7b", 6738415616, 0},
                                   {"llama-13b", 13015864320, 0},
                                   {"llama-30b", 32528943616, 0},
                                   {"llama-65b", 65285660672, 0},
                                   {"llama-2-70b", 68976648192, 0},
                                   {"llama-3-8b", 8030261248, 0},
                                   {"llama-3-70b", 70553706496, 0},
                                   {"llama-3.1-405b", 405853388800, 0},
                                   {"mistral-7b", 7241732096, 0},
                                   {"mixtral-8x7b", 46702792704, 45097156608},
                                   {"mixtral-8x22b", 140630071296, 135291469824},
                                   {"qwen2-7b", 7615616512, 0},
                                   {"qwen2.5-72b", 72706203648, 0},
                                   {"qwen3-8b", 8190735360, 0},
                                   {"qwen3-32b", 32762123264, 0},
                                   {"qwen3-30b-a3b", 30532122624, 28991029248},
                                   {"deepseek-v2", 235741434880, 222717542400},
                                   {"deepseek-v3", 671026404352, 653908770816},
                                   {"gpt-oss-20b", 20914757184, 19116933120},
                                   {"gpt-oss-120b", 116829156672, 114701598720},
                                   {"gpt2", 124439808, 0},
                                   {"gpt2-xl", 1557611200, 0},
                                   {"bert-large", 335174458, 0},
                                   {"t5-11b", 11307321344, 0}};
  CHECK(cases.size() == known_models().size());
  for (const Counted& counted : cases) {
    INFO(counted.model);
    const auto model = known_model(counted.model);
    REQUIRE(model.ok());
    check_counts(*model, counted);
  }
}

TEST_CASE("files have the parameters that transformers counts") {
  const std::vector<Counted> cases{
      // llama-bias
      {R"({"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":1000,"max_position_embeddings":64,"attention_bias":true,"mlp_bias":true})",
       1697024,
       0},
      // llama-3.2-1b
      {R"({"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":131072,"tie_word_embeddings":true,"head_dim":64})",
       1235814400,
       0},
      // qwen2-0.5b
      {R"({"model_type":"qwen2","hidden_size":896,"intermediate_size":4864,"num_hidden_layers":24,"num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,"tie_word_embeddings":true})",
       494032768,
       0},
      // qwen1.5-moe-a2.7b
      {R"({"model_type":"qwen2_moe","hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":151936,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,"decoder_sparse_step":1})",
       14315784192,
       12457082880},
      // qwen3-sparse
      {R"({"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":7,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"vocab_size":151936,"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,"decoder_sparse_step":2,"mlp_only_layers":[1]})",
       2151710464,
       1207959552},
      // deepseek-v2-lite
      {R"({"model_type":"deepseek_v2","hidden_size":2048,"intermediate_size":10944,"num_hidden_layers":27,"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":102400,"first_k_dense_replace":1,"kv_lora_rank":512,"q_lora_rank":null,"n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"moe_intermediate_size":1408,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128})",
       15706484224,
       14394851328},
      // bert-base
      {R"({"model_type":"bert","hidden_size":768,"intermediate_size":3072,"num_hidden_layers":12,"num_attention_heads":12,"vocab_size":30522,"max_position_embeddings":512,"type_vocab_size":2})",
       109514298,
       0},
      // t5-small
      {R"({"model_type":"t5","d_model":512,"d_ff":2048,"d_kv":64,"num_layers":6,"num_heads":8,"vocab_size":32128,"relative_attention_num_buckets":32})",
       60506624,
       0},
      // t5-v1.1-base, whose head is its own: transformers 5 ties it for all T5, its authors do not
      {R"({"model_type":"t5","d_model":768,"d_ff":2048,"d_kv":64,"num_layers":12,"num_decoder_layers":12,"num_heads":12,"vocab_size":32128,"relative_attention_num_buckets":32,"feed_forward_proj":"gated-gelu","tie_word_embeddings":false})",
       247577856,
       0}};
  for (const Counted& counted : cases) {
    INFO(counted.model);
    const auto model = parse_config(counted.model, "config.json");
    INFO(model.status().message());
    REQUIRE(model.ok());
    check_counts(*model, counted);
  }
}

TEST_CASE("a model is an embedding, its layers and a head") {
  const auto llama = known_model("llama-3-8b");
  REQUIRE(llama.ok());
  const auto units = units_of(*llama);
  REQUIRE(units.size() == 34);
  CHECK(units.front().kind == UnitKind::kEmbedding);
  CHECK(units.front().parameters == 128256.0 * 4096);
  CHECK(units.back().kind == UnitKind::kHead);
  CHECK(units.back().parameters == 128256.0 * 4096 + 4096);
  CHECK(units.back().shared == 0);
  const auto tied = units_of(*known_model("gpt2"));
  CHECK(tied.back().parameters == 2 * 768);
  CHECK(tied.back().shared == 50257.0 * 768);
}

TEST_CASE("layers differ where the model's do") {
  const auto deepseek = *known_model("deepseek-v3");
  for (size_t at = 0; at < deepseek.layers.size(); ++at) {
    CHECK((deepseek.layers[at].experts.count == 0) == (at < 3));
  }
  const auto oss = *known_model("gpt-oss-20b");
  CHECK(oss.layers[0].attention.reach == 128);
  CHECK(oss.layers[1].attention.reach == 0);
  CHECK(parameters_of(*known_model("mixtral-8x7b")).active == 46702792704 - 45097156608 * 0.75);
}

TEST_CASE("heads of keys that a file leaves out are those of transformers, and told") {
  const auto decoder = [](const std::string& type, const std::string& more) {
    return parse_config(R"({"model_type":")" + type +
                            R"(","hidden_size":4096,"intermediate_size":512,"num_hidden_layers":1,)"
                            R"("num_attention_heads":32,"vocab_size":1000)" +
                            more + "}",
                        "m/config.json");
  };
  // LlamaConfig has none, MistralConfig 8; null is as many as queries have for both.
  for (const auto& [type, heads] : {std::pair("llama", 32.0), std::pair("mistral", 8.0)}) {
    const auto model = decoder(type, R"(,"sliding_window":null)");
    REQUIRE(model.ok());
    CHECK(model->layers[0].attention.kv_heads == heads);
    REQUIRE(model->assumed.size() == 1);
    CHECK(has(model->assumed[0], "heads of keys and values"));
    CHECK(has(model->assumed[0], "m/config.json has no \"num_key_value_heads\""));
    const auto null = decoder(type, R"(,"num_key_value_heads":null,"sliding_window":null)");
    REQUIRE(null.ok());
    CHECK(null->layers[0].attention.kv_heads == 32);
    CHECK(null->assumed.empty());
  }
  for (const std::string_view name : known_models()) {
    CHECK(known_model(name)->assumed.empty());
  }
}

TEST_CASE("a sliding window that a file leaves out is that of transformers, and told") {
  const auto decoder = [](const std::string& type, const std::string& more) {
    const auto model = parse_config(
        R"({"model_type":")" + type +
            R"(","hidden_size":4096,"intermediate_size":512,"num_hidden_layers":30,"num_attention_heads":32,)"
            R"("num_key_value_heads":4,"vocab_size":1000,"num_local_experts":4,"num_experts":4,)"
            R"("num_experts_per_tok":2,"moe_intermediate_size":64)" +
            more + "}",
        "m/config.json");
    INFO(model.status().message());
    REQUIRE(model.ok());
    return *model;
  };
  const auto reaches = [](const Transformer& model) {
    return std::vector{model.layers[0].attention.reach,
                       model.layers[1].attention.reach,
                       model.layers[29].attention.reach};
  };
  using Reaches = std::vector<double>;
  const Transformer mistral = decoder("mistral", "");
  CHECK(reaches(mistral) == Reaches{4096, 4096, 4096});
  REQUIRE(mistral.assumed.size() == 1);
  CHECK(mistral.assumed[0] ==
        "tokens that sliding attention reaches, 4096, transformers' default of the family: "
        "m/config.json has no \"sliding_window\"");
  CHECK(reaches(decoder("gpt_oss", "")) == Reaches{128, 0, 0});
  for (const char* const reach : {"null", "0", "64"}) {
    const Transformer model = decoder("mistral", std::string(R"(,"sliding_window":)") + reach);
    CHECK(model.layers[0].attention.reach == (std::string(reach) == "64" ? 64 : 0));
    CHECK(model.assumed.empty());
  }
  // Qwen's slides where the file says so, behind layers that do not.
  CHECK(reaches(decoder("qwen2", "")) == Reaches{0, 0, 0});
  CHECK(decoder("qwen2", "").assumed.empty());
  const Transformer qwen2 = decoder("qwen2", R"(,"use_sliding_window":true)");
  CHECK(reaches(qwen2) == Reaches{0, 0, 4096});
  REQUIRE(qwen2.assumed.size() == 2);
  CHECK(has(qwen2.assumed[1], "m/config.json has no \"max_window_layers\""));
  CHECK(reaches(decoder("qwen3_moe", R"(,"use_sliding_window":true)")) ==
        Reaches{4096, 4096, 4096});
}

TEST_CASE("what a file says that changes no shapes is told") {
  const auto said = [](const std::string& more) {
    const auto model = parse_config(kLlama + more + "}", "m/config.json");
    INFO(model.status().message());
    REQUIRE(model.ok());
    return model->assumed.back();
  };
  CHECK(said(R"(,"architectures":["LlamaForCausalLM"])") == said(""));
  for (const char* const head :
       {R"(["LlamaForSequenceClassification"])", R"("LlamaForSequenceClassification")"}) {
    CHECK(has(said(std::string(R"(,"architectures":)") + head),
              "a head of all words, though m/config.json is a LlamaForSequenceClassification"));
  }
  CHECK(has(said(R"(,"quantization_config":{"bits":4})"),
            "not of the \"quantization_config\" in m/config.json"));
}

TEST_CASE("what a file cannot have is one line with what would do") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "m/config.json: is not JSON"},
      {"[1]", "is JSON but no object"},
      {std::string(100000, '['), "is not JSON"},
      {R"({"a":1e999})", "is not JSON"},
      {kLlama + R"(,"vocab_size":2000})", "m/config.json: \"vocab_size\" is given twice; write it"},
      {R"({"a":{"b":1,"c":2},"d":{"b":1,"b":2}})", "m/config.json: \"b\" is given twice"},
      {"{}", "\"model_type\" (missing) is none of llama, "},
      {R"({"model_type":"gemma9","num_hidden_layers":26,"hidden_size":1152})",
       "\"model_type\" gemma9 is none of"},
      {R"({"model_type":"gemma9","num_hidden_layers":26,"hidden_size":1152})",
       "understood: layers 26, hidden size 1152, vocabulary not known; missing: the shapes of its "
       "layers; give --model params=N,layers=26"},
      {R"({"model_type":"llama4","text_config":{"hidden_size":8}})",
       "give its \"text_config\" as a file of its own, or --model params=N"},
      {R"({"model_type":7})", "m/config.json: \"model_type\" 7: takes a text"},
      {kLlama + std::string("}\0x", 3), "is not JSON"},
      {kLlama + R"(,"layer_types":{}})", "\"layer_types\" {..}: takes a list of texts"},
      {kLlama + R"(,"mlp_only_layers":{}})", "\"mlp_only_layers\" {..}: takes a list of whole"},
      {kRouted + R"(,"decoder_sparse_step":0})", "\"decoder_sparse_step\" 0: takes a whole number"},
      {R"({"model_type":"llama"})",
       "missing: hidden_size, num_attention_heads, num_hidden_layers, vocab_size, "
       "intermediate_size; add them"},
      {kLlama + R"(,"num_key_value_heads":3})", "is no multiple of \"num_key_value_heads\" 3"},
      {kLlama + R"(,"num_key_value_heads":8})", "\"num_key_value_heads\" 8: takes a whole number"},
      {kLlama + R"(,"head_dim":"x"})", "\"head_dim\" \"x\": takes a whole number from 1 to"},
      {kLlama + R"(,"head_dim":1.5})", "\"head_dim\" 1.5: takes"},
      {kLlama + R"(,"head_dim":-4})", "\"head_dim\" -4: takes"},
      {kLlama + R"(,"head_dim":[[[[1]]]]})", "\"head_dim\" [..]: takes"},
      {kLlama + R"(,"tie_word_embeddings":3})", "\"tie_word_embeddings\" 3: takes true or false"},
      {R"({"model_type":"llama","hidden_size":16777216,"intermediate_size":16777216,)"
       R"("num_hidden_layers":1024,"num_attention_heads":4,"vocab_size":1000})",
       "parameters; takes at most"}};
  for (const auto& [text, message] : cases) {
    INFO(message << "; got " << problem(text));
    CHECK(has(problem(text), message));
    CHECK_FALSE(has(problem(text), "\n"));
  }
}

TEST_CASE("a name that is not known is answered with those near it") {
  const std::string message = known_model("lama-3-8b").status().message();
  INFO(message);
  CHECK(has(message, "'lama-3-8b' is not known; near it: llama-3-8b"));
  CHECK(has(known_model("zzz").status().message(), "; takes llama-7b, "));
}

}  // namespace paro
