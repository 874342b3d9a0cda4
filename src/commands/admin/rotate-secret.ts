// `postern admin rotate-secret`: moves stored data from the previous master secret to the current one.

import { STREAM_HEADERS } from "../../activity/audit-stream-rows.ts";
import { webhookSecrets } from "../../activity/webhook-rows.ts";
import { batchDataKeys } from "../../batches/batch-encryption.ts";
import type { Config } from "../../config/config.ts";
import { loadMasterSecret } from "../../config/master-secret.ts";
import { countKeysByPreviousSecret } from "../../keys/key-hashes.ts";
import { MCP_SERVER_HEADERS } from "../../mcp-servers/mcp-servers.ts";
import { PROMPT_DATA_KEYS } from "../../prompt-log/prompt-log.ts";
import { PROVIDER_DATA_KEYS } from "../../provider-keys/provider-key-encryption.ts";
import { RESPONSE_DATA_KEYS } from "../../responses/storage/response-encryption.ts";
import { findSecretProblem, forgetOtherSecrets } from "../../server/secret-check.ts";
import { rotateSigningKey } from "../../signing/signing-keys.ts";
import { SINK_SECRETS } from "../../sinks/sinks.ts";
import { SSO_SECRETS } from "../../sso/connections.ts";
import type { Db } from "../../store/db.ts";
import { type EncryptedColumn, reencryptRows } from "../../store/reencrypt-rows.ts";
import { type CliEnv, type Command, EXIT_FAILURE, usageFault } from "../command.ts";
import { withStore } from "../with-store.ts";

const COLUMNS: readonly (readonly [name: string, column: EncryptedColumn])[] = [
  ["provider keys", PROVIDER_DATA_KEYS],
  ["webhook secrets", webhookSecrets("sealed")],
  ["former webhook secrets", webhookSecrets("former_sealed")],
  ["audit stream headers", STREAM_HEADERS],
  ["MCP server headers", MCP_SERVER_HEADERS],
  ["identity provider secrets", SSO_SECRETS],
  ["stored responses", RESPONSE_DATA_KEYS],
  ["batches", batchDataKeys("batch")],
  ["files", batchDataKeys("stored_file")],
  ["logged prompts", PROMPT_DATA_KEYS],
  ["secrets of sinks", SINK_SECRETS],
];

export const rotateSecretCommand: Command = {
  summary: "Move stored data from POSTERN_SECRET_PREVIOUS to POSTERN_SECRET",
  details:
    "Runs while the gateway serves. API keys move on their next use; the output says how many have not. Safe to repeat.\nExit code 1 if something cannot be decrypted with either secret.",
  positionals: [],
  flags: {},
  run: (_line, cli) => withStore(cli, (db, config) => rotateSecret(db, config, cli)),
};

export const rotateSigningKeyCommand: Command = {
  summary: "Begin a new key for the signatures of quotes and receipts",
  details:
    "Every process uses the new key within a minute. Earlier public keys stay in /.well-known/jwks.json, so receipts stay valid.",
  positionals: [],
  flags: {},
  run: (_line, cli) =>
    withStore(cli, async (db, config) => {
      const master = loadMasterSecret(config, config.store.dataDir);
      const id = await db.write((tx) => rotateSigningKey(tx, master, cli.now()));
      cli.print(`New quotes and receipts are signed with ${id}.`);
      return 0;
    }),
};

async function rotateSecret(db: Db, config: Config, cli: CliEnv): Promise<number> {
  if (config.previousSecret === undefined)
    throw usageFault(
      "POSTERN_SECRET_PREVIOUS is not set. Set it to the old secret and POSTERN_SECRET to the new one, for the gateway and for this command.",
    );
  const master = loadMasterSecret(config, config.store.dataDir);
  const problem = await findSecretProblem(db, master);
  if (problem !== undefined) throw new Error(problem);
  let hasUnreadable = false;
  for (const [name, column] of COLUMNS) {
    const { read, moved, unreadable } = await reencryptRows(db, master, column);
    cli.print(`Re-encrypted ${moved} of ${read} ${name}.`);
    if (unreadable.length === 0) continue;
    hasUnreadable = true;
    cli.printError(
      `${unreadable.length} ${name} cannot be decrypted with either secret: ${unreadable.slice(0, 5).join(", ")}`,
    );
  }
  const { live, waiting, oldest } = await countKeysByPreviousSecret(db, master, cli.now());
  if (waiting === 0 && !hasUnreadable) await db.write((tx) => forgetOtherSecrets(tx, master));
  if (waiting === 0)
    cli.print(
      `All ${live} live API keys moved. Remove POSTERN_SECRET_PREVIOUS 24 hours after the rotation began, when sessions, claims and stored replies of idempotent requests have moved too.`,
    );
  else
    cli.print(
      `${waiting} of ${live} live API keys still need the previous secret. A key moves when it is used. Without POSTERN_SECRET_PREVIOUS these keys stop working, such as: ${oldest.map(({ id, accountId }) => `${id} of ${accountId}`).join(", ")}`,
    );
  return hasUnreadable ? EXIT_FAILURE : 0;
}
