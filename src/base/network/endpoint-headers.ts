// Headers that an account chooses for the requests to its endpoint.

import { invalid } from "../fault.ts";

const HEADER_NAME = /^[A-Za-z][A-Za-z0-9-]{0,63}$/;
/** Headers that the gateway sets. */
const RESERVED =
  /^(host|content-.*|transfer-encoding|connection|upgrade|te|trailer|expect|user-agent|accept|accept-encoding|mcp-.*)$/i;
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,1998}[\x21-\x7e])?$/;

/** In lower case. */
export function parseHeaderName(name: string, param: string): string {
  if (!HEADER_NAME.test(name) || RESERVED.test(name))
    throw invalid(
      param,
      `\`${param}\` must be the name of a header that the destination reads, such as authorization.`,
    );
  return name.toLowerCase();
}

export function checkHeaderValue(value: string, param: string): void {
  if (!HEADER_VALUE.test(value))
    throw invalid(param, `\`${param}\` must have 1 to 2,000 visible ASCII characters.`);
}

/** Checks all of them; the names in lower case. */
export function parseHeaders(
  headers: Readonly<Record<string, string>>,
  param: string,
): Readonly<Record<string, string>> {
  const parsed = Object.entries(headers).map(([name, value]) => {
    checkHeaderValue(value, `${param}.${name}`);
    return [parseHeaderName(name, `${param}.${name}`), value];
  });
  return Object.fromEntries(parsed);
}
