#include "core/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MachineIdentity server() {
  return {"GenuineIntel",
          6,
          207,
          2,
          "Intel(R) Xeon(R) Processor",
          parse_target("x86-64-amx").value(),
          2,
          2,
          48 << 10,
          2 << 20,
          300 << 20,
          "KVMKVMKVM"};
}

Calibration calibration(MachineIdentity machine, double core_rate) {
  return {std::move(machine),
          2,
          {{"core_bytes_per_second", {core_rate, "measured: one core, 4 streams"}},
           {"memory_bytes_per_second", {2 * core_rate, "measured: 2 workers"}},
           {"l1_bytes_per_second", {3e11, "measured: one core"}}}};
}

// A change of each field of an identity, with the field's name.
struct Change {
  const char* field;
  std::function<void(MachineIdentity*)> make;
};
std::vector<Change> changes() {
  return {{"vendor", [](MachineIdentity* m) { m->vendor = "AuthenticAMD"; }},
          {"family", [](MachineIdentity* m) { m->family = 25; }},
          {"model", [](MachineIdentity* m) { m->model = 143; }},
          {"stepping", [](MachineIdentity* m) { m->stepping = 3; }},
          {"name", [](MachineIdentity* m) { m->name = "another"; }},
          {"cores", [](MachineIdentity* m) { m->cores = 4; }},
          {"processors", [](MachineIdentity* m) { m->processors = 4; }},
          {"l1d_bytes", [](MachineIdentity* m) { m->l1d_bytes = 1; }},
          {"l2_bytes", [](MachineIdentity* m) { m->l2_bytes = 1; }},
          {"l3_bytes", [](MachineIdentity* m) { m->l3_bytes = 1; }},
          {"hypervisor", [](MachineIdentity* m) { m->hypervisor = "none"; }},
          {"target", [](MachineIdentity* m) { m->target = parse_target("x86-64-avx2").value(); }}};
}

CalibrationFile file_of(std::vector<Calibration> machines) {
  return {"/shared.json", std::move(machines), {}};
}

DeviceFacts table_facts() {
  DeviceFacts facts;
  facts.name = "Xeon";
  facts.target = server().target;
  facts.facts = {{"core_bytes_per_second", {21e9, "default: Emerald Rapids"}},
                 {"memory_bytes_per_second", {358e9, "default: Emerald Rapids"}},
                 {"l2_bytes", {2 << 20, "/sys/size"}}};
  return facts;
}

TEST(Calibration, RoundTripsThroughItsFile) {
  const std::vector<Calibration> machines = {calibration(server(), 17e9), [] {
                                               MachineIdentity other = server();
                                               other.hypervisor = "none";
                                               return calibration(std::move(other), 19.25e9);
                                             }()};
  const auto read = parse_calibrations(calibration_text(machines));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->refused, IsEmpty());
  ASSERT_EQ(read->machines.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->machines[i].machine, machines[i].machine);
    EXPECT_EQ(to_json(read->machines[i]), to_json(machines[i]));
    EXPECT_EQ(read->machines[i].facts.at("core_bytes_per_second").value, i == 0 ? 17e9 : 19.25e9);
  }
  EXPECT_EQ(calibration_text(read->machines), calibration_text(machines));
}

TEST(Calibration, EveryFieldOfTheIdentityCounts) {
  const Json json = to_json(calibration(server(), 1e9))["machine"];
  EXPECT_EQ(json.size(), changes().size()) << "each field needs a change in this test";
  for (const Change& change : changes()) {
    EXPECT_TRUE(json.contains(change.field)) << change.field;
    MachineIdentity other = server();
    change.make(&other);
    EXPECT_FALSE(server() == other) << change.field;
    EXPECT_THAT(server().difference(other), HasSubstr(std::string(change.field) + " is ")) << change.field;
    DeviceFacts facts = table_facts();
    apply_calibration(file_of({calibration(server(), 17e9)}), other, 2, &facts);
    EXPECT_EQ(facts.facts.at("core_bytes_per_second").value, 21e9) << change.field;
    EXPECT_THAT(facts.calibration, HasSubstr("not used: /shared.json: it is for another machine: " +
                                             std::string(change.field) + " is "));
  }
  EXPECT_EQ(server().difference(server()), "");
}

TEST(Calibration, ReplacesFactsOfItsMachineInASharedFile) {
  MachineIdentity other = server();
  other.model = 143;
  const CalibrationFile file = file_of({calibration(other, 12e9), calibration(server(), 17e9)});
  DeviceFacts facts = table_facts();
  apply_calibration(file, server(), 2, &facts);
  EXPECT_EQ(facts.facts.at("core_bytes_per_second").value, 17e9);
  EXPECT_EQ(facts.facts.at("memory_bytes_per_second").value, 34e9);
  EXPECT_EQ(facts.facts.at("l1_bytes_per_second").value, 3e11) << "a new fact";
  EXPECT_EQ(facts.facts.at("l2_bytes").value, 2 << 20) << "not measured, so it stays";
  EXPECT_EQ(origin_of(facts.facts.at("core_bytes_per_second")), "measured");
  EXPECT_EQ(facts.calibration, "measured with 2 workers: /shared.json");
  DeviceFacts of_other = table_facts();
  apply_calibration(file, other, 2, &of_other);
  EXPECT_EQ(of_other.facts.at("core_bytes_per_second").value, 12e9);

  MachineIdentity third = server();
  third.cores = 8;
  DeviceFacts of_third = table_facts();
  apply_calibration(file, third, 2, &of_third);
  EXPECT_THAT(of_third.calibration, HasSubstr("none of its 2 machines is this one"));
}

TEST(Calibration, FactsOfAllWorkersNeedTheSameNumberOfWorkers) {
  DeviceFacts facts = table_facts();
  apply_calibration(file_of({calibration(server(), 17e9)}), server(), 1, &facts);
  EXPECT_EQ(facts.facts.at("core_bytes_per_second").value, 17e9);
  EXPECT_EQ(facts.facts.at("memory_bytes_per_second").value, 358e9);
  EXPECT_THAT(facts.calibration, HasSubstr("this device has 1"));
}

TEST(Calibration, NoFileLeavesFactsUnchanged) {
  DeviceFacts facts = table_facts();
  apply_calibration({}, server(), 2, &facts);
  EXPECT_EQ(to_json(facts), to_json(table_facts()));
}

TEST(Calibration, DamagedEntriesAreRefusedAndOthersKept) {
  Json file = {{"lathe_calibration", 1}, {"machines", Json::array()}};
  const Json good = to_json(calibration(server(), 17e9));
  file["machines"].push_back(good);
  const auto damaged = [&](auto&& change) {
    Json bad = good;
    change(&bad);
    Json all = file;
    all["machines"].push_back(bad);
    const auto read = parse_calibrations(all.dump());
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->machines.size(), 1u) << bad.dump();
    EXPECT_EQ(read->refused.size(), 1u) << bad.dump();
    return read->refused.empty() ? "" : read->refused[0];
  };
  EXPECT_THAT(damaged([](Json* j) { j->erase("facts"); }), HasSubstr("machines[1]: calibration: "));
  EXPECT_THAT(damaged([](Json* j) { (*j)["more"] = 1; }), HasSubstr("machines[1]"));
  EXPECT_THAT(damaged([](Json* j) { (*j)["machine"]["cores"] = -1; }), HasSubstr("cores"));
  EXPECT_THAT(damaged([](Json* j) { (*j)["machine"].erase("hypervisor"); }), HasSubstr("hypervisor"));
  EXPECT_THAT(damaged([](Json* j) { (*j)["machine"]["target"] = "x86"; }), HasSubstr("machines[1]"));
  EXPECT_THAT(damaged([](Json* j) { (*j)["workers"] = 0; }), HasSubstr("workers"));
  EXPECT_THAT(damaged([](Json* j) { (*j)["facts"]["core_bytes_per_second"]["value"] = 0; }),
              HasSubstr("core_bytes_per_second"));
  EXPECT_THAT(damaged([](Json* j) {
                (*j)["facts"]["speed"] = {{"value", 1}, {"source", "measured: x"}};
              }),
              HasSubstr("unknown fact \"speed\""));
  EXPECT_THAT(damaged([](Json* j) { (*j)["facts"]["core_bytes_per_second"]["source"] = "a guess"; }),
              HasSubstr("it must start with \"measured: \""));
  EXPECT_THAT(damaged([](Json* j) { *j = 7; }), HasSubstr("machines[1]"));
}

TEST(Calibration, RefusesTextsThatAreNoCalibrationFile) {
  for (const char* text :
       {"", "{", "[]", "{}", "{\"lathe_calibration\": 1}", "{\"lathe_tuning\": 1, \"records\": []}",
        "{\"lathe_calibration\": 1, \"machines\": {}}",
        "{\"lathe_calibration\": 1, \"machines\": [], \"more\": 1}"})
    EXPECT_EQ(parse_calibrations(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  const auto newer = parse_calibrations("{\"lathe_calibration\": 2, \"something\": []}").status();
  EXPECT_THAT(std::string(newer.message()), HasSubstr("version 2, but this library reads version 1"));
}

TEST(Calibration, LaterEntryOfAMachineReplacesTheEarlierOne) {
  std::vector<Calibration> machines;
  put_calibration(calibration(server(), 1e9), &machines);
  MachineIdentity other = server();
  other.stepping = 9;
  put_calibration(calibration(other, 2e9), &machines);
  put_calibration(calibration(server(), 3e9), &machines);
  ASSERT_EQ(machines.size(), 2u);
  EXPECT_EQ(machines[0].facts.at("core_bytes_per_second").value, 3e9);
  EXPECT_EQ(machines[1].facts.at("core_bytes_per_second").value, 2e9);
  const Json one = to_json(calibration(server(), 1e9)), two = to_json(calibration(server(), 4e9));
  const auto read =
      parse_calibrations(Json({{"lathe_calibration", 1}, {"machines", Json::array({one, two})}}).dump());
  ASSERT_EQ(read->machines.size(), 1u);
  EXPECT_EQ(read->machines[0].facts.at("core_bytes_per_second").value, 4e9);
}

TEST(Calibration, OriginFollowsFromTheSource) {
  EXPECT_EQ(origin_of({1, "measured: one core"}), "measured");
  EXPECT_EQ(origin_of({1, "default: Zen 4, 12 channels"}), "table");
  EXPECT_EQ(origin_of({1, "cpuid leaf 4"}), "system");
}

}  // namespace
}  // namespace lathe
