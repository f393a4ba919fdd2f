#include "core/traffic_classes.hpp"

#include "catch.hpp"

using ho::plugin::TrafficClasses;

TEST_CASE("CollNet takes its communicator's traffic class, once") {
  TrafficClasses classes;
  const int context = 0;
  const int other = 0;
  classes.note(7, &context, 3);
  classes.note(8, &other, 4);
  CHECK(classes.take(8) == 4);
  CHECK_FALSE(classes.take(8).has_value());
  CHECK(classes.take(7) == 3);
  CHECK(classes.size() == 0);
}

TEST_CASE("a communicator that never opens CollNet leaves nothing once its network is closed") {
  TrafficClasses classes;
  const int context = 0;
  const int other = 0;
  classes.note(7, &context, 3);
  classes.note(8, &other, 4);
  classes.forget(&context);
  CHECK(classes.size() == 1);
  CHECK_FALSE(classes.take(7).has_value());
  CHECK(classes.take(8) == 4);
  classes.forget(&context);
  classes.forget(nullptr);
}
