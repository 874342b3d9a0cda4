// The provider-key routes behind the real request handler and idempotency, on a given store, with a fake provider.

import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import { createRequestHandler } from "../../src/http/request-handler.ts";
import { grantedScopes } from "../../src/http/scopes.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import { createKeyCheck } from "../../src/provider-keys/key-check.ts";
import { providerKeyRoutes } from "../../src/provider-keys/provider-keys-routes.ts";
import { createProviderKeys, type ProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import type { Db } from "../../src/store/db.ts";
import { type ApiResponse, callRoutes } from "../support/call-routes.ts";
import type { FakeProvider } from "./fake-provider.ts";

export const MASTER = secret("a master secret that only tests know, forty-three");
export const START_MS = 1_790_000_000_000;
/** Only a failure takes this long: a check that times out leaves the key unchecked. */
const KEY_CHECK_TIMEOUT_MS = 60_000;

export interface ProviderKeysHarness {
  readonly providerKeys: ProviderKeys;
  readonly logLines: readonly string[];
  readonly clock: { now: number };
  readonly call: (
    caller: string,
    method: string,
    path: string,
    request?: { readonly body?: unknown; readonly headers?: Readonly<Record<string, string>> },
  ) => Promise<ApiResponse>;
}

/** The callers are `alice` and `bob`, with accounts of that name; the providers are `openai` and `sim`. */
export async function openProviderKeysHarness(
  db: Db,
  provider: FakeProvider,
): Promise<ProviderKeysHarness> {
  await insertApiKeys(db);
  const clock = { now: START_MS };
  const logLines: string[] = [];
  const providerKeys = createProviderKeys({
    db,
    master: MASTER,
    providers: () => ["openai", "sim"],
    check: createKeyCheck({
      endpointOf: (id) => (id === "mistral" ? undefined : provider.endpoint({ id })),
      timeoutMs: KEY_CHECK_TIMEOUT_MS,
    }),
  });
  const idempotency = createIdempotency(MASTER);
  const handle = createRequestHandler({
    routes: providerKeyRoutes({ db, providerKeys }),
    baseUrl: "http://127.0.0.1:8787",
    log: createLog({
      level: "debug",
      isPretty: false,
      now: () => clock.now,
      write: (line) => logLines.push(line),
    }),
    now: () => clock.now,
    keys: {
      find: async (raw) =>
        raw === "alice" || raw === "bob"
          ? { accountId: `acct_${raw}`, keyId: `key_${raw}`, granted: grantedScopes(null, false) }
          : undefined,
    },
    writes: {
      db,
      beginIdempotent: idempotency.begin,
      finishIdempotent: idempotency.finish,
    },
    clientIpOf: (peer) => peer,
    isDraining: () => false,
  });
  const call: ProviderKeysHarness["call"] = (caller, method, path, { body, headers } = {}) =>
    callRoutes(handle, { caller, method, path, body, headers });
  return { providerKeys, logLines, clock, call };
}

async function insertApiKeys(db: Db): Promise<void> {
  await db.write(async (tx) => {
    for (const name of ["alice", "bob"])
      await tx.run(
        `insert into api_key (id, account_id, hash, prefix, last4, created_at) values (?, ?, ?, '', '', 0)
         on conflict (id) do nothing`,
        [`key_${name}`, `acct_${name}`, name],
      );
  });
}
