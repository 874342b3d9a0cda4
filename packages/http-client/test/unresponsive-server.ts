// A process that listens but never accepts: once its backlog is full, connecting clients get no reply to their SYN.

import { writeSync } from "node:fs";
import { createServer } from "node:net";

const server = createServer();
server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
  const address = server.address();
  writeSync(1, `port ${typeof address === "object" && address !== null ? address.port : 0}\n`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
