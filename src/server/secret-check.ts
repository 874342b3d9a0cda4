// A check value of the master secret in the store. With another secret every API key would be refused as unknown, and what is
// encrypted could not be read. It owns the table secret_check.

import { deriveKey, fingerprint, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Db, type Reader, text, type Tx } from "../store/db.ts";

/** Undefined if the store was used with this secret or the previous one, or with none yet. */
export async function findSecretProblem(
  reader: Reader,
  master: MasterSecret,
): Promise<string | undefined> {
  const rows = await reader.all("select id from secret_check");
  const ids = rows.map((row) => text(row, "id"));
  if (ids.length === 0 || checkValues(master).some((id) => ids.includes(id))) return undefined;
  return "the master secret is not the one that this store was created with, so every API key would be refused: set POSTERN_SECRET to that one (in development without POSTERN_SECRET it is the file secret of the data folder). To replace it, set the old one as POSTERN_SECRET_PREVIOUS";
}

/** Throws if the secret is wrong; records a new one. */
export async function acceptSecret(db: Db, master: MasterSecret, now: number): Promise<void> {
  await db.write(async (tx) => {
    const problem = await findSecretProblem(tx, master);
    if (problem !== undefined) throw new Error(problem);
    const [current = ""] = checkValues(master);
    await tx.run(
      "insert into secret_check (id, first_used_at) values (?, ?) on conflict (id) do nothing",
      [current, now],
    );
  });
}

/** After a rotation, when nothing needs the previous secret any more. */
export async function forgetOtherSecrets(tx: Tx, master: MasterSecret): Promise<void> {
  const [current = ""] = checkValues(master);
  await tx.run("delete from secret_check where id <> ?", [current]);
}

/** The check value of the current secret, then of the previous one. */
function checkValues(master: MasterSecret): readonly string[] {
  return deriveKey(master, "secret-check/v1").map((key) => fingerprint([key], "postern"));
}
