// A transformer by its shapes: what its units hold, tensor by tensor. Pure.
//
// Sizes are whole numbers kept as doubles, as counts of parameters are everywhere here: products of
// them do not overflow, and are exact up to 2^53, beyond any model that is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paro {

// Queries, keys and values of a layer, and what joins the heads again.
struct Attention {
  double heads = 0;
  double kv_heads = 0;   // that keys and values have, each shared by heads / kv_heads heads
  double head_dim = 0;   // of queries and keys
  double value_dim = 0;  // of values
  // Latent attention (MLA): what queries, and keys with values, are projected from; 0: from the
  // hidden state. rope_dim of head_dim is one for all heads.
  double query_rank = 0;
  double kv_rank = 0;
  double rope_dim = 0;
  double reach = 0;  // tokens that one attends to at most; 0: all
  bool causal = true;
};

// Routed to by a router that every token passes; `active` of them compute with a token.
struct Experts {
  double count = 0;  // 0: the layer has a feed-forward part that is dense
  double active = 0;
  double width = 0;         // of each
  double vectors = 0;       // biases of each
  double shared_width = 0;  // of those together that compute with every token
};

struct Layer {
  Attention attention;
  bool cross = false;  // a second attention, to an encoder's output
  double width = 0;    // of the dense feed-forward part
  bool gated = true;   // three matrices instead of two
  Experts experts;
  double vectors = 0;  // norms, biases and other parameters that are no matrix
};

struct Transformer {
  std::string family;  // "llama": Hugging Face's model_type
  double hidden = 0;
  double vocabulary = 0;
  uint32_t sequence = 0;  // the longest; 0: not known
  bool tied = false;      // the head computes with the embedding's matrix
  bool dropout = false;   // in training
  double embedding = 0;   // parameters of the embedding, positions and their norm included
  double head_own = 0;    // parameters of the head beside its vocabulary x hidden matrix
  std::vector<Layer> layers;
  std::vector<std::string> assumed;  // what its file leaves out and parameters depend on
};

// Of one layer.
struct LayerParameters {
  double attention = 0;
  double feed_forward = 0;  // dense, and experts that are shared
  double router = 0;
  double routed = 0;         // all experts
  double routed_active = 0;  // those of them that compute with a token
  double vectors = 0;
  [[nodiscard]] double total() const {
    return attention + feed_forward + router + routed + vectors;
  }
  // Of matrices that a token is multiplied with.
  [[nodiscard]] double matrices() const {
    return attention + feed_forward + router + routed_active;
  }
};
[[nodiscard]] LayerParameters layer_parameters(double hidden, const Layer& layer);

enum class UnitKind : uint8_t { kEmbedding, kLayer, kHead };

// Parameters that are gathered and released together.
struct ModelUnit {
  UnitKind kind = UnitKind::kLayer;
  double parameters = 0;  // held by it
  double routed = 0;      // of them, routed experts
  double shared = 0;      // that it computes with and that another unit holds
};

// In the order of the forward pass: the embedding, the layers, the head.
[[nodiscard]] std::vector<ModelUnit> units_of(const Transformer& model);

// Of all units.
struct ModelParameters {
  double total = 0;
  double routed = 0;  // of them, routed experts
  double active = 0;  // that a token meets: all but the routed experts that it is not sent to
};
[[nodiscard]] ModelParameters parameters_of(const Transformer& model);

}  // namespace paro
