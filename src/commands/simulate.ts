// `postern simulate`: the simulated provider alone, for tests of other programs and for the bench.

import { listen, type Listener } from "../http/listen.ts";
import { createSimulator } from "../simulator/simulator.ts";
import { cannotListen, type Place } from "./address.ts";
import { type Command, EXIT_MISUSED } from "./command.ts";

const PORT_DEFAULT = 8_788;
const PORT_MAX = 65_535;

export const simulate: Command = {
  summary: "Run the simulated provider alone",
  details:
    "It speaks every provider API and answers without a model; docs/simulator.md is its manual.",
  positionals: [],
  flags: {
    port: {
      type: "string",
      value: "<port>",
      means: `The port to listen on; ${PORT_DEFAULT} unless told, 0 for any.`,
    },
    host: {
      type: "string",
      value: "<address>",
      means: "The address to listen on; 127.0.0.1 unless told.",
    },
    "require-key": { type: "string", value: "<key>", means: "Refuse every API key but this one." },
    "any-model": { type: "boolean", means: "Answer for every model name, not only for sim/…" },
  },
  run: async (line, world) => {
    const port = portOf(line.text("port"));
    if (port === undefined) {
      world.complain(`--port must be a whole number from 0 to ${PORT_MAX}.`);
      return EXIT_MISUSED;
    }
    const key = line.text("require-key");
    const simulator = createSimulator({
      now: world.now,
      anyModel: line.has("any-model"),
      ...(key === undefined ? {} : { requireKey: key }),
    });
    const host = line.text("host") ?? "127.0.0.1";
    const listener = listenOr({ host, port }, simulator.fetch);
    world.print(`The simulated provider is at http://${host}:${listener.port}`);
    await new Promise<void>((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) world.onSignal(signal, resolve);
    });
    await listener.stop(true);
    return 0;
  },
};

function listenOr(place: Place, handle: (request: Request) => Promise<Response>): Listener {
  try {
    // Its silences are ordered, and as long as they were ordered.
    return listen({ ...place, idleSeconds: 0 }, handle);
  } catch (cause) {
    throw cannotListen(place, { host: "--host", port: "--port" }, cause);
  }
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return PORT_DEFAULT;
  return /^\d{1,5}$/.test(text) && Number(text) <= PORT_MAX ? Number(text) : undefined;
}
