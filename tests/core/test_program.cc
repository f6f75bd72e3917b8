/*!
 * \file test_program.cc
 * \brief Programs survive encoding, and damaged encodings are refused.
 */

#include "check.h"
#include "core/program/program.h"
#include "core/program/program_tables.h"

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
    for (int64_t i = random.Draw(0, 3); i > 0; --i) {
      node.shapes.push_back(DrawVector(&random, 4));
      node.begins.push_back(DrawVector(&random, 4));
    }
    for (int64_t i = random.Draw(0, 3); i > 0; --i) node.inputs.push_back({random.Draw(0, 9), 1});
    node.pieces.resize(random.Draw(0, 3));
    for (tofu::Piece& piece : node.pieces) {
      for (int64_t begin : DrawVector(&random, 4))
        piece.box.push_back({begin, begin + random.Draw(-5, 1000)});
      piece.sources.resize(random.Draw(0, 3));
      for (tofu::Source& source : piece.sources) {
        source = {random.Draw(0, 5), DrawVector(&random, 4), DrawVector(&random, 4)};
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
      CHECK(decoded.nodes[i].begins == program.nodes[i].begins);
      CHECK(decoded.nodes[i].inputs == program.nodes[i].inputs);
      CHECK(decoded.nodes[i].pieces.size() == program.nodes[i].pieces.size());
      for (size_t p = 0; p < decoded.nodes[i].pieces.size(); ++p)
        CHECK(decoded.nodes[i].pieces[p].box == program.nodes[i].pieces[p].box);
    }
  }
}

void TestDamagedEncodings() {
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

/*! \brief A variable, an operator, and a fetch of a part on another worker. */
Program SmallProgram() {
  Program program;
  program.num_workers = 2;
  program.nodes.resize(3);
  program.nodes[0].shapes = {{6, 4}};
  program.nodes[0].begins = {{0, 0}};
  program.nodes[1].kind = tofu::NodeKind::kOperator;
  program.nodes[1].shapes = {{5}, {}};
  program.nodes[1].begins = {{5}, {}};
  program.nodes[1].inputs = {{0, 0}};
  ProgramNode& fetch = program.nodes[2];
  fetch.kind = tofu::NodeKind::kFetch;
  fetch.worker = 1;
  fetch.set_fill(0.5);
  fetch.shapes = {{3, 4}};
  fetch.begins = {{-1, 0}};
  fetch.inputs = {{1, 0}, {0, 0}};
  fetch.pieces = {{{{1, 3}, {0, 4}}, {{1, {4, 0}}}}};
  program.outputs = {{1, 1}, {2, 0}};
  program.transit = {{2, 0}};
  return program;
}

void TestTables() {
  using Column = tofu::Column;
  const tofu::ProgramTables tables = MakeProgramTables(SmallProgram());
  CHECK(tables.num_workers == 2 && tables.rank == 2);
  CHECK(tables.node_kind == Column({0, 1, 2}) && tables.node_worker == Column({0, 0, 1}));
  CHECK(tables.node_fill == std::vector<double>({0, 0, 0.5}));
  CHECK(tables.entry_node == Column({0, 1, 1, 2}) && tables.entry_rank == Column({2, 1, 0, 2}));
  CHECK(tables.entry_shape == Column({6, 4, 5, 1, 1, 1, 3, 4}));
  CHECK(tables.entry_begin == Column({0, 0, 5, 0, 0, 0, -1, 0}));
  CHECK(tables.read_node == Column({1, 2, 2}) && tables.read_entry == Column({0, 1, 0}));
  CHECK(tables.piece_node == Column({2}));
  CHECK(tables.piece_begin == Column({1, 0}) && tables.piece_extent == Column({2, 4}));
  CHECK(tables.source_piece == Column({0}) && tables.source_read == Column({2}));
  CHECK(tables.source_begin == Column({4, 0}) && tables.source_along == Column({0, 1}));
  CHECK(tables.output_entry == Column({2, 3}) && tables.transit_entry == Column({3}));
}

}  // namespace

int main() {
  TestRoundTrip();
  TestDamagedEncodings();
  TestTables();
  return tofu_test::Finish("program");
}
