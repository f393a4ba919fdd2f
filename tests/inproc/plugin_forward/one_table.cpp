// A plugin with the net table of one version.
#include "abi/tables.hpp"
#include "net/common.hpp"

#define TABLE_OF(version) HORING_NET_TABLE(version)

TABLE_OF(NET_VERSION);
