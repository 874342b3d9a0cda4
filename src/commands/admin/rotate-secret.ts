// `postern admin rotate-secret`: moves stored data from the previous master secret to the current one.

import { reencryptStreams } from "../../activity/reencrypt-streams.ts";
import { reencryptWebhooks } from "../../activity/reencrypt-webhooks.ts";
import type { MasterSecret } from "../../base/crypto/encryption.ts";
import { reencryptBatches } from "../../batches/batch-encryption.ts";
import type { Config } from "../../config/config.ts";
import { loadMasterSecret } from "../../config/master-secret.ts";
import { countKeysByPreviousSecret } from "../../keys/key-hashes.ts";
import { reencryptMcpServers } from "../../mcp-servers/mcp-servers.ts";
import { reencryptPrompts } from "../../prompt-log/prompt-log.ts";
import { reencryptProviderKeys } from "../../provider-keys/reencrypt-provider-keys.ts";
import { reencryptResponses } from "../../responses/storage/reencrypt-responses.ts";
import { findSecretProblem, forgetOtherSecrets } from "../../server/secret-check.ts";
import { rotateSigningKey } from "../../signing/signing-keys.ts";
import { reencryptSinks } from "../../sinks/reencrypt-sinks.ts";
import { reencryptSsoSecrets } from "../../sso/reencrypt-sso.ts";
import type { Db } from "../../store/db.ts";
import type { ReencryptedRows } from "../../store/reencrypt-rows.ts";
import { type CliEnv, type Command, EXIT_FAILURE, usageFault } from "../command.ts";
import { withStore } from "../with-store.ts";

const TABLES: Readonly<Record<string, (db: Db, master: MasterSecret) => Promise<ReencryptedRows>>> =
  {
    "provider keys": reencryptProviderKeys,
    "webhook secrets": reencryptWebhooks,
    "audit stream headers": reencryptStreams,
    "MCP server headers": reencryptMcpServers,
    "identity provider secrets": reencryptSsoSecrets,
    "stored responses": reencryptResponses,
    "batches and files": reencryptBatches,
    "logged prompts": reencryptPrompts,
    "secrets of sinks": reencryptSinks,
  };

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
  for (const [name, reencryptTable] of Object.entries(TABLES)) {
    const { read, moved, unreadable } = await reencryptTable(db, master);
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
