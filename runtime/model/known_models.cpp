#include "model/known_models.hpp"

#include <array>
#include <string>

#include "base/near_names.hpp"
#include "model/config.hpp"

namespace paro {
namespace {

struct Known {
  std::string_view name;
  std::string_view config;
};

// The sizes that each model was published with (its paper's table of shapes and the config.json
// beside its weights), as such a file has them.
constexpr std::array kKnown{
    Known{"llama-7b",
          R"({"model_type":"llama","hidden_size":4096,"intermediate_size":11008,
"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,
"vocab_size":32000,"max_position_embeddings":2048})"},
    Known{"llama-13b",
          R"({"model_type":"llama","hidden_size":5120,"intermediate_size":13824,
"num_hidden_layers":40,"num_attention_heads":40,"num_key_value_heads":40,
"vocab_size":32000,"max_position_embeddings":2048})"},
    Known{"llama-30b",
          R"({"model_type":"llama","hidden_size":6656,"intermediate_size":17920,
"num_hidden_layers":60,"num_attention_heads":52,"num_key_value_heads":52,
"vocab_size":32000,"max_position_embeddings":2048})"},
    Known{"llama-65b",
          R"({"model_type":"llama","hidden_size":8192,"intermediate_size":22016,
"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":64,
"vocab_size":32000,"max_position_embeddings":2048})"},
    Known{"llama-2-70b",
          R"({"model_type":"llama","hidden_size":8192,"intermediate_size":28672,
"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,
"vocab_size":32000,"max_position_embeddings":4096})"},
    Known{"llama-3-8b",
          R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,
"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
"vocab_size":128256,"max_position_embeddings":8192})"},
    Known{"llama-3-70b",
          R"({"model_type":"llama","hidden_size":8192,"intermediate_size":28672,
"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,
"vocab_size":128256,"max_position_embeddings":8192})"},
    Known{"llama-3.1-405b",
          R"({"model_type":"llama","hidden_size":16384,"intermediate_size":53248,
"num_hidden_layers":126,"num_attention_heads":128,"num_key_value_heads":8,
"vocab_size":128256,"max_position_embeddings":131072})"},
    Known{"mistral-7b",
          R"({"model_type":"mistral","hidden_size":4096,"intermediate_size":14336,
"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
"vocab_size":32000,"max_position_embeddings":32768,"sliding_window":null})"},
    Known{"mixtral-8x7b",
          R"({"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,
"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,
"vocab_size":32000,"max_position_embeddings":32768,"num_local_experts":8,
"num_experts_per_tok":2})"},
    Known{"mixtral-8x22b",
          R"({"model_type":"mixtral","hidden_size":6144,"intermediate_size":16384,
"num_hidden_layers":56,"num_attention_heads":48,"num_key_value_heads":8,
"vocab_size":32768,"num_local_experts":8,"num_experts_per_tok":2,
"max_position_embeddings":65536})"},
    Known{"qwen2-7b",
          R"({"model_type":"qwen2","hidden_size":3584,"intermediate_size":18944,
"num_hidden_layers":28,"num_attention_heads":28,"num_key_value_heads":4,
"vocab_size":152064})"},
    Known{"qwen2.5-72b",
          R"({"model_type":"qwen2","hidden_size":8192,"intermediate_size":29568,
"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,
"vocab_size":152064})"},
    Known{"qwen3-8b",
          R"({"model_type":"qwen3","hidden_size":4096,"intermediate_size":12288,
"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,
"head_dim":128,"vocab_size":151936})"},
    Known{"qwen3-32b",
          R"({"model_type":"qwen3","hidden_size":5120,"intermediate_size":25600,
"num_hidden_layers":64,"num_attention_heads":64,"num_key_value_heads":8,
"head_dim":128,"vocab_size":151936})"},
    Known{"qwen3-30b-a3b",
          R"({"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,
"num_hidden_layers":48,"num_attention_heads":32,"num_key_value_heads":4,
"head_dim":128,"vocab_size":151936,"moe_intermediate_size":768,"num_experts":128,
"num_experts_per_tok":8,"decoder_sparse_step":1})"},
    Known{"deepseek-v2",
          R"({"model_type":"deepseek_v2","hidden_size":5120,"intermediate_size":12288,
"num_hidden_layers":60,"num_attention_heads":128,"num_key_value_heads":128,
"vocab_size":102400,"first_k_dense_replace":1,"kv_lora_rank":512,"q_lora_rank":1536,
"n_routed_experts":160,"n_shared_experts":2,"num_experts_per_tok":6,
"moe_intermediate_size":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
"v_head_dim":128})"},
    Known{"deepseek-v3",
          R"({"model_type":"deepseek_v3","hidden_size":7168,"intermediate_size":18432,
"num_hidden_layers":61,"num_attention_heads":128,"num_key_value_heads":128,
"vocab_size":129280,"first_k_dense_replace":3,"kv_lora_rank":512,"q_lora_rank":1536,
"n_routed_experts":256,"n_shared_experts":1,"num_experts_per_tok":8,
"moe_intermediate_size":2048,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
"v_head_dim":128,"max_position_embeddings":163840})"},
    Known{"gpt-oss-20b",
          R"({"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,
"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,
"head_dim":64,"vocab_size":201088,"num_local_experts":32,"num_experts_per_tok":4,
"sliding_window":128})"},
    Known{"gpt-oss-120b",
          R"({"model_type":"gpt_oss","hidden_size":2880,"intermediate_size":2880,
"num_hidden_layers":36,"num_attention_heads":64,"num_key_value_heads":8,
"head_dim":64,"vocab_size":201088,"num_local_experts":128,"num_experts_per_tok":4,
"sliding_window":128})"},
    Known{"gpt2",
          R"({"model_type":"gpt2","n_embd":768,"n_layer":12,"n_head":12,"vocab_size":50257,
"n_positions":1024})"},
    Known{"gpt2-xl",
          R"({"model_type":"gpt2","n_embd":1600,"n_layer":48,"n_head":25,"vocab_size":50257,
"n_positions":1024})"},
    Known{"bert-large",
          R"({"model_type":"bert","hidden_size":1024,"intermediate_size":4096,
"num_hidden_layers":24,"num_attention_heads":16,"vocab_size":30522,
"max_position_embeddings":512,"type_vocab_size":2})"},
    Known{"t5-11b",
          R"({"model_type":"t5","d_model":1024,"d_ff":65536,"d_kv":128,"num_layers":24,
"num_heads":128,"vocab_size":32128,"relative_attention_num_buckets":32})"},
};

}  // namespace

std::vector<std::string_view> known_models() {
  std::vector<std::string_view> names;
  names.reserve(kKnown.size());
  for (const Known& model : kKnown) {
    names.push_back(model.name);
  }
  return names;
}

ho::Result<Transformer> known_model(std::string_view name) {
  for (const Known& model : kKnown) {
    if (model.name == name) {
      return parse_config(model.config, name);
    }
  }
  return ho::invalid("'" + std::string(name) + "' is not known" +
                     ho::near_names_text(name, known_models()));
}

}  // namespace paro
