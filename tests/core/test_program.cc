/*!
 * \file test_program.cc
 * \brief Programs survive encoding, and damaged encodings are refused.
 */
#include <cmath>
#include <limits>

#include "check.h"
#include "core/program/program.h"

namespace {

using tofu::Program;
using tofu::ProgramNode;
using tofu_test::Random;

std::vector<int64_t> DrawVector(Random* random, int64_t longest) {
  std::vector<int64_t> values(random->Draw(0, longest));
  for (int64_t& value : values) value = random->Draw(-5, 1000);
  return values;
}

Program DrawProgram(uint64_t seed) {
  Random random(seed);
  Program program;
  program.num_workers = random.Draw(1, 64);
  program.nodes.resize(random.Draw(0, 6));
  for (ProgramNode& node : program.nodes) {
    node.kind = static_cast<tofu::NodeKind>(random.Draw(0, 2));
    node.id = random.Draw(0, 100);
    node.worker = random.Draw(0, 7);
    node.phase = random.Draw(0, 2);
    node.set_fill(static_cast<double>(random.Draw(-3, 3)) / 4);
    for (int64_t i = random.Draw(0, 3); i > 0; --i) node.shapes.push_back(DrawVector(&random, 4));
    for (int64_t i = random.Draw(0, 3); i > 0; --i) node.inputs.push_back({random.Draw(0, 9), 1});
    node.pieces.resize(random.Draw(0, 3));
    for (tofu::Piece& piece : node.pieces) {
      piece.begin = DrawVector(&random, 4);
      piece.extent = DrawVector(&random, 4);
      piece.sources.resize(random.Draw(0, 3));
      for (tofu::Source& source : piece.sources) {
        source = {random.Draw(0, 5), DrawVector(&random, 4)};
      }
    }
  }
  for (std::vector<tofu::Entry>* entries : {&program.outputs, &program.transit}) {
    for (int64_t i = random.Draw(0, 5); i > 0; --i) entries->push_back({random.Draw(0, 5), 0});
  }
  return program;
}

void TestRoundTrip() {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Program program = DrawProgram(seed);
    const std::vector<int64_t> data = EncodeProgram(program);
    const Program decoded = tofu::DecodeProgram(data.data(), data.size());
    CHECK(EncodeProgram(decoded) == data);
    CHECK(decoded.num_workers == program.num_workers);
    CHECK(decoded.nodes.size() == program.nodes.size());
    CHECK(decoded.outputs == program.outputs);
    CHECK(decoded.transit == program.transit);
    for (size_t i = 0; i < decoded.nodes.size(); ++i) {
      CHECK(decoded.nodes[i].fill() == program.nodes[i].fill());
      CHECK(decoded.nodes[i].shapes == program.nodes[i].shapes);
      CHECK(decoded.nodes[i].inputs == program.nodes[i].inputs);
    }
  }
}

void TestFill() {
  ProgramNode node;
  CHECK(node.fill() == 0);
  node.set_fill(-std::numeric_limits<double>::infinity());
  CHECK(std::isinf(node.fill()) && node.fill() < 0);
}

void TestDamage() {
  Program program = DrawProgram(3);
  program.nodes.resize(2);
  std::vector<int64_t> data = EncodeProgram(program);
  for (size_t size = 0; size < data.size(); ++size) {
    CHECK_THROWS(std::invalid_argument, tofu::DecodeProgram(data.data(), size), "");
  }
  data.push_back(0);
  CHECK_THROWS(std::invalid_argument, tofu::DecodeProgram(data.data(), data.size()), "goes on");
  data.pop_back();
  data[3] = 9;
  CHECK_THROWS(std::invalid_argument, tofu::DecodeProgram(data.data(), data.size()),
               "unknown kind");
  data[2] = int64_t{1} << 60;
  CHECK_THROWS(std::invalid_argument, tofu::DecodeProgram(data.data(), data.size()), "count");
  data[0] = 1;
  CHECK_THROWS(std::invalid_argument, tofu::DecodeProgram(data.data(), data.size()), "version");
}

}  // namespace

int main() {
  TestRoundTrip();
  TestFill();
  TestDamage();
  return tofu_test::Finish("program");
}
