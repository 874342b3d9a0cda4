// Looks up TXT records. The DNS is asked for the absolute name: search domains of the gateway's network do not apply.

import { Resolver } from "node:dns/promises";

/** The texts of the records; an empty list if the name has none. Throws if the DNS gives no answer. */
export type ResolveTxt = (name: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 3_000;
const TRIES = 2;
const ABSENT = /^(ENOTFOUND|ENODATA)$/;

/** `servers` replaces the name servers of the system, such as "127.0.0.1:5353". */
export function createTxtResolver(servers?: readonly string[]): ResolveTxt {
  return async (name) => {
    const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    try {
      // A record of more than 255 bytes is a list of strings.
      return (await resolver.resolveTxt(name)).map((parts) => parts.join(""));
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      if (ABSENT.test(code.replace(/^DNS_/, ""))) return [];
      throw error;
    }
  };
}
