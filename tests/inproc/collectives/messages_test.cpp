// Sends and receives of horing.h: which receive takes which message, what is held, when a send
// ends. Each case runs in shared memory (1xN) and over TCP (Nx1).
#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "scoped_variable.hpp"

using namespace ho::test;

namespace {

constexpr size_t kLarge = size_t{16} << 20;  // floats: 64 MiB

void expect_that(bool holds, const std::string& what) {
  if (!holds) {
    throw std::runtime_error("not so: " + what);
  }
}

void send(ho_comm* comm, const std::vector<float>& data, int32_t peer, int32_t tag) {
  must(ho_send(comm, data.data(), data.size(), HO_FLOAT32, peer, tag, nullptr, nullptr));
}

ho_request* start_send(ho_comm* comm, const std::vector<float>& data, int32_t peer, int32_t tag) {
  ho_request* request = nullptr;
  must(ho_send(comm, data.data(), data.size(), HO_FLOAT32, peer, tag, nullptr, &request));
  return request;
}

int32_t recv(ho_comm* comm, std::vector<float>& data, int32_t peer, int32_t tag) {
  int32_t source = -2;
  must(ho_recv(comm, data.data(), data.size(), HO_FLOAT32, peer, tag, nullptr, &source, nullptr));
  return source;
}

void barrier(ho_comm* comm) {
  float one = 1;
  must(ho_all_reduce(comm, &one, &one, 1, HO_FLOAT32, HO_SUM, nullptr, nullptr, nullptr));
}

std::vector<float> numbers(size_t count, float first) {
  std::vector<float> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

void for_both(const char* shared, const char* network, const std::function<void(ho_comm*)>& body) {
  require_job({shared}, body);
  require_job({network}, body);
}

}  // namespace

TEST_CASE("receives take messages by tag in any order of tags") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    if (ho_comm_rank(comm) == 0) {
      for (int32_t tag = 0; tag < 50; ++tag) {
        send(comm, numbers(10, static_cast<float>(tag)), 1, tag % 2 == 0 ? tag : -tag);
      }
    } else {
      for (int32_t tag = 49; tag >= 0; --tag) {
        std::vector<float> came(10);
        recv(comm, came, 0, tag % 2 == 0 ? tag : -tag);
        expect_that(came == numbers(10, static_cast<float>(tag)), "the message has its own data");
      }
    }
  });
}

TEST_CASE("messages with one tag do not overtake each other, whatever their sizes") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    const std::vector<size_t> sizes{3, 700000, 0, 5, 300000, 100000, 9, 1500000, 1};
    std::vector<std::vector<float>> data;
    std::vector<ho_request*> requests;
    for (size_t i = 0; i < sizes.size(); ++i) {
      data.push_back(ho_comm_rank(comm) == 0 ? numbers(sizes[i], static_cast<float>(i))
                                             : std::vector<float>(sizes[i]));
    }
    for (auto& each : data) {
      if (ho_comm_rank(comm) == 0) {
        requests.push_back(start_send(comm, each, 1, 7));
      } else {
        expect_that(recv(comm, each, 0, 7) == 0, "the source is the peer");
      }
    }
    for (ho_request* request : requests) {
      must(ho_request_wait(request, 0));
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      expect_that(data[i] == numbers(sizes[i], static_cast<float>(i)), "they come in order");
    }
  });
}

TEST_CASE("receives that are posted first are served first") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    if (ho_comm_rank(comm) == 1) {
      std::vector<std::vector<float>> came(20, std::vector<float>(1));
      std::vector<int32_t> sources(20, -2);
      std::vector<ho_request*> requests(20);
      for (size_t i = 0; i < came.size(); ++i) {
        must(ho_recv(comm,
                     came[i].data(),
                     1,
                     HO_FLOAT32,
                     i % 3 == 0 ? HO_ANY_SOURCE : 0,
                     4,
                     nullptr,
                     &sources[i],
                     &requests[i]));
      }
      for (size_t i = 0; i < came.size(); ++i) {
        must(ho_request_wait(requests[i], 0));
        expect_that(came[i][0] == static_cast<float>(i) && sources[i] == 0, "order of posting");
      }
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (int i = 0; i < 20; ++i) {
        send(comm, {static_cast<float>(i)}, 1, 4);
      }
    }
  });
}

TEST_CASE("a large message that waits does not block a small one behind it") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    if (ho_comm_rank(comm) == 0) {
      const std::vector<float> large = numbers(kLarge, 1);
      ho_request* request = start_send(comm, large, 1, 1);
      send(comm, {5}, 1, 2);
      must(ho_request_wait(request, 0));
    } else {
      std::vector<float> small(1);
      recv(comm, small, 0, 2);
      expect_that(small[0] == 5, "the small one");
      std::vector<float> large(kLarge);
      recv(comm, large, 0, 1);
      expect_that(large == numbers(kLarge, 1), "the large one");
    }
  });
}

TEST_CASE("two ranks that send 64 MiB to each other first and receive then both finish") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    const int32_t peer = 1 - ho_comm_rank(comm);
    const std::vector<float> mine = numbers(kLarge, static_cast<float>(ho_comm_rank(comm)));
    std::vector<float> came(kLarge);
    ho_request* request = start_send(comm, mine, peer, 0);
    recv(comm, came, peer, 0);
    must(ho_request_wait(request, 0));
    expect_that(came == numbers(kLarge, static_cast<float>(peer)), "the peer's data");
  });
}

TEST_CASE("what is held for one peer stays within its bound") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    constexpr int kMessages = 400;
    const std::vector<float> data(5000, 3.0F);  // 20 kB, 8 MB in all
    std::vector<ho_request*> requests;
    if (ho_comm_rank(comm) == 0) {
      for (int i = 0; i < kMessages; ++i) {
        requests.push_back(start_send(comm, data, 1, 9));
      }
      send(comm, {1}, 1, 1);
    } else {
      const uint64_t before = ho_comm_memory_bytes(comm);
      std::vector<float> last(1);
      recv(comm, last, 0, 1);
      const uint64_t held = ho_comm_memory_bytes(comm) - before;
      expect_that(held < (uint64_t{3} << 19), "at most 1.5 MiB more, not " + std::to_string(held));
      expect_that(held > (uint64_t{1} << 19), "more than 512 KiB, not " + std::to_string(held));
      for (int i = 0; i < kMessages; ++i) {
        std::vector<float> came(data.size());
        recv(comm, came, 0, 9);
        expect_that(came == data, "every one comes");
      }
    }
    for (ho_request* request : requests) {
      must(ho_request_wait(request, 0));
    }
  });
}

TEST_CASE("ranks that flood a receiver from any source cannot starve another") {
  for_both("1x4", "4x1", [](ho_comm* comm) {
    constexpr int kFlood = 2000;
    const int32_t rank = ho_comm_rank(comm);
    if (rank == 1 || rank == 2) {
      send(comm, {0}, 0, 1);
      for (int i = 0; i < kFlood; ++i) {
        send(comm, {static_cast<float>(i)}, 0, 0);
      }
    } else if (rank == 3) {
      for (int i = 0; i < 10; ++i) {
        send(comm, {static_cast<float>(i)}, 0, 0);
      }
      send(comm, {0}, 0, 1);
    } else {
      std::vector<int> from(4);
      std::vector<float> came(1);
      // All have begun, and what the third sends is here.
      for (int32_t peer = 1; peer < 4; ++peer) {
        recv(comm, came, peer, 1);
      }
      int third = 0;
      for (int i = 0; i < 2 * kFlood + 10; ++i) {
        const int32_t source = recv(comm, came, HO_ANY_SOURCE, 0);
        expect_that(came[0] == static_cast<float>(from.at(static_cast<size_t>(source))++),
                    "each peer's in order");
        third = from[3] == 10 && third == 0 ? i : third;
      }
      expect_that(third < 200, "the third is through at " + std::to_string(third));
    }
    barrier(comm);
  });
}

TEST_CASE("a receive from any rank takes the message of a rank that comes late") {
  for_both("1x4", "4x1", [](ho_comm* comm) {
    const int32_t rank = ho_comm_rank(comm);
    for (int32_t sender = 0; sender < 4; ++sender) {
      const int32_t receiver = (sender + 1) % 4;
      if (rank == sender) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        send(comm, {static_cast<float>(sender)}, receiver, 3);
      } else if (rank == receiver) {
        std::vector<float> came(1);
        expect_that(recv(comm, came, HO_ANY_SOURCE, 3) == sender, "the source is who sent");
        expect_that(came[0] == static_cast<float>(sender), "with its data");
      }
    }
  });
}

TEST_CASE("a rank that is in a collective takes in what is sent to it") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    const std::vector<float> data = numbers(200000, 2);  // 800 kB
    if (ho_comm_rank(comm) == 0) {
      send(comm, data, 1, 0);
      barrier(comm);
    } else {
      barrier(comm);
      std::vector<float> came(data.size());
      recv(comm, came, 0, 0);
      expect_that(came == data, "it was held");
    }
  });
}

TEST_CASE("messages to oneself match, held or waiting, in a world of one as well") {
  const auto body = [](ho_comm* comm) {
    const int32_t self = ho_comm_rank(comm);
    std::vector<float> came(3);
    send(comm, numbers(3, 1), self, 5);
    send(comm, numbers(3, 2), self, 6);
    send(comm, {}, self, 8);
    expect_that(recv(comm, came, self, 6) == self && came == numbers(3, 2), "by tag");
    expect_that(recv(comm, came, HO_ANY_SOURCE, 5) == self && came == numbers(3, 1), "from any");
    std::vector<float> none;
    recv(comm, none, self, 8);
    const std::vector<float> large = numbers(1000000, 1);
    ho_request* request = start_send(comm, large, self, 7);
    int32_t done = 1;
    must(ho_request_test(request, &done));
    expect_that(done == 0, "4 MB wait for their receive");
    std::vector<float> large_came(large.size());
    recv(comm, large_came, self, 7);
    expect_that(large_came == large, "and come");
    must(ho_request_wait(request, 0));
  };
  require_job({"1x1"}, body);
  require_job({"1x2"}, body);
}

TEST_CASE("messages of no elements match like others") {
  for_both("1x2", "2x1", [](ho_comm* comm) {
    std::vector<float> none;
    if (ho_comm_rank(comm) == 0) {
      send(comm, none, 1, 1);
      send(comm, {4}, 1, 1);
    } else {
      recv(comm, none, 0, 1);
      std::vector<float> one(1);
      recv(comm, one, 0, 1);
      expect_that(one[0] == 4, "the second is the second");
    }
  });
}

TEST_CASE("counts or types that differ are an error that names both") {
  for (const char* groups : {"1x2", "2x1"}) {
    for (const size_t count : {size_t{12}, size_t{1200000}}) {
      const auto errors = run_job({groups}, [&](ho_comm* comm) {
        std::vector<float> data(count + 2);
        if (ho_comm_rank(comm) == 0) {
          must(ho_send(comm, data.data(), count, HO_FLOAT32, 1, 7, nullptr, nullptr));
          recv(comm, data, 1, 0);
        } else {
          must(ho_recv(comm, data.data(), count + 2, HO_INT32, 0, 7, nullptr, nullptr, nullptr));
        }
      });
      for (const std::string& error : errors) {
        INFO(groups << ": " << error);
        CHECK(error.find("rank 1 receives " + std::to_string(count + 2) +
                         " int32 but rank 0 sent " + std::to_string(count) + " float with tag 7") !=
              std::string::npos);
      }
    }
  }
}

TEST_CASE("a receive that nobody serves ends at its deadline and says what it was") {
  JobOptions options{"2x1"};
  options.timeout_ms = 300;
  const auto errors = run_job(options, [](ho_comm* comm) {
    std::vector<float> data(12);
    if (ho_comm_rank(comm) == 0) {
      recv(comm, data, HO_ANY_SOURCE, 9);
    } else {
      recv(comm, data, 0, 7);
    }
  });
  INFO(errors[0] << "\n" << errors[1]);
  const std::string all = errors[0] + errors[1];
  CHECK(all.find("did not complete within 300 ms") != std::string::npos);
  CHECK((all.find("recv from any rank tag 9 (12 float)") != std::string::npos ||
         all.find("recv from rank 0 tag 7 (12 float)") != std::string::npos));
}

TEST_CASE("an abort ends sends and receives that wait") {
  for (const char* groups : {"1x2", "2x1"}) {
    std::promise<void> sends;
    const auto errors = run_job({groups}, [&](ho_comm* comm) {
      std::vector<float> data(12);
      if (ho_comm_rank(comm) == 0) {
        sends.get_future().wait_for(std::chrono::minutes(2));
        // The other should be in its receive by then; where it is not, less is proved.
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        must(ho_comm_abort(comm, "enough"));
      } else {
        const std::vector<float> large(1000000);
        ho_request* request = start_send(comm, large, 0, 1);
        sends.set_value();
        const ho_status received =
            ho_recv(comm, data.data(), 12, HO_FLOAT32, HO_ANY_SOURCE, 7, nullptr, nullptr, nullptr);
        const std::string text = ho_last_error_message();
        expect_that(received == HO_ABORTED && ho_request_wait(request, 0) == HO_ABORTED, "aborted");
        throw std::runtime_error(text);
      }
    });
    INFO(groups << ": " << errors[1]);
    CHECK(errors[1].find("enough") != std::string::npos);
    CHECK(errors[1].find("recv from any rank tag 7 (12 float)") != std::string::npos);
  }
}

TEST_CASE("what a rank sent before it left arrives, and what cannot come ends at once") {
  for (const char* groups : {"1x2", "2x1"}) {
    const auto errors = run_job({groups}, [](ho_comm* comm) {
      std::vector<float> data(12);
      if (ho_comm_rank(comm) == 0) {
        send(comm, numbers(12, 3), 1, 1);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      recv(comm, data, 0, 1);
      expect_that(data == numbers(12, 3), "it was sent before");
      std::string text;
      for (const int32_t peer : {0, HO_ANY_SOURCE}) {
        expect_that(
            ho_recv(comm, data.data(), 12, HO_FLOAT32, peer, 2, nullptr, nullptr, nullptr) ==
                HO_PEER_LOST,
            "rank 0 has left");
        text += ho_last_error_message();
      }
      expect_that(
          ho_send(comm, data.data(), 12, HO_FLOAT32, 0, 2, nullptr, nullptr) == HO_PEER_LOST,
          "a send to it");
      text += ho_last_error_message();
      throw std::runtime_error(text);
    });
    INFO(groups << ": " << errors[1]);
    CHECK(errors[0].empty());
    for (const char* part : {"recv from rank 0 tag 2",
                             "recv from any rank tag 2",
                             "send to rank 0 tag 2",
                             "rank 0 has left"}) {
      CHECK(errors[1].find(part) != std::string::npos);
    }
  }
}

TEST_CASE("messages find their way where idle links are closed all the time") {
  const ScopedVariable cap("HORING_TCP_MAX_CONNECTIONS", "2");
  require_job({"5x1"}, [](ho_comm* comm) {
    const int32_t rank = ho_comm_rank(comm);
    for (int round = 0; round < 10; ++round) {
      for (int32_t step = 1; step < 5; ++step) {
        const std::vector<float> mine =
            numbers(step % 2 == 0 ? 10 : 400000, static_cast<float>(rank));
        std::vector<float> came(mine.size());
        ho_request* request = start_send(comm, mine, (rank + step) % 5, round);
        const int32_t from = (rank + 5 - step) % 5;
        recv(comm, came, step % 2 == 0 ? from : HO_ANY_SOURCE, round);
        must(ho_request_wait(request, 0));
        if (step % 2 == 0) {
          expect_that(came == numbers(came.size(), static_cast<float>(from)), "the peer's data");
        }
        barrier(comm);
      }
    }
  });
}
