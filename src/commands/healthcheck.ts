// `postern healthcheck`: for container images without curl.

import type { Command } from "./command.ts";
import { EXIT_FAILURE } from "./command.ts";
import { errorMessage, withConfig } from "./with-store.ts";

const TIMEOUT_MS = 3_000;
const ALL_INTERFACES = new Set(["0.0.0.0", "::", "[::]"]);

export const healthcheck: Command = {
  summary: "Check that the gateway of these settings responds on this machine",
  details:
    "Requests /healthz; the exit code is 0 if it responds with 200. For the health check of a container.",
  positionals: [],
  flags: {},
  run: (_line, cli) =>
    withConfig(cli, async ({ host, port }) => {
      const url = `http://${urlHost(host)}:${port}/healthz`;
      const { status } = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
        (cause: unknown) => {
          throw new Error(`${url} does not respond: ${errorMessage(cause)}`, { cause });
        },
      );
      cli.print(`${url} responded with ${status}`);
      return status === 200 ? 0 : EXIT_FAILURE;
    }),
};

function urlHost(host: string): string {
  if (ALL_INTERFACES.has(host)) return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
