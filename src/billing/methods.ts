// Saving a payment method, and forgetting it: what the processor and this house know of it is brought together here.

import { lockWorkspace, roleOf } from "../accounts/members.ts";
import { record } from "../audit/audit.ts";
import { Fault } from "../base/fault.ts";
import type { Log } from "../base/log.ts";
import type { Db, Tx } from "../store/db.ts";
import { isFresh } from "./checkouts.ts";
import {
  dropMethod,
  dueMethods,
  keepMethod,
  methodOfPage,
  methodsIn,
  openMethod,
  type PaymentMethod,
} from "./method-rows.ts";
import { type Processor, type Vault, vaultOf } from "./processor.ts";

const MINUTE_MS = 60_000;

export interface MethodParts {
  readonly db: Db;
  readonly log: Log;
  readonly processor: Processor;
}

/** Throws where nothing could ever be charged. */
export function demandVault(processor: Processor): Vault {
  const vault = vaultOf(processor);
  if (vault === undefined)
    throw new Fault("conflict", "the processor has no saved methods", {
      message:
        "This gateway is paid by bank transfer, so it has no payment method that it could charge by itself. Buy credits with an invoice.",
    });
  return vault;
}

/** The page at which an owner saves a method; undefined where that has just been done. */
export async function beginSaving(
  parts: MethodParts,
  about: { readonly accountId: string; readonly personId: string; readonly returnUrl: string },
  now: number,
): Promise<string | undefined> {
  const { db, processor } = parts;
  const vault = demandVault(processor);
  const { accountId, personId: savedBy, returnUrl } = about;
  // What was saved or has run out meanwhile is not gone on with.
  for (const known of await methodsIn(db, accountId, "saving"))
    if (known.pageRef !== null && known.processor === processor.id)
      if ((await lookAtMethod(parts, vault, known, now)) === "saved") return undefined;
  const method = await db.write((tx) =>
    openMethod(tx, { accountId, processor: processor.id, savedBy, now }),
  );
  const { ref, url, customer } = await vault.begin({ id: method.id, accountId, returnUrl });
  await db.write((tx) =>
    tx.run(
      "update payment_method set page_ref = ?, customer = ?, due_at = ? where id = ? and state = 'saving'",
      [ref, customer, now + MINUTE_MS, method.id],
    ),
  );
  return url;
}

/** Brings what is being saved up to date for whoever looks, where that was not done just now. */
export async function refreshMethods(
  parts: MethodParts,
  accountId: string,
  now: number,
): Promise<void> {
  const vault = vaultOf(parts.processor);
  if (vault === undefined) return;
  for (const method of await methodsIn(parts.db, accountId, "saving"))
    if (!isFresh(method, now) && method.processor === parts.processor.id)
      await lookAtMethod(parts, vault, method, now);
}

/** Answers false where the page is none at which a method is saved. */
export async function hearOfMethod(
  parts: MethodParts,
  pageRef: string,
  now: number,
): Promise<boolean> {
  const method = await methodOfPage(parts.db, parts.processor.id, pageRef);
  if (method === undefined) return false;
  const vault = vaultOf(parts.processor);
  if (vault !== undefined && method.state === "saving")
    await lookAtMethod(parts, vault, method, now);
  return true;
}

/** Asks after what is being saved, and forgets at the processor what must not be charged any more. */
export async function pollMethods(parts: MethodParts, now: number): Promise<void> {
  const vault = vaultOf(parts.processor);
  if (vault === undefined) return;
  for (const method of await dueMethods(parts.db, parts.processor.id, now))
    try {
      if (method.state === "saving") await lookAtMethod(parts, vault, method, now);
      else await forget(parts.db, vault, method);
    } catch (cause) {
      parts.log.warn("a payment method could not be asked after", { method: method.id, cause });
      await setDue(parts.db, method.id, now + MINUTE_MS);
    }
}

/** Makes it the method that is charged, unless it was given up meanwhile, or who saved it is not the owner any more. */
export async function keepSaved(
  tx: Tx,
  { id, accountId, savedBy }: PaymentMethod,
  { ref, label, now }: { readonly ref: string; readonly label: string; readonly now: number },
): Promise<void> {
  const about = { id, accountId };
  await lockWorkspace(tx, accountId);
  if ((await roleOf(tx, accountId, savedBy)) !== "owner") {
    await dropMethod(tx, about, { ref, now });
    return;
  }
  if (!(await keepMethod(tx, about, { ref, label, now }))) return;
  await record(tx, {
    accountId,
    actor: { type: "person", id: savedBy },
    action: "payment_method.saved",
    target: id,
    detail: { label },
    network: null,
    now,
  });
}

async function lookAtMethod(
  { db }: MethodParts,
  vault: Vault,
  method: PaymentMethod,
  now: number,
): Promise<"open" | "saved" | "expired"> {
  if (method.pageRef === null) return "open";
  const seen = await vault.look(method.pageRef);
  if (seen.state === "saved") {
    await db.write((tx) => keepSaved(tx, method, { ...seen, now }));
    return "saved";
  }
  const next = seen.state === "expired" ? "gone" : "saving";
  await db.write((tx) =>
    tx.run(
      "update payment_method set state = ?, looked_at = ?, due_at = ? where id = ? and state = 'saving'",
      [next, now, next === "gone" ? null : now + MINUTE_MS, method.id],
    ),
  );
  return seen.state;
}

/** What was never saved has nothing to be forgotten, unless its page was used after all. */
async function forget(db: Db, vault: Vault, { id, ref, pageRef }: PaymentMethod): Promise<void> {
  const seen = ref === null && pageRef !== null ? await vault.look(pageRef) : undefined;
  const kept = ref ?? (seen?.state === "saved" ? seen.ref : undefined);
  if (kept !== undefined) await vault.forget(kept);
  await setDue(db, id, null);
}

async function setDue(db: Db, id: string, dueAt: number | null): Promise<void> {
  await db.write((tx) => tx.run("update payment_method set due_at = ? where id = ?", [dueAt, id]));
}
