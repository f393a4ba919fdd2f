#include "bootstrap/rendezvous/rendezvous.hpp"

#include <map>

#include "bootstrap/messages/wire.hpp"
#include "bootstrap/rendezvous/rendezvous_endpoint.hpp"
#include "catch.hpp"

using namespace ho;

namespace {

using Environment = std::map<std::string, std::string>;

Result<Rendezvous> from(const Environment& environment) {
  return rendezvous_from([&](const std::string& name) -> std::optional<std::string> {
    const auto entry = environment.find(name);
    return entry == environment.end() ? std::nullopt : std::optional(entry->second);
  });
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("launchers' variables say who and where") {
  struct Row {
    Environment environment;
    uint32_t rank;
    uint32_t world_size;
    std::optional<uint32_t> local_rank;
    std::string address;
    std::string source;
  };
  const std::vector<Row> rows{
      {{}, 0, 1, {}, "", "no launcher"},
      {{{"RANK", "3"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"MASTER_ADDR", "node1"},
        {"MASTER_PORT", "29500"}},
       3,
       8,
       1,
       "tcp://node1:29500",
       "torchrun"},
      {{{"RANK", "3"},
        {"WORLD_SIZE", "8"},
        {"MASTER_ADDR", "fd00::1"},
        {"MASTER_PORT", "29500"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       3,
       8,
       {},
       "tcp://[fd00::1]:29501",
       "torchrun"},
      {{{"SLURM_PROCID", "2"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_JOB_ID", "10"},
        {"SLURM_STEP_ID", "1"},
        {"SLURM_STEP_NODELIST", "n[03-07,9]"},
        {"SLURM_JOB_NODELIST", "n[01-09]"}},
       2,
       4,
       0,
       "tcp://n03:15071",
       "slurm"},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"},
        {"HORING_RENDEZVOUS", "file:///tmp/meet"}},
       1,
       2,
       1,
       "file:///tmp/meet",
       "openmpi"},
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_NAMESPACE", "77"}},
       1,
       2,
       {},
       "tcp://127.0.0.1:16760",
       "openmpi"},
      {{{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"MPI_LOCALRANKID", "0"},
        {"HORING_RENDEZVOUS", "tcp://10.0.0.1:5000"},
        {"MASTER_ADDR", "other"},
        {"MASTER_PORT", "1"}},
       1,
       2,
       0,
       "tcp://10.0.0.1:5000",
       "pmi"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, 0, 1, {}, "", "torchrun"},
  };
  for (const Row& row : rows) {
    const auto result = from(row.environment);
    INFO(row.source << " " << row.address << " " << result.status().message());
    REQUIRE(result.ok());
    CHECK(result->rank == row.rank);
    CHECK(result->world_size == row.world_size);
    CHECK(result->local_rank == row.local_rank);
    CHECK(result->address == row.address);
    CHECK(result->source == row.source);
  }
}

TEST_CASE("the environment says which job a rank is of") {
  const std::string uuid = "01234567-89ab-cdef-0123-456789abcdef";
  const std::vector<std::pair<Environment, std::string>> rows{
      {{}, ""},
      {{{"HORING_JOB_ID", "a"}, {"SLURM_JOB_ID", "7"}}, "HORING_JOB_ID=a"},
      {{{"RANK", "0"},
        {"TORCHELASTIC_RUN_ID", uuid},
        {"SLURM_JOB_ID", "7"},
        {"SLURM_STEP_ID", "1"}},
       "TORCHELASTIC_RUN_ID=" + uuid + " SLURM_JOB_ID=7"},
      {{{"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "none"}}, ""},
      {{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}},
       "SLURM_JOB_ID=7 SLURM_STEP_ID=1"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}}, ""},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_NAMESPACE", "n@1"}, {"OMPI_MCA_ess_base_jobid", "3"}},
       "PMIX_NAMESPACE=n@1"},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_MCA_ess_base_jobid", "3"}},
       "OMPI_MCA_ess_base_jobid=3"},
      {{{"PMI_RANK", "0"}, {"PMI_JOBID", "5"}}, "PMI_JOBID=5"},
  };
  for (const auto& row : rows) {
    const Environment& environment = row.first;
    const auto said = job_identity_from([&](const std::string& name) -> std::optional<std::string> {
      const auto entry = environment.find(name);
      return entry == environment.end() ? std::nullopt : std::optional(entry->second);
    });
    CHECK(said == row.second);
    CHECK(said.size() <= wire::kMaxJobBytes);
  }
  const auto of_id = [](const std::string& id) {
    return job_identity_from([&](const std::string& name) {
      return name == "HORING_JOB_ID" ? std::optional(id) : std::nullopt;
    });
  };
  // Neither length nor odd characters make two the same, or forge another entry.
  CHECK(of_id(std::string(200, 'x')) != of_id(std::string(201, 'x')));
  CHECK(of_id(std::string(200, 'x')).size() <= wire::kMaxJobBytes);
  CHECK(of_id("a SLURM_JOB_ID=3").find(' ') == std::string::npos);
  CHECK(from({{"RANK", "0"},
              {"WORLD_SIZE", "2"},
              {"HORING_RENDEZVOUS", "tcp://h:1"},
              {"HORING_JOB_ID", "a"}})
            ->job == "HORING_JOB_ID=a");
}

TEST_CASE("two jobs differ where something that both have differs") {
  CHECK(compare_jobs("SLURM_JOB_ID=7", "SLURM_JOB_ID=7").same);
  CHECK(compare_jobs("SLURM_JOB_ID=7", "SLURM_JOB_ID=7").difference.empty());
  CHECK(compare_jobs("SLURM_JOB_ID=7", "SLURM_JOB_ID=8").difference == "SLURM_JOB_ID is 7 and 8");
  CHECK(compare_jobs("TORCHELASTIC_RUN_ID=a SLURM_JOB_ID=7", "TORCHELASTIC_RUN_ID=a SLURM_JOB_ID=8")
            .difference == "SLURM_JOB_ID is 7 and 8");
  for (const auto& [one, other] : {std::pair{"", ""},
                                   std::pair{"SLURM_JOB_ID=7", ""},
                                   std::pair{"PMI_JOBID=7", "SLURM_JOB_ID=8"}}) {
    CHECK_FALSE(compare_jobs(one, other).same);
    CHECK(compare_jobs(one, other).difference.empty());
  }
  CHECK(compare_jobs("HORING_JOB_ID=a", "").difference == "HORING_JOB_ID is a and not set");
  CHECK(compare_jobs("SLURM_JOB_ID=7", "HORING_JOB_ID=a").difference ==
        "HORING_JOB_ID is not set and a");
}

TEST_CASE("half-set and contradictory variables are named") {
  const std::vector<std::pair<Environment, std::vector<std::string>>> rows{
      {{{"RANK", "1"}}, {"RANK=1", "WORLD_SIZE is not set"}},
      {{{"PMI_SIZE", "4"}}, {"PMI_RANK is not set", "PMI_SIZE=4"}},
      {{{"RANK", "4"}, {"WORLD_SIZE", "4"}}, {"RANK=4", "WORLD_SIZE=4", "contradict"}},
      {{{"RANK", "x"}, {"WORLD_SIZE", "4"}}, {"RANK=x", "whole number"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}, {"WORLD_SIZE=99999999999"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE=0"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {"HORING_RENDEZVOUS", "MASTER_ADDR"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}},
       {"MASTER_ADDR=h", "MASTER_PORT is not set"}},
      {{{"RANK", "0"},
        {"WORLD_SIZE", "2"},
        {"MASTER_ADDR", "h"},
        {"MASTER_PORT", "65535"},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"}},
       {"MASTER_PORT=65535"}},
      {{{"HORING_RENDEZVOUS", "tcp://h:1"}}, {"RANK", "WORLD_SIZE"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"HORING_RENDEZVOUS", "udp://h:1"}}, {"udp://h:1"}},
      {{{"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_ID", "1"},
        {"SLURM_JOB_NODELIST", "n[a-b]"}},
       {"n[a-b]", "HORING_RENDEZVOUS"}},
  };
  for (const auto& [environment, parts] : rows) {
    const auto result = from(environment);
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code() == StatusCode::kInvalidArgument);
    for (const std::string& part : parts) {
      INFO(result.status().message());
      CHECK(has(result.status().message(), part));
    }
  }
}

TEST_CASE("the first host of a Slurm node list is found, no list is refused") {
  const std::vector<std::pair<std::string, std::string>> good{
      {"node1", "node1"},
      {"node1,node2", "node1"},
      {"node[03-07,9]", "node03"},
      {"node[9,03-07],x", "node9"},
      {"rack[1-2]n[004-009]-ib", "rack1n004-ib"},
      {"a[1],b", "a1"},
  };
  for (const auto& [list, host] : good) {
    INFO(list);
    CHECK(first_host_of(list).value() == host);
  }
  for (const std::string bad : {"", ",a", "n[", "n[]", "n[a]", "n]", "a b", "n[1", "[-2]"}) {
    INFO(bad);
    CHECK_FALSE(first_host_of(bad).ok());
  }
  CHECK_FALSE(first_host_of(std::string(5000, 'a')).ok());
}

TEST_CASE("endpoints of a rendezvous are parsed, what is none is refused") {
  CHECK(parse_rendezvous_endpoint("tcp://h:12")->tcp == HostPort{"h", 12});
  CHECK(parse_rendezvous_endpoint("tcp://[::1]:12")->tcp == HostPort{"::1", 12});
  CHECK(parse_rendezvous_endpoint("file:///a/b")->path == "/a/b");
  for (const std::string bad : {"",
                                "h:1",
                                "tcp://",
                                "tcp://h",
                                "tcp://h:",
                                "tcp://:1",
                                "tcp://h:0",
                                "tcp://h:65536",
                                "tcp://h:1x",
                                "tcp://::1:5",
                                "tcp://h h:1",
                                "file://a",
                                "file://",
                                "file:///",
                                "file:///a/"}) {
    INFO(bad);
    CHECK_FALSE(parse_rendezvous_endpoint(bad).ok());
  }
}

TEST_CASE("a rendezvous file is read back whole or not at all") {
  const RendezvousFile file{"SLURM_JOB_ID=7",
                            {{"10.0.0.1", 4000}, {"fd00::2", 4000}, {"127.0.0.1", 4000}}};
  const std::string text = rendezvous_file_text(file);
  REQUIRE(parse_rendezvous_file(text).value() == file);
  REQUIRE(parse_rendezvous_file(rendezvous_file_text({"", file.addresses}))->job.empty());
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    CHECK_FALSE(parse_rendezvous_file(text.substr(0, length)).ok());
  }
  CHECK_FALSE(parse_rendezvous_file("some other file\nend\n").ok());
  CHECK_FALSE(parse_rendezvous_file(std::string(100000, '\n')).ok());
  std::string many = "horing rendezvous 2\njob \n";
  for (int i = 0; i < 100; ++i) {
    many += "h:1\n";
  }
  CHECK_FALSE(parse_rendezvous_file(many + "end\n").ok());
}
