// Starts a Citus cluster: a coordinator (0) and two workers (1, 2), and obeys commands (server-group.mjs). It needs a PostgreSQL
// with Citus installed:
//
//   POSTERN_TEST_POSTGRES_HOME=/usr/lib/postgresql/15 node test/support/stores/citus-cluster.mjs
//
// prints the URL for POSTERN_TEST_CITUS_URL. An argument names the folder of the data, such as /var/tmp on a disk: commits are synced.

import { writeFileSync } from "node:fs";
import path from "node:path";
import {
  createServerFolder,
  freePort,
  giveToServer,
  initializeDatabase,
  POSTGRES_SETTINGS,
  runProgram,
  waitUntilReady,
} from "./postgres-programs.mjs";
import { obeyCommands } from "./server-group.mjs";

const folder = createServerFolder(process.argv[2]);
const data = ["coordinator", "worker-1", "worker-2"].map((name) => path.join(folder, name));
const ports = [];
for (const directory of data) {
  initializeDatabase(folder, directory);
  // The nodes open connections to each other, and have no password.
  const access = path.join(directory, "pg_hba.conf");
  writeFileSync(access, "host all all 127.0.0.1/32 trust\nlocal all all trust\n");
  giveToServer(access);
  ports.push(await freePort());
}
const settings = [
  ...POSTGRES_SETTINGS,
  "shared_preload_libraries=citus",
  "fsync=on",
  "full_page_writes=on",
  "max_prepared_transactions=200",
  "wal_level=logical",
  "citus.node_conninfo=sslmode=disable",
  // Recovers transactions of two phases soon after a crash; a minute by default.
  "citus.recover_2pc_interval=1s",
  "log_min_messages=panic",
  `unix_socket_directories=${folder}`,
];
const [coordinator, ...workers] = ports;
await obeyCommands({ folder, data, ports, settings: data.map(() => settings) }, async () => {
  for (const port of ports) await waitUntilReady(port);
  // Tests count the commits in the log.
  for (const port of ports)
    for (const name of ["citus", "pg_walinspect"]) runStatement(port, `create extension ${name}`);
  runStatement(coordinator, `select citus_set_coordinator_host('127.0.0.1', ${coordinator})`);
  for (const port of workers)
    runStatement(coordinator, `select citus_add_node('127.0.0.1', ${port})`);
  console.log(`postgres://postgres@127.0.0.1:${coordinator}/postgres`);
});

function runStatement(port, statement) {
  const connection = ["--host=127.0.0.1", `--port=${port}`, "--username=postgres", "postgres"];
  runProgram("psql", ["--quiet", "--no-psqlrc", `--command=${statement}`, ...connection]);
}
