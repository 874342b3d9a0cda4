// The gateway that a client command talks to.

import { invalid } from "../../base/fault.ts";
import { type CliEnv, type Flag, type ParsedArgs, stringFlag } from "../command.ts";

const LOCAL_GATEWAY = "http://127.0.0.1";
const DEFAULT_PORT = "8787";

export const URL_FLAG: Flag = stringFlag(
  "<url>",
  `The gateway. Default: POSTERN_BASE_URL, or ${LOCAL_GATEWAY} with POSTERN_PORT (${DEFAULT_PORT}).`,
);

/** Without a trailing slash. */
export function gatewayUrl(args: ParsedArgs, { client }: CliEnv): string {
  const local = `${LOCAL_GATEWAY}:${client.port ?? DEFAULT_PORT}`;
  const text = args.value("url") ?? client.baseUrl ?? local;
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw invalid("--url", `"${text}" is not an http or https URL.`);
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname}`.replace(/\/+$/, "");
}

export function unreachable(url: string, cause: unknown): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  const reason = message.includes("ECONNREFUSED")
    ? "the connection was refused"
    : message.replace(/[.?!\s]+$/, "");
  return new Error(
    `The gateway at ${url} cannot be reached: ${reason}. Start it, or set --url to its address.`,
    { cause },
  );
}
