// `postern simulate`: the simulated provider alone, for tests of other programs and for the bench.

import { listen, type Listener } from "../http/listen.ts";
import { createSimulator } from "../simulator/simulator.ts";
import { listenError, type ListenAddress } from "./listen-address.ts";
import { type Command, EXIT_USAGE } from "./command.ts";

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
      placeholder: "<port>",
      description: `The port to listen on; ${PORT_DEFAULT} unless told, 0 for any.`,
    },
    host: {
      type: "string",
      placeholder: "<address>",
      description: "The address to listen on; 127.0.0.1 unless told.",
    },
    "require-key": {
      type: "string",
      placeholder: "<key>",
      description: "Refuse every API key but this one.",
    },
    "any-model": {
      type: "boolean",
      description: "Answer for every model name, not only for sim/…",
    },
  },
  run: async (args, cli) => {
    const port = parsePort(args.value("port"));
    if (port === undefined) {
      cli.printError(`--port must be a whole number from 0 to ${PORT_MAX}.`);
      return EXIT_USAGE;
    }
    const key = args.value("require-key");
    const simulator = createSimulator({
      now: cli.now,
      acceptsAnyModel: args.has("any-model"),
      ...(key === undefined ? {} : { requireKey: key }),
    });
    const host = args.value("host") ?? "127.0.0.1";
    const listener = listenOrThrow({ host, port }, simulator.fetch);
    cli.print(`The simulated provider is at http://${host}:${listener.port}`);
    await new Promise<void>((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) cli.onSignal(signal, resolve);
    });
    await listener.stop(true);
    return 0;
  },
};

function listenOrThrow(
  address: ListenAddress,
  handle: (request: Request) => Promise<Response>,
): Listener {
  try {
    // Its silences are ordered, and as long as they were ordered.
    return listen({ ...address, idleSeconds: 0 }, handle);
  } catch (cause) {
    throw listenError(address, { host: "--host", port: "--port" }, cause);
  }
}

function parsePort(text: string | undefined): number | undefined {
  if (text === undefined) return PORT_DEFAULT;
  return /^\d{1,5}$/.test(text) && Number(text) <= PORT_MAX ? Number(text) : undefined;
}
