// The gateway that a client command talks to.

import { invalid } from "../../base/fault.ts";
import type { CliEnv, Flag, ParsedArgs } from "../command.ts";

const LOCAL_GATEWAY = "http://127.0.0.1:8787";

export const URL_FLAG: Flag = {
  type: "string",
  placeholder: "<url>",
  description: `The gateway. Default: POSTERN_BASE_URL, or ${LOCAL_GATEWAY}.`,
};

/** Without a trailing slash. */
export function gatewayUrl(args: ParsedArgs, { client }: CliEnv): string {
  const text = args.value("url") ?? client.baseUrl ?? LOCAL_GATEWAY;
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw invalid("--url", `"${text}" is not an http or https URL.`);
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname}`.replace(/\/+$/, "");
}

export function unreachable(url: string, cause: unknown): Error {
  const reason = (cause instanceof Error ? cause.message : String(cause)).replace(/[.?!\s]+$/, "");
  return new Error(`The gateway at ${url} cannot be reached: ${reason}. Check --url.`, { cause });
}
