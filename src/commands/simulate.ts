// `postern simulate`: runs only the simulated provider, for tests of other programs and for benchmarks.

import { createSimulator } from "@postern/simulator";
import { listen, type Listener } from "../http/listen.ts";
import { booleanFlag, type Command, stringFlag, usageFault } from "./command.ts";
import { listenError, type ListenAddress } from "./listen-address.ts";

const PORT_DEFAULT = 8_788;
const PORT_MAX = 65_535;

export const simulate: Command = {
  summary: "Run only the simulated provider",
  details: "Implements every provider API without a model. See docs/site/simulator.md.",
  positionals: [],
  flags: {
    port: stringFlag(
      "<port>",
      `The port to listen on. Default ${PORT_DEFAULT}; 0 for any free port.`,
    ),
    host: stringFlag("<address>", "The address to listen on. Default 127.0.0.1."),
    "require-key": stringFlag("<key>", "Accept only this API key."),
    "any-model": booleanFlag("Accept every model name, not only sim/…, and unknown fields."),
  },
  run: async (args, cli) => {
    const port = parsePort(args.value("port"));
    if (port === undefined)
      throw usageFault(`--port must be a whole number from 0 to ${PORT_MAX}.`);
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
    // Directives can ask for silence of any length.
    return listen({ ...address, idleSeconds: 0 }, handle);
  } catch (cause) {
    throw listenError(address, { host: "--host", port: "--port" }, cause);
  }
}

function parsePort(text: string | undefined): number | undefined {
  if (text === undefined) return PORT_DEFAULT;
  return /^\d{1,5}$/.test(text) && Number(text) <= PORT_MAX ? Number(text) : undefined;
}
