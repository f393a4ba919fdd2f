#include "model/config.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/escaped.hpp"
#include "model/config_values.hpp"

namespace paro {
namespace {

// ---- families whose layers are like Llama's
// ------------------------------------------------------

// What differs between them where the file says nothing, and the names that they have for it.
struct Decoder {
  std::string_view type;
  bool bias_of_queries = false;        // and keys and values, always
  bool bias_by_flag = false;           // of all of attention, by attention_bias,
  bool bias_usual = false;             // which is this unless given
  bool head_norms = false;             // of queries and keys
  bool sinks = false;                  // a parameter of each head
  double head_dim = 0;                 // 0: hidden / heads
  double kv_heads = 0;                 // of a file without their number; 0: as many as queries have
  double reach = 0;                    // of one without the key, where attention slides; 0: none
  double whole_layers = 0;             // the same, in front of those whose attention slides
  const char* experts = nullptr;       // key of their number; nullptr: dense
  const char* expert_width = nullptr;  // key
  bool expert_bias = false;            // of them and the router
};

constexpr std::array kDecoders{
    Decoder{.type = "llama", .bias_by_flag = true},
    Decoder{.type = "mistral", .kv_heads = 8, .reach = 4096},
    Decoder{.type = "mixtral",
            .kv_heads = 8,
            .experts = "num_local_experts",
            .expert_width = "intermediate_size"},
    Decoder{.type = "qwen2",
            .bias_of_queries = true,
            .kv_heads = 32,
            .reach = 4096,
            .whole_layers = 28},
    Decoder{.type = "qwen2_moe",
            .bias_of_queries = true,
            .kv_heads = 16,
            .reach = 4096,
            .whole_layers = 28,
            .experts = "num_experts",
            .expert_width = "moe_intermediate_size"},
    Decoder{.type = "qwen3",
            .bias_by_flag = true,
            .head_norms = true,
            .head_dim = 128,
            .kv_heads = 32,
            .reach = 4096,
            .whole_layers = 28},
    Decoder{.type = "qwen3_moe",
            .bias_by_flag = true,
            .head_norms = true,
            .kv_heads = 4,
            .reach = 4096,
            .experts = "num_experts",
            .expert_width = "moe_intermediate_size"},
    Decoder{.type = "gpt_oss",
            .bias_by_flag = true,
            .bias_usual = true,
            .sinks = true,
            .head_dim = 64,
            .kv_heads = 8,
            .reach = 128,
            .experts = "num_local_experts",
            .expert_width = "intermediate_size",
            .expert_bias = true},
};

struct Sizes {
  double hidden;
  double heads;
  double layers;
};

Sizes sizes_of(ConfigValues& values) {
  return {values.size("hidden_size", kMaxModelSize),
          values.size("num_attention_heads", kMaxModelSize),
          values.size("num_hidden_layers", kMaxModelLayers)};
}

void set_ends(Transformer& model, ConfigValues& values, bool tied) {
  model.vocabulary = values.size("vocab_size", kMaxModelSize);
  model.tied = values.flag_or("tie_word_embeddings", tied);
  model.embedding = model.vocabulary * model.hidden;
}

uint32_t longest(ConfigValues& values, std::string_view key) {
  constexpr double kMaxSequence = 1U << 30U;
  return static_cast<uint32_t>(values.size_or(key, 0, kMaxSequence));
}

double head_dim_of(ConfigValues& values, const Sizes& sizes, double usual) {
  const double head_dim = values.size_or("head_dim", usual, kMaxModelSize);
  if (head_dim > 0) {
    return head_dim;
  }
  const double share = sizes.hidden / sizes.heads;
  values.must(share == static_cast<double>(static_cast<uint64_t>(share)),
              fmt::format("\"hidden_size\" {} is no multiple of \"num_attention_heads\" {}; give "
                          "\"head_dim\"",
                          sizes.hidden,
                          sizes.heads));
  return share;
}

// As transformers has them: null stands for as many as queries have, nothing for the family's own.
double kv_heads_of(ConfigValues& values, const Decoder& family, const Sizes& sizes) {
  constexpr std::string_view kKey = "num_key_value_heads";
  const bool own = !values.has(kKey) && family.kv_heads > 0;
  const double usual = own ? family.kv_heads : sizes.heads;
  if (!values.has(kKey)) {
    values.assume(fmt::format("{} heads of keys and values, {}: {} has no \"{}\"",
                              usual,
                              own ? "transformers' default of the family" : "as many as of queries",
                              values.name(),
                              kKey));
  }
  return values.size_or(kKey, usual, sizes.heads);
}

// Adds biases and norms of heads to the layer's vectors.
void set_attention(Layer& layer, ConfigValues& values, const Decoder& family, const Sizes& sizes) {
  Attention& attention = layer.attention;
  attention.heads = sizes.heads;
  attention.kv_heads = kv_heads_of(values, family, sizes);
  const double groups = sizes.heads / attention.kv_heads;
  values.must(groups == static_cast<double>(static_cast<uint64_t>(groups)),
              fmt::format("\"num_attention_heads\" {} is no multiple of \"num_key_value_heads\" {}",
                          sizes.heads,
                          attention.kv_heads));
  attention.head_dim = head_dim_of(values, sizes, family.head_dim);
  attention.value_dim = attention.head_dim;
  const bool all = family.bias_by_flag && values.flag_or("attention_bias", family.bias_usual);
  const bool queries = family.bias_of_queries && values.flag_or("qkv_bias", true);
  layer.vectors +=
      all || queries ? (attention.heads + 2 * attention.kv_heads) * attention.head_dim : 0;
  layer.vectors += all ? sizes.hidden : 0;
  layer.vectors += family.head_norms ? 2 * attention.head_dim : 0;
  layer.vectors += family.sinks ? attention.heads : 0;
}

Experts experts_of(ConfigValues& values, const Decoder& family, double hidden) {
  Experts experts;
  experts.count = values.size(family.experts, kMaxModelSize);
  experts.active = values.size("num_experts_per_tok", kMaxModelSize);
  values.must(experts.active <= experts.count,
              fmt::format("\"num_experts_per_tok\" {} is more than \"{}\" {}",
                          experts.active,
                          family.experts,
                          experts.count));
  experts.width = values.size(family.expert_width, kMaxModelSize);
  experts.vectors = family.expert_bias ? 2 * experts.width + hidden : 0;
  return experts;
}

// As transformers has it, of a file that may not have the key; null and 0 stand for none.
double own_default(
    ConfigValues& values, std::string_view key, double usual, double most, std::string_view what) {
  if (values.has(key) || usual == 0) {
    return values.size_or(key, 0, most);
  }
  values.assume(fmt::format("{} {}, transformers' default of the family: {} has no \"{}\"",
                            what,
                            usual,
                            values.name(),
                            key));
  return usual;
}

// Of layers those with experts; 0 is no such number.
size_t every_of(ConfigValues& values, std::string_view key) {
  return static_cast<size_t>(values.has(key) ? values.size(key, kMaxModelLayers) : 1);
}

// Which layers attend to a sliding part of the sequence only.
std::vector<double> reaches(ConfigValues& values, const Decoder& family, size_t layers) {
  const std::string_view type = family.type;
  const bool used = values.flag_or("use_sliding_window", !type.starts_with("qwen"));
  const double reach = own_default(values,
                                   "sliding_window",
                                   used ? family.reach : 0,
                                   kMaxModelSize,
                                   "tokens that sliding attention reaches,");
  const auto types = values.texts_or_none("layer_types");
  const bool by_position = used && reach > 0 && types.empty();
  const double whole_before = own_default(values,
                                          "max_window_layers",
                                          by_position ? family.whole_layers : 0,
                                          kMaxModelLayers,
                                          "layers in front of those whose attention slides,");
  std::vector<double> all(layers, 0);
  for (size_t at = 0; at < layers; ++at) {
    const bool sliding = at < types.size()          ? types[at] == "sliding_attention"
                         : type == "gpt_oss"        ? at % 2 == 0
                         : type.starts_with("qwen") ? static_cast<double>(at) >= whole_before
                                                    : true;
    all[at] = used && sliding ? reach : 0;
  }
  return all;
}

Transformer decoder(ConfigValues& values, const Decoder& family) {
  const Sizes sizes = sizes_of(values);
  Transformer model;
  model.hidden = sizes.hidden;
  model.sequence = longest(values, "max_position_embeddings");
  set_ends(model, values, false);
  model.head_own = sizes.hidden;  // the last norm
  Layer dense;
  dense.vectors = 2 * sizes.hidden;
  set_attention(dense, values, family, sizes);
  Layer sparse = dense;
  const bool mixed = std::string_view(family.type).starts_with("qwen");
  if (family.experts == nullptr || mixed) {
    dense.width = values.size("intermediate_size", kMaxModelSize);
  }
  if (family.type == "llama" && values.flag_or("mlp_bias", false)) {
    dense.vectors += 2 * dense.width + sizes.hidden;
  }
  if (family.experts != nullptr) {
    sparse.experts = experts_of(values, family, sizes.hidden);
    sparse.vectors += family.expert_bias ? sparse.experts.count : 0;
  }
  if (family.type == "qwen2_moe") {
    sparse.experts.shared_width = values.size("shared_expert_intermediate_size", kMaxModelSize);
    sparse.vectors += sizes.hidden;  // the shared expert's gate
  }
  const size_t every = family.experts != nullptr ? every_of(values, "decoder_sparse_step") : 1;
  const auto only_dense = values.sizes_or_none("mlp_only_layers");
  const auto count = static_cast<size_t>(sizes.layers);
  for (size_t at = 0; at < count; ++at) {
    const bool routed = family.experts != nullptr && (at + 1) % every == 0 &&
                        std::find(only_dense.begin(), only_dense.end(), static_cast<double>(at)) ==
                            only_dense.end();
    model.layers.push_back(routed ? sparse : dense);
  }
  const auto reach = reaches(values, family, count);
  for (size_t at = 0; at < count; ++at) {
    model.layers[at].attention.reach = reach[at];
  }
  return model;
}

// ---- DeepSeek V2 and V3
// --------------------------------------------------------------------------

Attention latent_attention(ConfigValues& values, const Sizes& sizes) {
  Attention attention;
  attention.heads = sizes.heads;
  attention.kv_heads = sizes.heads;
  attention.rope_dim = values.size("qk_rope_head_dim", kMaxModelSize);
  attention.head_dim = attention.rope_dim + values.size("qk_nope_head_dim", kMaxModelSize);
  attention.value_dim = values.size("v_head_dim", kMaxModelSize);
  attention.query_rank = values.size_or("q_lora_rank", 0, kMaxModelSize);
  attention.kv_rank = values.size("kv_lora_rank", kMaxModelSize);
  return attention;
}

Transformer deepseek(ConfigValues& values) {
  const Sizes sizes = sizes_of(values);
  Transformer model;
  model.hidden = sizes.hidden;
  model.sequence = longest(values, "max_position_embeddings");
  set_ends(model, values, false);
  model.head_own = sizes.hidden;
  Layer dense;
  Attention& attention = dense.attention = latent_attention(values, sizes);
  dense.vectors = 2 * sizes.hidden + attention.query_rank + attention.kv_rank;
  if (values.flag_or("attention_bias", false)) {
    dense.vectors += attention.query_rank + attention.kv_rank + attention.rope_dim + sizes.hidden;
  }
  Layer sparse = dense;
  dense.width = values.size("intermediate_size", kMaxModelSize);
  const Decoder names{
      .type = "deepseek", .experts = "n_routed_experts", .expert_width = "moe_intermediate_size"};
  sparse.experts = experts_of(values, names, sizes.hidden);
  sparse.experts.shared_width =
      sparse.experts.width * values.size_or("n_shared_experts", 0, kMaxModelSize);
  const double first = values.size_or("first_k_dense_replace", 0, kMaxModelLayers);
  const size_t every = every_of(values, "moe_layer_freq");
  for (size_t at = 0; at < static_cast<size_t>(sizes.layers); ++at) {
    const bool routed = static_cast<double>(at) >= first && at % every == 0;
    model.layers.push_back(routed ? sparse : dense);
  }
  return model;
}

// ---- GPT-2, BERT, T5
// -----------------------------------------------------------------------------

// Of as many keys and values as queries, with biases, and two norms with them.
Layer with_biases(const Sizes& sizes, double head_dim, double width) {
  Layer layer;
  layer.attention.heads = sizes.heads;
  layer.attention.kv_heads = sizes.heads;
  layer.attention.head_dim = layer.attention.value_dim = head_dim;
  layer.width = width;
  layer.gated = false;
  layer.vectors = 3 * sizes.heads * head_dim + sizes.hidden  // of attention
                  + width + sizes.hidden                     // of the feed-forward part
                  + 4 * sizes.hidden;                        // of norms
  return layer;
}

Transformer gpt2(ConfigValues& values) {
  const Sizes sizes{values.size("n_embd", kMaxModelSize, "hidden_size"),
                    values.size("n_head", kMaxModelSize, "num_attention_heads"),
                    values.size("n_layer", kMaxModelLayers, "num_hidden_layers")};
  Transformer model;
  model.hidden = sizes.hidden;
  model.sequence = longest(values, "n_positions");
  set_ends(model, values, true);
  model.embedding +=
      values.size("n_positions", kMaxModelSize, "max_position_embeddings") * model.hidden;
  model.head_own = 2 * model.hidden;
  model.dropout = values.rate_above_zero_or("resid_pdrop", true);
  const double width = values.size_or("n_inner", 4 * model.hidden, 4 * kMaxModelSize);
  model.layers.assign(static_cast<size_t>(sizes.layers),
                      with_biases(sizes, head_dim_of(values, sizes, 0), width));
  return model;
}

Transformer bert(ConfigValues& values) {
  const Sizes sizes = sizes_of(values);
  Transformer model;
  model.hidden = sizes.hidden;
  model.sequence = longest(values, "max_position_embeddings");
  set_ends(model, values, true);
  model.embedding += model.hidden * (values.size("max_position_embeddings", kMaxModelSize) +
                                     values.size_or("type_vocab_size", 2, kMaxModelSize) + 2);
  // A dense layer, its norm, and biases of all words.
  model.head_own = model.hidden * (model.hidden + 3) + model.vocabulary;
  model.dropout = values.rate_above_zero_or("hidden_dropout_prob", true);
  Layer layer = with_biases(
      sizes, head_dim_of(values, sizes, 0), values.size("intermediate_size", kMaxModelSize));
  layer.attention.causal = false;
  model.layers.assign(static_cast<size_t>(sizes.layers), layer);
  return model;
}

// Encoder and decoder one after the other. Neither has biases, norms have one parameter for each
// element; the first layer of both has the biases of relative positions.
Transformer t5(ConfigValues& values) {
  const double heads = values.size("num_heads", kMaxModelSize);
  const double encoders = values.size("num_layers", kMaxModelLayers);
  const double decoders = values.size_or("num_decoder_layers", encoders, kMaxModelLayers);
  Transformer model;
  model.hidden = values.size("d_model", kMaxModelSize);
  model.sequence = longest(values, "n_positions");
  set_ends(model, values, true);
  model.head_own = 2 * model.hidden;
  model.dropout = values.rate_above_zero_or("dropout_rate", true);
  Layer layer;
  layer.attention.heads = layer.attention.kv_heads = heads;
  layer.attention.head_dim = layer.attention.value_dim = values.size("d_kv", kMaxModelSize);
  layer.attention.causal = false;
  layer.width = values.size("d_ff", kMaxModelSize);
  layer.gated = values.text_or("feed_forward_proj", "relu").starts_with("gated");
  layer.vectors = 2 * model.hidden;
  model.layers.assign(static_cast<size_t>(encoders), layer);
  layer.attention.causal = true;
  layer.cross = true;
  layer.vectors += model.hidden;
  model.layers.insert(model.layers.end(), static_cast<size_t>(decoders), layer);
  const double positions =
      heads * values.size_or("relative_attention_num_buckets", 32, kMaxModelSize);
  model.layers.front().vectors += positions;
  model.layers[static_cast<size_t>(encoders)].vectors += positions;
  return model;
}

// ---- by name
// --------------------------------------------------------------------------------------

struct Family {
  std::string_view type;
  Transformer (*read)(ConfigValues& values);
};
constexpr std::array kOthers{Family{"deepseek_v2", deepseek},
                             Family{"deepseek_v3", deepseek},
                             Family{"gpt2", gpt2},
                             Family{"bert", bert},
                             Family{"t5", t5}};

ho::Result<Transformer> read(ConfigValues& values, std::string_view type) {
  for (const Decoder& family : kDecoders) {
    if (family.type == type) {
      return decoder(values, family);
    }
  }
  for (const Family& family : kOthers) {
    if (family.type == type) {
      return family.read(values);
    }
  }
  // What most files have tells the user what to give instead.
  const double layers = values.size_or("num_hidden_layers", 0, kMaxModelLayers);
  const double hidden = values.size_or("hidden_size", 0, kMaxModelSize);
  const double vocabulary = values.size_or("vocab_size", 0, kMaxModelSize);
  const auto known = [](double value) {
    return value > 0 ? fmt::format("{}", value) : std::string("not known");
  };
  return ho::invalid(fmt::format(
      "{}: \"model_type\" {} is none of {}; understood: layers {}, hidden size {}, vocabulary {}; "
      "missing: the shapes of its layers; give {}{} params=N,layers={} and {}, {}",
      values.name(),
      type.empty() ? "(missing)" : ho::escaped(type, 64),
      fmt::join(known_families(), ", "),
      known(layers),
      known(hidden),
      known(vocabulary),
      values.has("text_config") ? "its \"text_config\" as a file of its own, or " : "",
      values.named()("model"),
      layers > 0 ? known(layers) : "N",
      values.named()("compute-time"),
      values.named()("activations")));
}

}  // namespace

namespace {

// What a file says that changes neither layers nor their sizes.
void note_ignored(ConfigValues& values) {
  if (values.has("quantization_config")) {
    values.assume(fmt::format("parameters as {} has them, not of the \"quantization_config\" in {}",
                              values.named()("precision"),
                              values.name()));
  }
  const auto heads = values.has_text("architectures")
                         ? std::vector{values.text_or("architectures", "")}
                         : values.texts_or_none("architectures");
  const auto of_words = [](const std::string& head) {
    return head.ends_with("LM") || head.ends_with("LMHeadModel") || head.ends_with("Generation") ||
           head.ends_with("PreTraining");
  };
  if (!heads.empty() && std::none_of(heads.begin(), heads.end(), of_words)) {
    values.assume(fmt::format(
        "a head of all words, though {} is a {}", values.name(), ho::escaped(heads.front(), 64)));
  }
}

}  // namespace

std::vector<std::string_view> known_families() {
  std::vector<std::string_view> names;
  names.reserve(kDecoders.size() + kOthers.size());
  for (const Decoder& family : kDecoders) {
    names.push_back(family.type);
  }
  for (const Family& family : kOthers) {
    names.push_back(family.type);
  }
  return names;
}

ho::Result<Transformer> parse_config(std::string_view text,
                                     std::string_view name,
                                     const ho::OptionNames& named) {
  HORING_ASSIGN(nlohmann::json object, parse_config_object(text, name));
  ConfigValues values(std::move(object), std::string(name), named);
  const std::string type = values.text_or("model_type", "");
  HORING_TRY(values.status());
  HORING_ASSIGN(Transformer model, read(values, type));
  note_ignored(values);
  HORING_TRY(values.status());
  model.family = type;
  model.assumed = values.assumed();
  if (const double total = parameters_of(model).total; total > kMaxModelParameters) {
    return ho::invalid(fmt::format(
        "{}: has {:.3g} parameters; takes at most {}", name, total, kMaxModelParameters));
  }
  return model;
}

}  // namespace paro
