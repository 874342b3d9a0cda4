// An HTTP server on Node's parser, to compare Bun's with. It prints its port. At the end of a connection it sends the list
// of the requests that it read completely.

import { createServer } from "node:http";

const readOf = new WeakMap();

const server = createServer({ requireHostHeader: false }, (request) => {
  const read = readOf.get(request.socket);
  const entry = { method: request.method };
  read.push(entry);
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("error", () => {});
  request.on("end", () => {
    entry.body = Buffer.concat(chunks).toString("latin1");
  });
});
// The end of a body is reported some turns of the event loop after its last byte.
const REPORT_AFTER_MS = 20;
const finish = (socket) =>
  setTimeout(() => {
    if (socket.writable)
      socket.end(
        `${JSON.stringify(readOf.get(socket).filter(({ body }) => body !== undefined))}\n`,
      );
  }, REPORT_AFTER_MS);
// Otherwise the socket is destroyed as soon as the client has sent everything.
server.httpAllowHalfOpen = true;
server.on("connection", (socket) => {
  readOf.set(socket, []);
  socket.on("end", () => finish(socket));
});
server.on("clientError", (_, socket) => finish(socket));
for (const event of ["connect", "upgrade"])
  server.on(event, (request, socket) => {
    readOf.get(socket).push({ method: request.method, body: "" });
    finish(socket);
  });
server.on("checkContinue", (request, response) => server.emit("request", request, response));
server.on("checkExpectation", (request, response) => server.emit("request", request, response));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
// The parent ends this process by closing its standard input.
process.stdin.resume().on("end", () => process.exit(0));
